// Highlighting, differences and the output of terminals.
import assert from 'node:assert/strict';
import test from 'node:test';
import { load } from './load.mjs';

const { highlight, knownLanguage, languageOf, longestHighlighted } = await load('parts/highlight.ts');
const { compare, diffStat, parseUnified } = await load('parts/diff-lines.ts');
const { ansiSpans } = await load('parts/ansi-spans.ts');

const textOf = (lines) => lines.map((line) => line.map((piece) => piece.text).join('')).join('\n');

test('highlighting keeps the text', () => {
  const texts = {
    rust: 'fn main() {\n    let s = "a\\nb"; // comment\n    /* two\n lines */ println!("{s}");\n}\n',
    typescript: 'const a: string = `x ${b} y`;\nclass A extends B<C> { f() { return /re/; } }',
    python: 'def f(x):\n    """doc\n    string"""\n    return x + 1', json: '{"a": [1, true, null]}', toml: '[a]\nb = 1\n',
    html: '<a href="x">&amp;<!-- c --></a>', sh: 'for x in *; do echo "$x"; done', yaml: 'a: 1\nb:\n  - c\n', css: 'a { color: red }',
    go: 'func main() {}', java: 'class A { }', c: '#include <a.h>\nint main(void) { return 0; }',
  };
  for (const [language, text] of Object.entries(texts)) {
    const lines = highlight(text, language);
    assert.equal(textOf(lines), text, language);
    assert.ok(lines.flat().some((piece) => piece.cls), `${language} has colours`);
  }
  assert.deepEqual(highlight('fn f() {}', 'rust')[0][0], { text: 'fn', cls: 't-key' });
});

test('unknown languages and long texts stay plain', () => {
  for (const [text, language] of [['fn x', 'nothing'], ['x'.repeat(2001), 'rust'], ['fn f() {}\n'.repeat(longestHighlighted / 9), 'rust'], ['x', '__proto__']]) {
    const lines = highlight(text, language);
    assert.equal(textOf(lines), text);
    assert.ok(lines.flat().every((piece) => piece.cls === null));
  }
});

test('languages are known by names and file endings', () => {
  assert.equal(knownLanguage('rs'), 'rust');
  assert.equal(knownLanguage('Rust,ignore'), 'rust');
  assert.equal(languageOf('a/b.tsx'), 'typescript');
  assert.equal(languageOf('Cargo.toml'), 'ini');
  assert.equal(languageOf('LICENSE'), null);
  assert.equal(languageOf('x.constructor'), null);
});

test('diffStat counts lines', () => {
  assert.deepEqual(diffStat(null, 'a\nb\n'), { added: 2, removed: 0 });
  assert.deepEqual(diffStat('a\nb\nc\n', 'a\nB\nc\nd'), { added: 2, removed: 1 });
  assert.deepEqual(diffStat('a\n', ''), { added: 0, removed: 1 });
  assert.deepEqual(diffStat('a\n', 'a'), { added: 0, removed: 0 });
  assert.deepEqual(diffStat('', ''), { added: 0, removed: 0 });
});

test('a difference has hunks with context and line numbers', () => {
  const before = Array.from({ length: 40 }, (_, i) => `line ${i + 1}`);
  const after = [...before];
  after[4] = 'line five';
  after.splice(30, 1, 'new a', 'new b');
  const diff = compare(before.join('\n'), after.join('\n'));
  assert.equal(diff.hunks.length, 2);
  assert.deepEqual(diff.hunks.map((it) => it.skipped), [1, 19]);
  assert.equal(diff.skipped, 6);
  const [del, ins] = diff.hunks[0].lines.filter((it) => it.kind !== 'same');
  assert.deepEqual([del.before, del.after, ins.before, ins.after], [5, null, null, 5]);
  assert.deepEqual(del.changed.map(([a, b]) => del.text.slice(a, b)), ['5']);
  assert.deepEqual(ins.changed.map(([a, b]) => ins.text.slice(a, b)), ['five']);
  const shown = diff.hunks.reduce((sum, it) => sum + it.lines.filter((line) => line.kind !== 'ins').length + it.skipped, diff.skipped);
  assert.equal(shown, 40, 'each old line is shown or counted');
});

test('changes at random are complete', () => {
  let seed = 7;
  const next = (n) => (seed = (seed * 1664525 + 1013904223) >>> 0) % n;
  for (let run = 0; run < 200; run++) {
    const before = Array.from({ length: next(30) }, () => `l${next(6)}\n`).join('');
    const after = Array.from({ length: next(30) }, () => `l${next(6)}\n`).join('');
    const diff = compare(before, after);
    const count = (kinds) => diff.hunks.flatMap((it) => it.lines).filter((it) => kinds.includes(it.kind)).length;
    const skipped = diff.skipped + diff.hunks.reduce((sum, it) => sum + it.skipped, 0);
    const lines = (text) => text.split('\n').length - 1;
    assert.equal(count(['same', 'del']) + skipped, lines(before));
    assert.equal(count(['same', 'ins']) + skipped, lines(after));
  }
});

test('texts that are too long are not compared', () => {
  assert.equal(compare('x'.repeat(1 << 20), 'y'), null);
});

test('a unified diff is read by its counts', () => {
  const [file, other] = parseUnified([
    'diff --git a/src/a.rs b/src/a.rs', 'index 1..2', '--- a/src/a.rs', '+++ b/src/a.rs', '@@ -10,3 +10,3 @@ fn main()', ' same',
    '--- removed line that looks like a head', '+++ added line', ' same', '\\ No newline at end of file', '--- /dev/null', '+++ b/new.txt', '@@ -0,0 +1 @@', '+one',
  ].join('\n'));
  assert.equal(file.path, 'src/a.rs');
  assert.equal(file.hunks[0].title, 'fn main()');
  assert.deepEqual(file.hunks[0].lines.map((it) => [it.kind, it.text, it.before, it.after]), [
    ['same', 'same', 10, 10], ['del', '-- removed line that looks like a head', 11, null], ['ins', '++ added line', null, 11], ['same', 'same', 12, 12],
  ]);
  assert.equal(other.path, 'new.txt');
  assert.deepEqual(parseUnified('no diff'), []);
});

test('colours become classes, other sequences vanish', () => {
  assert.deepEqual(ansiSpans('plain \u001b[1;31mred\u001b[0m \u001b[38;5;46mgreen\u001b[39m\u001b[2Jend'), [
    { text: 'plain ', cls: '' }, { text: 'red', cls: 'a-bold a-fg1' }, { text: ' ', cls: '' }, { text: 'green', cls: 'a-fg2' }, { text: 'end', cls: '' },
  ]);
  assert.deepEqual(ansiSpans('\u001b]8;;https://evil.example\u0007link\u001b]8;;\u0007'), [{ text: 'link', cls: '' }]);
  assert.deepEqual(ansiSpans('\u001b]0;title\u001b\\x\u001b(B\u001b=\u0007\u0000y'), [{ text: 'xy', cls: '' }]);
  assert.deepEqual(ansiSpans('\u001b[48;2;255;0;0mx\u001b[m'), [{ text: 'x', cls: 'a-bg1' }]);
  assert.deepEqual(ansiSpans('\u001b]0;never closed'), []);
  assert.deepEqual(ansiSpans('\u001b['), []);
});

test('a line that is written again shows its last text', () => {
  assert.equal(ansiSpans('10%\r20%\r100%\r\ndone\n')[0].text, '100%\ndone\n');
  assert.equal(ansiSpans('50%\r')[0].text, '50%');
  assert.equal(ansiSpans('ab\b\bxy')[0].text, 'xy');
});
