// Markdown: a growing text gives the same blocks as the whole text; links and places are what they say.
import assert from 'node:assert/strict';
import test from 'node:test';
import { load } from './load.mjs';

const { GrowingText, lexAll, isClosedFence, decodeEntities, longestMarkdown } = await load('parts/markdown-blocks.ts');
const { safeAddress, shownTarget, splitPlaces, asPlace, linkedFile } = await load('parts/links.ts');

/** Random numbers that are the same in each run. */
function random(seed) {
  return () => {
    seed = (seed * 1664525 + 1013904223) >>> 0;
    return seed / 2 ** 32;
  };
}

const pieces = [
  'A paragraph with *emphasis*, `code`, and a [link](https://example.com).\n', 'More of it.\n', '\n', '\n\n', '# Heading\n',
  'Setext\n---\n', 'Setext\n===\n', '- item\n', '- [ ] open\n', '- [x] done\n', '  - nested\n', '    continued\n', '1. one\n', '2. two\n',
  '* other\n', '> quote\n', '> > deep\n', '> - item in a quote\n', '```rust\nfn main() {\n\n}\n```\n', '```\nopen fence\n', '~~~\nx\n~~~\n', '    indented code\n', '---\n',
  '| a | b |\n|---|--:|\n| 1 | 2 |\n', '| 3 | 4 |\n', '<div>\nhtml\n', '</div>\n', '<!-- comment\n', '-->\n', '[ref]: https://example.com "Title"\n',
  'See [ref] and [other][ref].\n', 'Line with two blanks  \n', '\\* escaped\n', '&amp; &lt;\n', '![image](https://example.com/a.png)\n', '\ttab\n', '***\n', '   \n', 'Setext?\n-', ' x\n', '-', '\r\n', 'a\r\nb\r\n',
];

test('a growing text gives the same blocks as the whole text', () => {
  for (let seed = 1; seed <= 400; seed++) {
    const next = random(seed);
    let text = '';
    for (let n = Math.floor(next() * 30) + 1; n > 0; n--) text += pieces[Math.floor(next() * pieces.length)];
    const growing = new GrowingText();
    let at = 0;
    while (at < text.length) {
      at = Math.min(text.length, at + 1 + Math.floor(next() * next() * 40));
      const part = text.slice(0, at);
      const { tokens } = growing.update(part);
      // A definition that comes later changes earlier links. The whole text is read at the end for that.
      if (!part.includes('[ref]:')) assert.deepEqual(tokens, [...lexAll(part).tokens], `seed ${seed}, ${JSON.stringify(part)}`);
      else assert.equal(tokens.map((it) => it.raw).join(''), lexAll(part).tokens.map((it) => it.raw).join(''), `seed ${seed}`);
    }
  }
});

test('a growing text is not read from its beginning each time', () => {
  const growing = new GrowingText();
  let text = '';
  const first = [];
  for (let i = 0; i < 50; i++) {
    text += `Paragraph ${i} has some words.\n\n`;
    const { tokens } = growing.update(text);
    first.push(tokens[0]);
  }
  assert.ok(first.slice(5).every((token) => token === first[5]), 'the first block is read once');
});

test('another text begins anew', () => {
  const growing = new GrowingText();
  growing.update('One.\n\nTwo.\n\nThree.\n\nFour.');
  assert.deepEqual(growing.update('# Other').tokens, [...lexAll('# Other').tokens]);
});

test('hostile texts are shown as they are', () => {
  const deep = '> '.repeat(20_000) + 'x';
  assert.equal(lexAll(deep).tokens.map((it) => it.raw).join(''), deep);
  const long = 'x'.repeat(longestMarkdown + 1);
  assert.equal(lexAll(long).tokens.length, 1);
});

test('a code block is closed when its fence is', () => {
  assert.ok(isClosedFence('```js\nx\n```'));
  assert.ok(isClosedFence('````\n```\n````\n'));
  assert.ok(!isClosedFence('````\n```'));
  assert.ok(!isClosedFence('```js'));
  assert.ok(!isClosedFence('```js\nx\n``'));
  assert.ok(isClosedFence('    indented'));
});

