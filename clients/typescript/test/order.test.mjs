// Messages are handled in the order in which they arrive, however many come at once.
import assert from 'node:assert/strict';
import test from 'node:test';
import { entriesOf, said, startEditor, when } from './help.mjs';
import { later, scripted } from './scripted.mjs';

const line = (message) => `${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`;
const update = (sessionId, update) => line({ method: 'session/update', params: { sessionId, update } });
const chunk = (sessionId, text) =>
  update(sessionId, { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text } });

test('updates before the answer of a prompt belong to its turn, and later ones do not', async (t) => {
  const agent = await scripted(t, { 'session/prompt': () => later });
  const editor = startEditor(t, { program: agent.program });
  const session = await editor.newSession();
  const seen = [];
  editor.topics.follow((topic, change) => {
    if (topic !== `session/${session}`) return;
    if (change.c === 'append') seen.push(change.text);
    if (change.c === 'put' && change.entry.kind === 'agent' && change.entry.open) seen.push(change.entry.text);
    if (change.c === 'put' && change.entry.kind === 'turn') seen.push(change.entry.ended ?? change.entry.state);
  });
  for (let turn = 1; turn <= 20; turn += 1) {
    seen.length = 0;
    const ended = editor.prompt(session, 'go').then(() => seen.push('resolved'));
    const prompts = await agent.heard('session/prompt', turn);
    const id = prompts.at(-1).id;
    const before = Array.from({ length: 50 }, (_, count) => `${count} `);
    const answer = line({ id, result: { stopReason: 'end_turn' } });
    // Everything in one piece.
    agent.raw([...before.map((it) => chunk(session, it)), answer, chunk(session, 'late')].join(''));
    await ended;
    await when(editor, () => seen.includes('late'), 'the last update');
    assert.deepEqual(
      seen.filter((it) => it !== 'resolved'),
      ['running', ...before, 'end_turn', 'late'],
    );
  }
});

test('a request stands between the updates around it', async (t) => {
  const agent = await scripted(t, { 'session/prompt': () => later });
  const editor = startEditor(t, { program: agent.program });
  const session = await editor.newSession();
  void editor.prompt(session, 'go').catch(() => {});
  await agent.heard('session/prompt');
  const options = [{ optionId: 'y', name: 'Yes', kind: 'allow_once' }];
  const ask = (id) =>
    line({
      id,
      method: 'session/request_permission',
      params: { sessionId: session, toolCall: { toolCallId: 't' }, options },
    });
  const call = (title) => update(session, { sessionUpdate: 'tool_call', toolCallId: 't', title });
  agent.raw(
    [
      chunk(session, 'a'),
      call('first'),
      ask('one'),
      chunk(session, 'b'),
      call('second'),
      ask('two'),
      chunk(session, 'c'),
    ].join(''),
  );
  await when(editor, () => said(editor, session) === 'a\nb\nc', 'all texts');
  assert.deepEqual(
    entriesOf(editor, session, 'agent', 'question', 'tool').map((it) => it.text ?? it.title),
    ['a', 'second', 'first', 'b', 'second', 'c'],
    'a question has the title that the tool call had when it was asked',
  );
});

test('updates that follow the answer of a new session reach it', async (t) => {
  const agent = await scripted(t, {
    'session/new': (_, it, { id }) => {
      const session = `s${(it.sessions += 1)}`;
      it.raw(chunk(session, 'early ') + line({ id, result: { sessionId: session } }) + chunk(session, 'late'));
      return later;
    },
  });
  const editor = startEditor(t, { program: agent.program });
  const sessions = await Promise.all([editor.newSession(), editor.newSession('/'), editor.newSession('/tmp')]);
  assert.equal(new Set(sessions).size, 3);
  for (const session of sessions) await when(editor, () => said(editor, session) === 'early late', session);
});
