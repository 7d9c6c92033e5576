// Sessions of other windows: a page does not go on with one by itself, and stays in one that the person has opened.
import assert from 'node:assert/strict';
import test from 'node:test';
import { load } from './load.mjs';

const { Elsewhere } = await load('elsewhere');

test('a page moves away from a session of another window that it remembers', () => {
  const elsewhere = new Elsewhere(['theirs']);
  assert.equal(elsewhere.show('theirs', false), false, 'this window does not go on with it');
  assert.equal(elsewhere.has('theirs'), true);
  // A second page remembers it, too.
  assert.equal(elsewhere.show('ours', true), true);
  assert.equal(elsewhere.show('theirs', false), false);
  assert.equal(elsewhere.has('theirs'), true);
  assert.equal(elsewhere.has('ours'), false);
  assert.equal(elsewhere.has(null), false);
});

test('a page stays in a session of another window that the person has opened, also in a new tab', () => {
  const elsewhere = new Elsewhere(['theirs', 'other']);
  assert.equal(elsewhere.show('theirs', true), true);
  assert.equal(elsewhere.show('theirs', false), true, 'the page of a new tab');
  assert.equal(elsewhere.has('theirs'), false);
  assert.equal(elsewhere.has('other'), true);
});