test('entities become characters once', () => {
  assert.equal(decodeEntities('a &amp;lt; &lt;b&gt; &#39; &#x2014; &unknown; &constructor;'), "a &lt; <b> ' — &unknown; &constructor;");
});

test('only web and mail addresses are opened', () => {
  for (const good of ['https://example.com/a', 'http://localhost:1', 'mailto:a@b.c']) assert.ok(safeAddress(good), good);
  for (const bad of ['javascript:alert(1)', 'JAVASCRIPT:alert(1)', 'java\nscript:x', ' javascript:x', 'data:text/html,x',
    'vbscript:x', 'file:///etc/passwd', 'blob:x', '//example.com', 'x', '', 'https://a b', 'ht\ttps://x']) {
    assert.equal(safeAddress(bad), null, bad);
  }
});

test('the host of a link is shown if its text does not say the address', () => {
  const shown = (href, text) => shownTarget(safeAddress(href), text);
  assert.equal(shown('https://evil.example/x', 'https://bank.example/x'), 'evil.example');
  assert.equal(shown('https://example.com/', 'example.com'), null);
  assert.equal(shown('https://example.com/a?b', 'https://example.com/a?b'), null);
  assert.equal(shown('https://bank.example@evil.example/', 'bank'), 'evil.example');
  const hidden = 'https://bank.example:pay@evil.example/';
  assert.equal(shown(hidden, hidden), 'evil.example', 'also if the text is the address');
  assert.equal(shown('mailto:a@b.c', 'write'), 'a@b.c');
});

test('places in texts are found, other texts with colons are not', () => {
  const found = (text) => splitPlaces(text).filter((it) => typeof it !== 'string').map((it) => `${it.path}|${it.line}`);
  assert.deepEqual(found('See src/router.rs:41 and ./a/b.ts:7:3, Cargo.toml:2.'), ['src/router.rs|41', './a/b.ts|7', 'Cargo.toml|2']);
  assert.deepEqual(found('(crates/web/src/lib.rs:12-20)'), ['crates/web/src/lib.rs|12']);
  assert.deepEqual(found('/abs/path/x.py:1'), ['/abs/path/x.py|1']);
  assert.deepEqual(found('12:30, example.com:443, 127.0.0.1:80, https://x.y/a.rs:3, a.rs, foo:12'), []);
  assert.equal(splitPlaces('a src/x.rs:1 b').map((it) => it.text ?? it).join(''), 'a src/x.rs:1 b');
  assert.deepEqual(asPlace('src/x.rs:5'), { path: 'src/x.rs', line: 5 });
  assert.equal(asPlace('run src/x.rs:5'), null);
  assert.deepEqual(linkedFile('src/a%20b.rs#L12'), { path: 'src/a b.rs', line: 12 });
  assert.deepEqual(linkedFile('src/a.rs:3'), { path: 'src/a.rs', line: 3 });
  assert.deepEqual(linkedFile('file:///x/a.rs#L1'), { path: '/x/a.rs', line: 1 });
  for (const other of ['javascript:x', '#part', '//host/x', 'data:x', '?q', 'a%00b', '']) assert.equal(linkedFile(other), null, other);
});

test('finding places takes linear time', () => {
  // Texts of 1 MB. If each of their letters were tried with all that follow, this test would not end today.
  for (const part of ['a/', 'a.', 'a-', 'a+', '-', '+', '@', 'a@', '.a-', '../', 'a-b/', 'a.rs', 'a.rs:', 'ä-']) {
    const text = part.repeat(1_000_000 / part.length);
    assert.deepEqual(splitPlaces(text), [text], part);
  }
  assert.equal(splitPlaces('a.rs:1 '.repeat(100_000)).length, 200_000);
  assert.equal(linkedFile(`1${':1'.repeat(500_000)}x`), null);
});
