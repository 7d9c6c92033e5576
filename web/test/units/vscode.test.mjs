// The pages of VS Code without a browser: the transport, what is put into the composer, contrast.
import assert from 'node:assert/strict';
import test from 'node:test';
import { load } from './load.mjs';

/** A page in VS Code: what it has posted, and how the extension answers. */
const posted = [];
const listeners = [];
globalThis.acquireVsCodeApi = () => ({ postMessage: (message) => posted.push(message), getState: () => undefined, setState: () => {} });
globalThis.addEventListener = (_name, listener) => listeners.push(listener);
globalThis.self = { origin: 'vscode-webview://x' };
const say = (data, origin = 'vscode-webview://x') => listeners.forEach((listener) => listener({ data, origin }));

const { VsCodeTransport, patience, mentionOf, insertAt, contrast, readable, readableOn } = await load(
  'vscode/transport.ts', 'vscode/commands.ts', 'chat/insert.ts', 'vscode/contrast.ts');

test('the transport carries messages, and only those of the extension', async () => {
  const transport = new VsCodeTransport();
  const heard = [];
  const events = (name) => ({
    opened: (token) => heard.push([name, 'opened', token]), frame: (text) => heard.push([name, text]),
    closed: (reason) => heard.push([name, 'closed', reason]),
  });
  assert.equal(transport.send({ t: 'ack', frames: 1 }), false);
  transport.open(events('one'));
  assert.deepEqual(heard, [], 'not before the caller has returned');
  await Promise.resolve();
  assert.ok(transport.send({ t: 'ack', frames: 2 }));
  assert.deepEqual(posted, [{ link: { t: 'ack', frames: 2 } }]);
  say({ frame: '[1]' });
  for (const data of [null, 'x', { frame: 1 }, { closed: 'yes' }, {}]) say(data);
  say({ frame: '[2]' }, 'null');
  say({ closed: true }, 'https://example.com');
  say({ closed: true });
  say({ frame: '[3]' });
  assert.deepEqual(heard.splice(0), [['one', 'opened', ''], ['one', '[1]'], ['one', 'closed', 'lost']]);
  assert.equal(transport.send({ t: 'ack', frames: 3 }), false);
  transport.open(events('two'));
  transport.close();
  await Promise.resolve();
  say({ frame: '[4]' });
  assert.deepEqual(heard, []);
});

test('a page that gets no answer asks again', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const transport = new VsCodeTransport();
  const heard = [];
  const events = { opened: () => heard.push('opened'), frame: () => heard.push('frame'), closed: () => heard.push('closed') };
  transport.open(events);
  await Promise.resolve();
  t.mock.timers.tick(patience);
  assert.deepEqual(heard.splice(0), ['opened', 'closed']);
  // An answer ends the wait.
  transport.open(events);
  await Promise.resolve();
  say({ frame: '[]' });
  t.mock.timers.tick(10 * patience);
  assert.deepEqual(heard, ['opened', 'frame']);
  transport.close();
});

test('mentions of files', () => {
  assert.equal(mentionOf('src/a.rs', undefined), '@src/a.rs');
  assert.equal(mentionOf('src/a.rs', [3, 9]), '@src/a.rs:3-9');
  assert.equal(mentionOf('src/a.rs', [3, 3]), '@src/a.rs:3');
  assert.equal(mentionOf('src/a.rs', 7), '@src/a.rs:7');
  for (const lines of [[0, 2], ['1', 2], null, 'x', [-1], {}]) assert.equal(mentionOf('a', lines), '@a');
});

test('texts are put at the caret, with blanks around them', () => {
  const text = (value) => ({ text: value, path: null });
  assert.deepEqual(insertAt('', 0, [text('@a')]), { text: '@a ', caret: 3 });
  assert.deepEqual(insertAt('see', 3, [text('@a'), text('@b')]), { text: 'see @a @b ', caret: 10 });
  assert.deepEqual(insertAt('see  now', 4, [text('@a')]), { text: 'see @a now', caret: 6 });
  assert.deepEqual(insertAt('seenow', 3, [text('@a')]), { text: 'see @a now', caret: 7 });
  assert.deepEqual(insertAt('a\n', 2, [text('b\n')]), { text: 'a\nb\n', caret: 4 });
});

test('colours become readable, and stay if they are', () => {
  assert.equal(contrast('#000000', '#ffffff'), 21);
  assert.equal(contrast('#777777', '#777777'), 1);
  assert.equal(readableOn('#0b5cad', ['#ffffff', '#f5f6f8']), '#0b5cad');
  for (const ground of ['#ffffff', '#ffcccc', '#1f1f1f', '#000000', '#767676', '#002b36', '#fdf6e3']) {
    for (const colour of ['#f85149', '#73c991', '#cca700', ground]) {
      assert.ok(contrast(readableOn(colour, [ground]), ground) >= 4.5, `${colour} on ${ground}`);
    }
  }
  const tokens = readable({ '--bg': '#ffffff', '--del-bg': '#ffcccc', '--err': '#f85149', '--main': '#4daafc', '--on-main': '#ffffff', scheme: 'light' });
  assert.ok(contrast(tokens['--err'], '#ffcccc') >= 4.5 && contrast(tokens['--on-main'], '#4daafc') >= 4.5);
  assert.equal(tokens.scheme, 'light');
});
