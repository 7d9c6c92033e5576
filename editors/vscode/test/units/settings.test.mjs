// The values of settings: whatever the file of the settings contains, the extension gets what it can use.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { load } from './load.mjs';

const {
  chainOf, chainsOf, countOf, flagOf, textOf, variablesOf, wordOf, wordsOf,
} = await load('setting-values');

/** Values of every kind. */
const others = [null, undefined, 7, true, 'text', 'a\0b', [], ['a'], ['a', 5], {}, { a: 'b' }, { a: 5 }];
const checks = {
  text: [(it) => textOf('path', it), '', ['text']],
  words: [(it) => wordsOf('options', it), [], [[], ['a']]],
  flag: [(it) => flagOf('log.messages', it, false), false, [true]],
  word: [(it) => wordOf('files.outside', it, ['ask', 'deny'], 'ask'), 'ask', ['deny']],
  count: [(it) => countOf('conversations.keep', it, 200, 30), 30, [7]],
  chain: [(it) => chainOf('chain', it), null, ['text', [], ['a']]],
  chains: [(it) => chainsOf('chains', it), {}, [{}, { a: ['b'] }]],
  variables: [(it) => variablesOf('environment', it), {}, [{}, { a: 'b' }, { a: null }]],
};

test('a right value is used as it is, and a wrong one is its default with a problem', () => {
  for (const [name, [check, usual, rights]] of Object.entries(checks)) {
    const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
    for (const value of rights) assert.deepEqual(check(value), { value, problem: null }, name);
    const isNone = (it) => name === 'chain' && (it === null || it === undefined);
    for (const value of others.filter((it) => !isNone(it) && !rights.some((good) => same(good, it)))) {
      const found = check(value);
      assert.deepEqual(found.value, usual, `${name}: ${JSON.stringify(value)}`);
      assert.match(found.problem, /^The setting conductor\.[a-z.]+ must be .*, not .*\.$/, `${name}: ${JSON.stringify(value)}`);
    }
  }
});

test('without a chain, none is chosen', () => {
  for (const value of [null, undefined]) assert.deepEqual(chainOf('chain', value), { value: null, problem: null });
});

test('of the chains with a name, those that are wrong are left out', () => {
  const { value, problem } = chainsOf('chains', { good: ['a'], bad: 'a' });
  assert.deepEqual(value, { good: ['a'] });
  assert.equal(problem, "The setting conductor.chains must be an object with lists of texts, not a text at 'bad'.");
});

test('a number of conversations that is wrong is never 0', () => {
  const count = (value) => countOf('conversations.keep', value, 200, 30).value;
  for (const value of ['all', '', null, [], {}, NaN, -1, -Infinity, 2.5, false]) assert.equal(count(value), 30, String(value));
  assert.deepEqual([0, 1, 200, 201, Infinity].map(count), [0, 1, 200, 200, 200]);
});

test('a problem repeats no value of a variable', () => {
  for (const value of [{ KEY: ['secret'] }, 'KEY=secret', ['secret'], { KEY: 'secret\0' }]) {
    assert.doesNotMatch(variablesOf('environment', value).problem, /secret/);
  }
  assert.match(variablesOf('environment', { PORT: 8080 }).problem, /a number at 'PORT'/);
  assert.match(variablesOf('environment', { 'A=B': 'x' }).problem, /the name 'A=B'/);
});

test('each setting that is declared is read', () => {
  const root = join(import.meta.dirname, '../..');
  const { contributes } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const source = readFileSync(join(root, 'src/settings.ts'), 'utf8');
  for (const name of Object.keys(contributes.configuration.properties)) {
    assert.ok(source.includes(`Of('${name.replace('conductor.', '')}', `), name);
  }
});
