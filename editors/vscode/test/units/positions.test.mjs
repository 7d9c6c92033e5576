// Positions: characters and UTF-16 units, places that do not exist, and parts of texts.
import assert from 'node:assert/strict';
import test from 'node:test';
import { load } from './load.mjs';

const { atOf, columnAt, lineNumbers, linesOf, partOf, placeOf, rangeOf, unitsBefore } = await load('positions');

test('a column counts characters, and VS Code counts UTF-16 units', () => {
  const text = 'a🎉b́c';
  assert.deepEqual([1, 2, 3, 4, 5, 6].map((column) => unitsBefore(text, column)), [0, 1, 3, 4, 5, 6]);
  assert.deepEqual([0, 1, 3, 4, 5, 6].map((units) => columnAt(text, units)), [1, 2, 3, 4, 5, 6]);
});

test('a unit in the middle of a character belongs to the character', () => {
  assert.equal(columnAt('🎉x', 1), 1);
  assert.equal(columnAt('🎉x', 2), 2);
});

test('columns and units after the end of the line are its end', () => {
  assert.equal(unitsBefore('ab', 100), 2);
  assert.equal(columnAt('ab', 100), 3);
  assert.equal(unitsBefore('', 1), 0);
});

test('a range without columns is whole lines, and without an end it ends with its line', () => {
  const lines = linesOf('one\ntwo 🎉\nthree');
  assert.deepEqual(rangeOf(lines, { line: 2 }, null), {
    start: { line: 1, character: 0 }, end: { line: 1, character: 6 } });
  assert.deepEqual(rangeOf(lines, { line: 1, column: 2 }, { line: 2 }), {
    start: { line: 0, character: 1 }, end: { line: 1, character: 6 } });
  assert.deepEqual(rangeOf(lines, { line: 2, column: 5 }, { line: 2, column: 6 }), {
    start: { line: 1, character: 4 }, end: { line: 1, character: 6 } });
});

test('a place after the last line is the end of the file, and a range is never turned', () => {
  const lines = linesOf('one\ntwo');
  assert.deepEqual(atOf(lines, { line: 9, column: 4 }, 'start'), { line: 1, character: 3 });
  assert.deepEqual(rangeOf(lines, { line: 2, column: 3 }, { line: 1, column: 1 }), {
    start: { line: 1, character: 2 }, end: { line: 1, character: 2 } });
});

test('a place of VS Code becomes one of SCP and back', () => {
  const lines = linesOf('let 🎉 = "ä";\r\nnext');
  for (const character of [0, 4, 6, 11]) {
    const place = placeOf(lines, { line: 0, character });
    assert.deepEqual(atOf(lines, place, 'start'), { line: 0, character });
  }
  assert.deepEqual(placeOf(lines, { line: 7, character: 3 }), { line: 8, column: 4 });
});

test('a selection that ends at the start of a line does not contain the line', () => {
  const range = (a, b, c, d) => ({ start: { line: a, character: b }, end: { line: c, character: d } });
  assert.equal(lineNumbers(range(4, 0, 4, 7)), '5');
  assert.equal(lineNumbers(range(4, 0, 6, 0)), '5-6');
  assert.equal(lineNumbers(range(4, 0, 6, 1)), '5-7');
});

test('a part of a text has whole lines with their ends', () => {
  const text = 'one\r\ntwo\nthree';
  assert.equal(partOf(text, {}), text);
  assert.equal(partOf(text, { line: 2 }), 'two\nthree');
  assert.equal(partOf(text, { line: 1, limit: 1 }), 'one\r\n');
  assert.equal(partOf(text, { limit: 2 }), 'one\r\ntwo\n');
  assert.equal(partOf(text, { line: 4 }), '');
});
