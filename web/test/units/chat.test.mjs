// What the chat computes without a browser.
import assert from 'node:assert/strict';
import test from 'node:test';
import { load } from './load.mjs';

const { markSuspicious, isSuspicious } = await load('base/suspicious.ts');
const { completionAt, complete, mentions } = await load('chat/completion.ts');
const { attachFile } = await load('chat/attachments.ts');
const { overview } = await load('chat/model.ts');
const { bytes, count, duration, plural, ago } = await load('base/format.ts');

const marked = (text) => markSuspicious(text).filter((piece) => piece.why).map((piece) => piece.why);

test('ordinary commands have no marks, in any language', () => {
  for (const text of ['cargo test -- --nocapture', 'echo "Grüße, 世界" | tee out.txt', 'git commit -m "Привет, мир"',
    'rm -rf ./build\n  && make', 'echo ελληνικά', 'printf "%s\\t" 🎉']) {
    assert.deepEqual(marked(text), [], text);
  }
});

test('invisible and reordering characters are named', () => {
  assert.deepEqual(marked('rm\u202e txt'), ['U+202E right-to-left override']);
  assert.deepEqual(marked('a\u200bb\u2066c'), ['U+200B zero width space', 'U+2066 left-to-right isolate']);
  assert.deepEqual(marked('ls\u00a0-l'), ['U+00A0 no-break space']);
  assert.deepEqual(marked('\u001b[31m'), ['U+001B escape']);
  assert.deepEqual(marked('a\u{e0041}'), ['U+E0041']);
});

test('look-alike characters are marked in words that read as Latin', () => {
  assert.deepEqual(marked('curl ехample.com'), ['U+0435, not the letter e', 'U+0445, not the letter x']);
  assert.deepEqual(marked('сору'), ['с', 'о', 'р', 'у'].map((c, i) => `U+0${c.codePointAt(0).toString(16)}, not the letter ${'copy'[i]}`.replace(/U\+0(\w+)/, (_, h) => `U+0${h.toUpperCase()}`)));
  assert.deepEqual(marked('rm –rf'), ['U+2013, not -']);
  assert.deepEqual(marked('ｒm'), ['U+FF52, not r']);
  assert.equal(isSuspicious('plain'), false);
});

test('the pieces make the text again', () => {
  const text = 'a\u202eb\u200b сору\n–x';
  assert.equal(markSuspicious(text).map((piece) => piece.text).join(''), text);
});

test('completions are found at the caret', () => {
  assert.deepEqual(completionAt('/pl', 3), { kind: 'command', text: 'pl', start: 0, end: 3 });
  assert.equal(completionAt('see /pl', 7), null);
  assert.deepEqual(completionAt('see @src/r', 10), { kind: 'file', text: 'src/r', start: 4, end: 10 });
  assert.equal(completionAt('me@example.org', 14), null);
  assert.equal(completionAt('@a b', 4), null);
});

test('a chosen completion replaces what was typed', () => {
  const query = completionAt('see @src/r now', 10);
  assert.deepEqual(complete('see @src/r now', query, 'src/router.rs'), { text: 'see @src/router.rs now', caret: 18 });
  assert.deepEqual(complete('/pl', completionAt('/pl', 3), 'plan'), { text: '/plan ', caret: 6 });
});

test('mentions are found once and without the end of the sentence', () => {
  assert.deepEqual(mentions('See @a.rs, (@b/c.rs) and @a.rs. Mail me@x.org'), ['a.rs', 'b/c.rs']);
});

test('files are attached by their type, with limits', async () => {
  const file = (data, name, type) => new File([data], name, { type });
  assert.deepEqual(await attachFile(file('hi', 'a.txt', 'text/plain'), [], true), { attach: 'text', name: 'a.txt', text: 'hi' });
  const image = await attachFile(file(new Uint8Array([1, 2, 3]), 'a.png', 'image/png'), [], true);
  assert.deepEqual(image, { attach: 'image', name: 'a.png', mime: 'image/png', data: 'AQID' });
  assert.match((await attachFile(file('x', 'a.svg', 'image/svg+xml'), [], true)).problem, /PNG/);
  assert.match((await attachFile(file('x', 'a.png', 'image/png'), [], false)).problem, /does not take images/);
  assert.match((await attachFile(file(new Uint8Array([0, 255]), 'a.bin', ''), [], true)).problem, /neither/);
  assert.match((await attachFile(file('x'.repeat(600_000), 'a.txt', 'text/plain'), [], true)).problem, /600\u202fKB/);
});

test('the overview puts entries where they belong', () => {
  const tool = { kind: 'tool', title: 't', tool: 'execute', status: 'completed', blocks: [], diffs: [], terminals: ['1'], places: [], input: null, output: null, time: 0, ms: 1 };
  const result = overview([
    ['turn', { kind: 'turn', state: 'idle', since: 0, awaits: null, ended: 'end_turn' }],
    ['u', { kind: 'user', text: 'hello', attachments: [], queued: false, time: 0 }],
    ['q', { kind: 'user', text: 'later', attachments: [], queued: true, time: 0 }],
    ['t', tool],
    ['terminal:1', { kind: 'terminal', command: 'ls', text: '', exit: null, cut: false }],
    ['terminal:2', { kind: 'terminal', command: 'ls', text: '', exit: null, cut: false }],
    ['p1', { kind: 'question', title: 'x', tool: null, command: null, choices: [], answer: null }],
    ['p2', { kind: 'question', title: 'y', tool: null, command: null, choices: [], answer: 'a' }],
    ['a', { kind: 'agent', text: '', open: true, time: 0, blocks: [] }],
    ['plan', { kind: 'plan', steps: [{ text: 's', status: 'completed', priority: 'low' }] }],
  ]);
  assert.deepEqual(result.rows, ['u', 't', 'terminal:2', 'p2', 'plan']);
  assert.deepEqual(result.queued.map(([id]) => id), ['q']);
  assert.deepEqual(result.questions.map(([id]) => id), ['p1']);
  assert.equal(result.lastPrompt.text, 'hello');
});

test('numbers are written for people', () => {
  assert.equal(count(20418), '20\u202f418');
  assert.equal(plural(1, 'file'), '1 file');
  assert.deepEqual([812, 1234, 61_000, 4_000_000].map(bytes), ['812\u202fB', '1.2\u202fKB', '61\u202fKB', '4.0\u202fMB']);
  assert.deepEqual([8, 210, 4210, 125_000].map(duration), ['8\u202fms', '0.2\u202fs', '4\u202fs', '2\u202fmin 5\u202fs']);
  assert.equal(ago(0, 3 * 60_000), '3\u202fmin');
});
