// What the user has written and not sent, in a page that VS Code throws away.
import assert from 'node:assert/strict';
import test from 'node:test';
import { load } from './load.mjs';

const { draftOf, keepDrafts } = await load('chat/drafts.ts');

/** The draft of a new page that begins with what the page before has kept. The server has this text then. */
let count = 0;
function restored(kept, server) {
  const session = `s${count += 1}`;
  const saved = [];
  keepDrafts({ [session]: { attachments: [], mentioned: [], ...kept } }, (_, draft) => saved.push(draft));
  const draft = draftOf(session, () => {});
  const leave = draft.follow({ value: server });
  return { draft, leave, saved };
}

test('a page goes on with the words that the server does not know yet', () => {
  assert.equal(restored({ text: 'half a mess', common: 'half' }, 'half').draft.text.value, 'half a mess');
  assert.equal(restored({ text: 'new', common: '' }, '').draft.text.value, 'new');
});

test('a page that was kept too early takes the newer text of the server', () => {
  // The first message was sent since, and the next one begun.
  assert.equal(restored({ text: 'sent', common: '' }, 'half a mess').draft.text.value, 'half a mess');
  assert.equal(restored({ text: 'sent', common: 'sent' }, '').draft.text.value, '');
});

test('after that, what is being written here wins', () => {
  const { draft, leave } = restored({ text: 'mine', common: '' }, '');
  leave();
  draft.follow({ value: 'of another tab' })();
  assert.equal(draft.text.value, 'mine');
});

test('what is kept tells what the server had', () => {
  const { saved } = restored({ text: 'half a mess', common: 'half' }, 'half');
  const { text, common } = saved.at(-1);
  assert.deepEqual({ text, common }, { text: 'half a mess', common: 'half' });
});
