// What the file viewer computes without a browser.
import assert from 'node:assert/strict';
import test from 'node:test';
import { load } from './load.mjs';

const { baseName, folderOf, foldersAbove, shortNames } = await load('files/paths.ts');
const { blocksOf, countLines, longestLine } = await load('files/blocks.ts');
const { markRange, nextThread, rangeInLine, summaryText, threadsByFile } = await load('files/threads.ts');
const { FilesModel, LinkStore, fixedTransport } = await load('files/model.ts', 'link/store.ts', 'link/fake.ts');

const thread = (path, line, endLine = line, more = {}) =>
  ({ kind: 'thread', path, line, column: null, endLine, endColumn: null, text: '', canReply: true, replies: [], ...more });
const placed = (id, line, endLine) => ({ id, thread: thread('a', line, endLine) });

test('paths are split, and tabs show as much of them as tells them apart', () => {
  assert.deepEqual([baseName('a/b.rs'), baseName('b.rs'), folderOf('a/c/b.rs'), folderOf('b.rs')], ['b.rs', 'b.rs', 'a/c', '']);
  assert.deepEqual(foldersAbove('a/b/c.rs'), ['a', 'a/b']);
  assert.deepEqual([...shortNames(['a/mod.rs', 'b/mod.rs', 'c/main.rs', 'mod.rs']).values()], ['a/mod.rs', 'b/mod.rs', 'main.rs', 'mod.rs']);
});

test('lines are counted as an editor does', () => {
  for (const [text, lines] of [['', 0], ['a', 1], ['a\n', 1], ['a\nb', 2], ['\n\n', 2]]) assert.equal(countLines(text), lines, JSON.stringify(text));
  assert.equal(longestLine('ab\n\tcd\ne'), 6);
});

test('every line is in one block, and a thread follows the last line of its range', () => {
  for (const lines of [0, 1, 99, 100, 101, 1000]) {
    const { blocks, orphaned } = blocksOf(lines, [placed('x', 5, 7), placed('y', 7), placed('z', 100, 2000), placed('far', 5000)]);
    const all = blocks.filter((it) => it.kind === 'lines').flatMap(({ from, to }) => Array.from({ length: to - from + 1 }, (_, i) => from + i));
    assert.deepEqual(all, Array.from({ length: lines }, (_, i) => i + 1), `${lines}`);
    const order = blocks.flatMap((it, i) => (it.kind === 'thread' ? [[it.placed.id, blocks[i - 1]?.to]] : []));
    if (lines === 1000) assert.deepEqual(order, [['x', 7], ['y', undefined], ['z', 1000]]);
    assert.equal(orphaned.length + order.length, 4);
  }
});

test('threads are walked through file by file, and round', () => {
  const files = threadsByFile([['1', thread('b', 9)], ['2', thread('a', 1)], ['3', thread('b', 2)], ['4', { kind: 'changed', version: 1 }]]);
  assert.deepEqual([...files].map(([path, list]) => [path, list.map((it) => it.id)]), [['b', ['3', '1']], ['a', ['2']]]);
  const walk = (current, path, step) => nextThread(files, current, path, step)?.id;
  assert.deepEqual([walk('3', null, 1), walk('1', null, 1), walk('2', null, 1), walk('3', null, -1)], ['1', '2', '3', '2']);
  assert.deepEqual([walk(null, 'a', 1), walk(null, 'b', -1), walk(null, null, 1)], ['2', '1', '3']);
  assert.equal(nextThread(new Map(), null, null, 1), null);
  assert.equal(summaryText('\n## The `id`\n\nMore'), 'The id');
});

test('a range counts characters, and cuts pieces where it begins and ends', () => {
  const line = [{ text: 'a🎉b', cls: null }, { text: 'cdé', cls: 't-key' }];
  const marked = (range) => markRange(line, range).filter((it) => it.marked).map((it) => it.text);
  assert.deepEqual(marked([2, 5]), ['🎉b', 'c']);
  assert.deepEqual(marked([1, 99]), ['a🎉b', 'cdé']);
  assert.deepEqual(marked([7, 9]), []);
  assert.equal(markRange(line, [3, 5]).map((it) => it.text).join(''), 'a🎉bcdé');
  const two = thread('a', 3, 5, { column: 4, endColumn: 2 });
  assert.deepEqual([3, 4, 5].map((it) => rangeInLine(two, it)), [[4, Number.MAX_SAFE_INTEGER], null, [1, 2]]);
});

