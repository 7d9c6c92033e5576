// Conversations go with a window that becomes another workspace.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { load } from './load.mjs';

const { conversationFolders } = await load('storage');
const { remember, takeOver } = await load('take-over');

test('windows of a workspace have folders with the same name and a number', () => {
  const folder = (id) => `/data/${id}/publisher.name/conversations`;
  for (const [id, first] of [['193b95', '193b95'], ['193b95-2', '193b95'], ['-7fe', '-7fe'], ['-7', '-7'], ['-7-9', '-7']]) {
    const found = conversationFolders(`/data/${id}/publisher.name`);
    assert.equal(found.own, folder(id));
    assert.equal(found.first, folder(first));
    const all = [folder(first), ...Array.from({ length: 9 }, (_, index) => folder(`${first}-${index + 1}`))];
    assert.deepEqual([found.own, ...found.others].sort(), all.sort());
  }
});

/** The storage of a VS Code. `window` is one that shows a workspace, and `keep` writes a conversation of it. */
function storage(t) {
  const root = mkdtempSync(join(tmpdir(), 'conductor-storage-'));
  t.after(() => rmSync(root, { recursive: true, force: true }));
  let known = {};
  const state = { get: (_, usual) => known ?? usual, update: async (_, value) => { known = value; } };
  const window = (id, kind, ...folders) => {
    const places = conversationFolders(join(root, id, 'publisher.name'));
    takeOver(places, { kind, folders }, state);
    return {
      places,
      keep(name, text, age = 0) {
        mkdirSync(places.own, { recursive: true });
        const path = join(places.own, `${name}.json`);
        writeFileSync(path, text);
        const then = Date.now() / 1000 - age;
        utimesSync(path, then, then);
      },
      has() {
        try {
          return readdirSync(places.own).sort().map((name) => `${name}: ${readFileSync(join(places.own, name), 'utf8')}`);
        } catch {
          return [];
        }
      },
      now: (...others) => remember(places, { kind, folders: others }, state),
    };
  };
  return { window };
}

test('a folder that gets a second one keeps its conversations', (t) => {
  const { window } = storage(t);
  window('f', 'folder', '/x').keep('a', 'x');
  assert.deepEqual(window('u', 'untitled', '/x', '/y').has(), ['a.json: x']);
  assert.deepEqual(window('other', 'untitled', '/z', '/y').has(), []);
});

test('a workspace that is saved, or is saved under another name, keeps its conversations', (t) => {
  const { window } = storage(t);
  window('f', 'folder', '/x').keep('a', 'of the folder');
  const untitled = window('u', 'untitled', '/x', '/y');
  untitled.keep('b', 'of the workspace');
  // The folder alone is opened in another window, and a folder is added.
  window('f', 'folder', '/x');
  untitled.now('/x', '/y', '/z');
  const saved = window('s', 'saved', '/x', '/y', '/z');
  assert.deepEqual(saved.has(), ['a.json: of the folder', 'b.json: of the workspace']);
  saved.keep('c', 'later');
  assert.deepEqual(window('s2', 'saved', '/x', '/y', '/z').has(), [...saved.has()]);
  // A new workspace without a name was a folder before.
  assert.deepEqual(window('u2', 'untitled', '/x', '/y', '/z').has(), ['a.json: of the folder']);
  // A workspace that has conversations gets no others.
  assert.equal(window('s', 'saved', '/x', '/y', '/z').has().length, 3);
});

test('the conversations of all windows of the workspace are taken over', (t) => {
  const { window } = storage(t);
  const [first, second] = [window('f', 'folder', '/x'), window('f-1', 'folder', '/x')];
  first.keep('a', 'old', 60);
  second.keep('a', 'new');
  second.keep('b', 'newest');
  assert.deepEqual(window('u-1', 'untitled', '/x', '/y').has(), ['a.json: new', 'b.json: newest']);
  // Another window of the new workspace finds them by their place: it needs no copy.
  assert.deepEqual(window('u', 'untitled', '/x', '/y').has(), []);
});
