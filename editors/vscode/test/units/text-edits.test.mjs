// Edits of texts: where they are, what comes out, and which are refused.
import assert from 'node:assert/strict';
import test from 'node:test';
import { load } from './load.mjs';

const { applied, difference, findWord, placed } = await load('text-edits');
const { linesOf } = await load('positions');

const edit = (start, end, text) => ({
  start: { line: start[0], column: start[1] }, end: end && { line: end[0], column: end[1] }, text,
});
const change = (text, ...edits) => applied(text, placed(linesOf(text), edits));

test('changes are made at the positions of the text before', () => {
  const text = 'äb🎉d\r\nsecond\r\n';
  assert.equal(change(text, edit([2, 1], [2, 7], 'zwei'), edit([1, 2], [1, 4], 'X')), 'äXd\r\nzwei\r\n');
  assert.equal(change(text, edit([1, 3], null, '')), 'äb\r\nsecond\r\n');
  assert.equal(change(text, edit([3, 1], null, 'third\n')), 'äb🎉d\r\nsecond\r\nthird\r\n');
  assert.equal(change('', edit([1, 1], null, 'new\n')), 'new\n');
});

test('positions that do not exist are named', () => {
  const why = (...edits) => {
    try {
      change('ab\ncd', ...edits);
      return 'accepted';
    } catch (error) {
      return error.message;
    }
  };
  assert.match(why(edit([3, 1], null, '')), /line 3 does not exist: the file has 2 lines/);
  assert.match(why(edit([0, 1], null, '')), /line 0/);
  assert.match(why(edit([1, 4], null, '')), /line 1 has no column 4: the last one is 3/);
  assert.match(why(edit([1, 0], null, '')), /column 0/);
  assert.match(why(edit([2, 1], [1, 1], '')), /before the start/);
  assert.match(why(edit([1, 1], [1, 3], ''), edit([1, 2], [2, 1], '')), /overlap/);
  assert.equal(why(edit([1, 1], [1, 3], ''), edit([1, 3], [2, 1], '')), 'accepted');
});

test('only the lines that differ are replaced', () => {
  const rebuilt = (before, after) => {
    const { from, to, part } = difference(before, after);
    return before.slice(0, from) + part + before.slice(to);
  };
  const texts = [
    '', 'a', 'a\n', 'a\nb\nc\n', 'a\nX\nc\n', 'a\r\nb\r\n', 'a\r\nB\r\nc', '\n', '\n\n', 'b\nc\n', 'a🎉\n', 'a🎈\n',
    'aa\naa\naa\n', 'aa\naa\n',
  ];
  for (const before of texts) for (const after of texts) assert.equal(rebuilt(before, after), after);
  assert.deepEqual(difference('one\ntwo\nthree\n', 'one\n2\nthree\n'), { from: 4, to: 8, part: '2\n' });
});

test('a word is found as a whole', () => {
  assert.deepEqual(findWord('address add', 'add'), { start: { line: 0, character: 8 }, end: { line: 0, character: 11 } });
  assert.deepEqual(findWord('x\n  add()', 'add')?.start, { line: 1, character: 2 });
  assert.equal(findWord('größe', 'gr'), null);
  assert.equal(findWord('add', ''), null);
});
