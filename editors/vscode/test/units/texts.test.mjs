// Texts for people and for the agent.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { load } from './load.mjs';

const { questionText, withoutImages } = await load('questions');
const { isExternal, messageText, shortLine } = await load('lines');
const { errorLine, reasonOf } = await load('stderr');

test('a question has its place, its code and its words', () => {
  const text = questionText('src/a.rs', '5', '    let a = 1;', 'rust', ' Why?\n');
  assert.equal(text, 'About src/a.rs:5\n\n```rust\n    let a = 1;\n```\n\nWhy?');
});

test('code with fences gets a longer one, and long code is cut', () => {
  const text = questionText('a.md', '1-3', '```\nx\n```', 'markdown', '?');
  assert.ok(text.includes('\n````markdown\n```\nx\n```\n````\n'));
  const long = questionText('a', '1-100', 'x\n'.repeat(100), 'a;b', '?');
  assert.ok(long.includes('\n…\n```'));
  assert.ok(long.length < 300);
});

test('the reason of an end is what conductor said last', () => {
  const last = "conductor: agent 'a' ended: boom [more: conductor errors crashed]";
  const error = `'/bin/conductor' exited with status 1\n  WARN x\n  ${last}`;
  assert.equal(reasonOf(error), "The chain has ended: agent 'a' ended: boom");
  assert.equal(reasonOf('spawn failed\nmore'), 'The chain has ended: spawn failed');
  assert.equal(reasonOf(null), 'The chain has ended.');
});

test('lines of conductor have their level, and lines of components are as they are', () => {
  const line = (rest) => errorLine(`2026-11-18T09:27:10.259169Z ${rest}`);
  assert.deepEqual(line(' WARN acp_conductor::host: slow'), { level: 'warn', text: 'acp_conductor::host: slow' });
  const copy = line('ERROR acp_conductor::telemetry: [a] x');
  assert.deepEqual(copy, { level: 'debug', text: 'acp_conductor::telemetry: [a] x' });
  assert.deepEqual(errorLine('[my-agent] WARN something'), { level: 'info', text: '[my-agent] WARN something' });
});

test('a comment has no images, whatever they are written like, and code stays as it is', () => {
  for (const text of [
    '![a](https://x/y)', '![a [b] c](<https://x>)', '![a][r]\n\n[r]: https://x', '![r]\n\n[r]: https://x', '`x` ![a]( https://x )',
  ]) {
    assert.ok(!withoutImages(text).includes('!['), text);
  }
  for (const text of ['Use `vec![1, 2]`.', 'a [link](https://x)', '!']) assert.equal(withoutImages(text), text);
});

test('a message has one line, is short, and has no links', () => {
  const text = messageText('first\n[Open](command:workbench.action.terminal.new) \u202ex');
  assert.equal(text, 'first [Open]\u200b(command:workbench.action.terminal.new) x');
  assert.equal(messageText(`${'a]('.repeat(1000)}`).includes(']('), false);
  assert.ok(shortLine('x'.repeat(10_000_000), 80).length === 80);
  assert.equal(shortLine(`${'a'.repeat(6)}🎉🎉`, 8), 'aaaaaa…');
  assert.equal(shortLine(' \n ', 80), '');
});

test('all messages are shown by messages.ts', () => {
  const folder = join(import.meta.dirname, '../../src');
  const users = readdirSync(folder).filter((name) => /show(Information|Warning|Error)Message/.test(readFileSync(join(folder, name), 'utf8')));
  assert.deepEqual(users, ['messages.ts']);
});

test('only whole addresses of pages and mailboxes are opened', () => {
  for (const href of ['https://a.example/x%2Fy?q=%26#z', 'HTTP://a.example', 'mailto:a@b.example']) assert.ok(isExternal(href), href);
  for (const href of [
    '', 'a.example', '//a.example', 'file:///etc/passwd', 'command:x', 'vscode://x/y', 'javascript:alert(1)', 'https:', 'https://',
    'https://[', 'https://a.example/a b', 'java\nscript:x', 'https://a.example/\n', ' https://a.example',
  ]) assert.equal(isExternal(href), false, href);
});
