// The sizes of the built files, as they are sent: compressed.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

const web = join(dirname(fileURLToPath(import.meta.url)), '../..');

/** The compressed sizes of all files in a folder. */
function sizesIn(folder) {
  return Object.fromEntries(readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
    .map((entry) => {
      const path = join(entry.parentPath, entry.name);
      return [path.slice(folder.length + 1), gzipSync(readFileSync(path), { level: 9 }).length];
    }));
}

const sizes = sizesIn(join(web, '../crates/web/dist'));

/** The most bytes for these files together. */
function atMost(kilobytes, ...files) {
  atMostOf(sizes, kilobytes, ...files);
}

function atMostOf(all, kilobytes, ...files) {
  const sum = files.reduce((total, file) => total + (all[file] ?? assert.fail(`${file} is missing`)), 0);
  assert.ok(sum <= kilobytes * 1024, `${files.join(' + ')}: ${(sum / 1024).toFixed(1)} KB, at most ${kilobytes} KB`);
}

test('the files have exactly the names that the server knows', () => {
  assert.deepEqual(Object.keys(sizes).sort(), [
    'panel/diagram.html', 'panel/diagram.js', 'panel/frame.css', 'panel/frame.html', 'panel/frame.js', 'panel/mermaid.js',
    'studio.css', 'studio.html', 'studio.js', 'vendor.js',
  ]);
});

test('the built files stay small', () => {
  // Libraries: Preact, signals, marked, lowlight with 12 languages, diff.
  atMost(50, 'vendor.js');
  atMost(115, 'studio.html', 'studio.js', 'vendor.js', 'studio.css');
  // 11.4 KB of it are DOMPurify. The rest limits diagrams by their kind, and reads inputs for a button that sends them.
  atMost(17, 'panel/frame.js');
  atMost(3, 'panel/frame.css');
  atMost(340, 'panel/mermaid.js', 'panel/diagram.js');
  atMost(500, ...Object.keys(sizes));
});

/** Builds the pages of VS Code into a folder of their own, and removes them at the end. */
function buildVsCode(t) {
  const folder = mkdtempSync(join(tmpdir(), 'conductor-sizes-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  execFileSync(process.execPath, [join(web, 'build.mjs'), '--vscode', folder], { stdio: 'ignore' });
  return folder;
}

test('the files for VS Code have fixed names and stay small', (t) => {
  const all = sizesIn(buildVsCode(t));
  assert.deepEqual(Object.keys(all).sort(), ['chat.css', 'chat.js', 'mermaid.js', 'panel.css', 'panel.js']);
  atMostOf(all, 120, 'chat.js', 'chat.css');
  // The script of the diagram frame is part of both.
  atMostOf(all, 190, 'chat.js', 'chat.css', 'panel.js', 'panel.css');
  atMostOf(all, 340, 'mermaid.js');
});

test('the files for VS Code are the same in another folder, and name no folder', (t) => {
  const [one, two] = [buildVsCode(t), buildVsCode(t)];
  for (const name of readdirSync(one)) {
    const text = readFileSync(join(one, name), 'utf8');
    assert.ok(text === readFileSync(join(two, name), 'utf8'), `${name} differs`);
    assert.ok(!text.includes(web) && !text.includes('sourceMappingURL'), name);
  }
});