/** A model on a fake link, which notes what it is asked. */
function model(topics = {}) {
  const asked = [];
  const store = new LinkStore(fixedTransport({ chat: true, title: '', folder: '/p' }, topics, (action) => {
    asked.push(action);
    if (action.op === 'readFile') return { path: action.path.replace(/^(\/p\/|\.\/)/, ''), text: `text of ${action.path}`, note: null };
    return action.op === 'listFiles' ? [] : null;
  }), { now: () => 0, random: () => 0, later: () => () => {}, frame: (run) => queueMicrotask(run), report: assert.fail });
  return { model: new FilesModel(store), asked, viewing: () => asked.filter((it) => it.op === 'viewing').at(-1) };
}
const settle = async () => { for (let i = 0; i < 20; i++) await Promise.resolve(); };

test('the server knows the open files, the one in front and the selection', async () => {
  const it = model();
  it.model.open('a.rs');
  it.model.open('b.rs', 3);
  it.model.setSelection([1, 1, 2, 3]);
  await settle();
  assert.deepEqual(it.viewing(), { op: 'viewing', open: ['a.rs', 'b.rs'], active: 'b.rs', selection: [1, 1, 2, 3] });
  it.model.select('a.rs');
  await settle();
  assert.deepEqual(it.viewing(), { op: 'viewing', open: ['a.rs', 'b.rs'], active: 'a.rs', selection: null });
  it.model.close('a.rs');
  await settle();
  assert.deepEqual(it.viewing(), { op: 'viewing', open: ['b.rs'], active: 'b.rs', selection: null });
});

test('an edit that waits comes to the front once, an old one does not', async () => {
  const edit = (state) => ({ kind: 'edit', label: 'x', files: [], state });
  const it = model({ edits: [['1', edit('accepted')], ['2', edit('open')]] });
  await settle();
  assert.deepEqual(it.model.tabs.value, ['edit:2']);
  assert.equal(it.model.edit('edit:2')?.id, '2');
  assert.equal(it.model.activeFile, null);
});

test('a file is opened at a line for the page, once', async () => {
  const it = model();
  it.model.openOnce(1, 'a.rs', 2);
  it.model.openOnce(1, 'b.rs', 3);
  await settle();
  assert.equal(it.model.active.value, 'a.rs');
  assert.equal(it.model.target.value?.line, 2);
  const file = it.model.file('a.rs');
  await settle();
  assert.deepEqual(file.value, { state: 'shown', text: 'text of a.rs', note: null });
});

test('a file has one tab, however its path is written', async () => {
  const it = model();
  it.model.open('a.rs');
  it.model.file('a.rs');
  it.model.open('/p/a.rs', 7);
  const file = it.model.file('/p/a.rs');
  await settle();
  assert.equal(file.value.state, 'loading', 'nothing is shown under the other path');
  assert.deepEqual(it.model.tabs.value, ['a.rs']);
  assert.equal(it.model.active.value, 'a.rs');
  assert.deepEqual([it.model.target.value.path, it.model.target.value.line], ['a.rs', 7]);
  assert.deepEqual(it.viewing().open, ['a.rs']);
});

test('a large folder shows its first entries, and says that there are more', async () => {
  const { TreeModel } = await load('files/tree-model.ts');
  const files = (count) => Array.from({ length: count }, (_, i) => ({ name: `f${i}`, folder: false }));
  const listings = { '': [{ name: 'sub', folder: true }, ...files(4999)], sub: files(5001) };
  const tree = new TreeModel({ do: ({ path }) => Promise.resolve(listings[path]) });
  await new Promise(setImmediate);
  assert.equal(tree.rows.value.length, 5000);
  assert.ok(tree.rows.value.every((row) => row.note === null));
  tree.toggle('sub');
  await new Promise(setImmediate);
  const notes = tree.rows.value.filter((row) => row.note !== null);
  assert.deepEqual(notes.map((row) => [row.note, row.level]), [['The folder has more. The first 5,000 entries are shown.', 2]]);
  assert.equal(tree.rows.value.length, 10_001);
  assert.equal(new Set(tree.rows.value.map((row) => row.path)).size, 10_001);
});
