// Chains: what the settings mean, and the names of components.
import assert from 'node:assert/strict';
import test from 'node:test';
import { load } from './load.mjs';

const {
  chainName, chosenChain, componentNames, configuredChains, loginCommand, namedChains, quoted, splitWords,
} = await load('chains');

const named = [{ name: 'Tours', components: ['walkthrough', 'my-agent'] }];

test('a chain is a list, or a name', () => {
  assert.deepEqual(chosenChain(['ide', ' my-agent '], named), {
    chain: { name: 'ide → my-agent', components: ['ide', 'my-agent'] },
  });
  assert.deepEqual(chosenChain('Tours', named), { chain: named[0] });
  assert.deepEqual(chosenChain(['Tours'], named), { chain: named[0] });
  assert.deepEqual(chosenChain(['my-agent'], named), { chain: { name: 'my-agent', components: ['my-agent'] } });
});

test('a name that does not exist is named, and what is no chain is none', () => {
  assert.match(chosenChain('Turs', named).problem, /no chain 'Turs'/);
  for (const value of [undefined, null, [], '', '  ', 7, {}, [3]]) assert.equal(chosenChain(value, named), null);
});

test('wrong chains of the settings are left out', () => {
  assert.deepEqual(namedChains({ Tours: ['walkthrough', 'my-agent'], none: [], wrong: 'x', mixed: ['a', 1] }), named);
  for (const value of [null, [], 'x', undefined]) assert.deepEqual(namedChains(value), []);
});

test('components have the names that conductor gives them', () => {
  assert.deepEqual(componentNames([
    '/opt/bin/claude-code-acp --x', 'npx -y @zed-industries/claude-code-acp', 'python3 -u agent.py', "sh -c 'exec agent'",
    'tee a', 'tee b', 'LEVEL=debug node ./tee.js --to "my log"', 'builtin:ide',
    '{"command":"node","args":["a b","my.mjs"]}', '{"name":"n","command":"x"}',
  ]), ['claude-code-acp', 'claude-code-acp#2', 'agent', 'sh', 'tee', 'tee#2', 'tee#3', 'ide', 'my', 'n']);
  assert.equal(chainName(['walkthrough', 'KEY=secret my-agent']), 'walkthrough → my-agent');
});

test('words are split as a shell does, and paths of Windows stay', () => {
  assert.deepEqual(splitWords(String.raw`a 'b c' "d \"e" f\ g ''`, false), ['a', 'b c', 'd "e', 'f g', '']);
  assert.deepEqual(splitWords(String.raw`C:\bin\agent.exe "C:\My Agent\a.exe"`, true), [
    String.raw`C:\bin\agent.exe`, String.raw`C:\My Agent\a.exe`,
  ]);
  for (const word of ['a', 'a b', "it's", '', '$x', '/usr/bin/x']) {
    assert.deepEqual(splitWords(quoted(word), false), [word]);
  }
});

test('chains of the configuration are read in each form, and nothing else is', () => {
  const chains = [{ name: 'a', components: ['x', '{"command":"y"}'] }];
  assert.deepEqual(configuredChains('{"chains":{"a":["x",{"command":"y"}]},"more":1}'), chains);
  assert.deepEqual(configuredChains('{"chains":{"a":{"components":["x",{"command":"y"}]}}}'), chains);
  assert.deepEqual(configuredChains('{"chains":[{"name":"a","components":["x",{"command":"y"}]}]}'), chains);
  for (const text of ['', 'error', '[]', '{}', '{"chains":7}', '{"chains":{"a":[]}}']) {
    assert.deepEqual(configuredChains(text), []);
  }
});

test('a log-in starts the agent with its own command line', () => {
  assert.equal(loginCommand('X=1 AGENT --login', 'npx -y my-agent'), 'X=1 npx -y my-agent --login');
  assert.equal(loginCommand('AGENT', '{"command":"my agent","args":["a"]}'), "'my agent' a");
  assert.equal(loginCommand('other AGENTS', 'x'), 'other AGENTS');
  assert.equal(loginCommand('AGENT $&', 'x $1'), 'x $1 $&');
});
