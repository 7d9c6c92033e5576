// An agent that does everything wrong: nothing crashes, every request is answered once, and a normal turn still works.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import test from 'node:test';
import { chainOf, entriesOf, entry, project, said, startEditor, when } from './help.mjs';
import { later, Refusal, scripted } from './scripted.mjs';
import { until } from './until.mjs';

const values = [
  undefined,
  null,
  true,
  0,
  -1,
  1.5,
  1e300,
  '',
  'text',
  [],
  [null],
  [[]],
  {},
  { a: { b: [] } },
  '\ud800',
  '\u0000',
];

/** Nothing may be thrown where nobody catches it. */
const problems = [];
process.on('unhandledRejection', (error) => problems.push(error));
process.on('uncaughtException', (error) => problems.push(error));

async function start(t, answers, options = {}) {
  const agent = await scripted(t, answers);
  const editor = startEditor(t, { program: agent.program, ...options });
  const session = await editor.newSession();
  return { agent, editor, session };
}

/** The editor still works, and nothing was thrown. */
async function works(editor, session) {
  assert.deepEqual(await editor.prompt(session, 'still there?'), { stopReason: 'end_turn' });
  assert.equal(chainOf(editor).state, 'running');
  assert.deepEqual(problems, []);
}

test('updates with wrong types everywhere', async (t) => {
  const { agent, editor, session } = await start(t);
  const kinds = [
    'agent_message_chunk',
    'agent_thought_chunk',
    'user_message_chunk',
    'tool_call',
    'tool_call_update',
    'plan',
    'available_commands_update',
    'current_mode_update',
    'config_option_update',
    'usage_update',
    'session_info_update',
    'x',
  ];
  const members = [
    'content',
    'toolCallId',
    'title',
    'kind',
    'status',
    'locations',
    'rawInput',
    'rawOutput',
    'entries',
    'availableCommands',
    'currentModeId',
    'configOptions',
    'used',
    'size',
  ];
  for (const sessionUpdate of [...kinds, ...values]) {
    for (const value of values) {
      const update = Object.fromEntries(members.map((name) => [name, value]));
      agent.update(session, { sessionUpdate, ...update });
      agent.update(session, {
        sessionUpdate,
        ...update,
        toolCallId: 't',
        content: [value, { type: value }, { type: 'diff', path: value }],
      });
      agent.update(session, { sessionUpdate, ...update, content: { type: value, text: value, resource: value } });
      agent.update(session, {
        sessionUpdate,
        toolCallId: 't',
        ...update,
        content: [{ type: 'content', content: { type: 'resource', resource: value } }],
      });
    }
  }
  for (const value of values) {
    agent.notify('session/update', value);
    agent.notify('session/update', { sessionId: value, update: value });
    agent.notify('_scp/log', value);
    agent.notify('_scp/html_panel/show', value);
    agent.notify('_scp/file_comment/show', value);
    agent.notify('$/cancel_request', value);
    agent.notify('$/cancel_request', { requestId: value });
    agent.notify('unknown', value);
  }
  agent.say(session, 'the end');
  await when(editor, () => said(editor, session).endsWith('the end'), 'the last update');
  await works(editor, session);
});

test('updates of unknown sessions, early updates and huge texts', async (t) => {
  const huge = '🎉'.repeat(2 ** 20);
  const { agent, editor, session } = await start(t, {
    'session/new': (_, it) => {
      it.say(`s${it.sessions + 1}`, 'early');
      for (let count = 0; count < 3000; count += 1) it.say(`other${count}`, 'x');
      return { sessionId: `s${(it.sessions += 1)}` };
    },
  });
  assert.equal(said(editor, session), 'early');
  for (let count = 0; count < 2000; count += 1) agent.say('nobody', 'x');
  agent.say(session, huge, 'agent_thought_chunk');
  agent.update(session, {
    sessionUpdate: 'tool_call',
    toolCallId: 't',
    title: huge,
    rawInput: { huge },
    content: [{ type: 'content', content: { type: 'text', text: huge } }],
  });
  await entry(editor, `session/${session}`, (it) => it.kind === 'tool');
  const [tool] = entriesOf(editor, session, 'tool');
  assert.match(tool.blocks[0].text, /more bytes$/);
  assert.ok(typeof tool.input === 'string' && tool.input.length < 300_000);
  for (let count = 0; count < 1500; count += 1)
    agent.update(session, { sessionUpdate: 'tool_call', toolCallId: `t${count}`, title: 'x' });
  for (let count = 0; count < 6000; count += 1) {
    agent.say(session, 'a');
    agent.say(session, 'b', 'agent_thought_chunk');
  }
  let last = '';
  editor.topics.follow((_, change) => {
    if (change.c === 'put' && change.entry.kind === 'agent') last = change.entry.text;
  });
  agent.say(session, 'finally');
  await when(editor, () => last === 'finally', 'the last text');
  assert.ok(editor.topics.entries(`session/${session}`).length <= 5000);
  assert.equal(editor.topics.entries('sessions').length, 1);
  await works(editor, session);
});

test('requests with unknown methods and wrong params are answered once, with what is wrong', async (t) => {
  const { agent, editor, session } = await start(t, {}, { folder: project(t), host: { edits: true } });
  const methods = [
    'session/request_permission',
    'fs/read_text_file',
    'fs/write_text_file',
    'terminal/create',
    'terminal/output',
    'terminal/wait_for_exit',
    'terminal/kill',
    'terminal/release',
    'terminal/x',
    '_scp/html_panel/show',
    '_scp/html_panel/get',
    '_scp/html_panel/clear',
    '_scp/file_comment/show',
    '_scp/file_comment/clear',
    '_scp/ide_operation/apply-edit',
    '_scp/ide_operation/__proto__',
    '_scp/ide_operation/',
    '_proxy/x',
    'elicitation/create',
    'constructor',
    '',
  ];
  const answers = [];
  for (const method of methods) {
    for (const value of values) {
      answers.push(agent.request(method, value));
      answers.push(
        agent.request(method, {
          sessionId: value,
          path: value,
          content: value,
          command: value,
          args: value,
          env: value,
          cwd: value,
          terminalId: value,
          id: value,
          label: value,
          contents: value,
          url: value,
          start: value,
          edits: value,
          options: value,
          toolCall: value,
        }),
      );
    }
  }
  // Nothing waits for a person: a permission without options is cancelled.
  const all = await Promise.all(answers);
  for (const { error, result } of all) {
    assert.ok(result !== undefined || (Number.isInteger(error.code) && error.message), JSON.stringify(error));
  }
  const ids = agent.messages.filter((it) => it.method === undefined).map((it) => it.id);
  assert.equal(new Set(ids).size, ids.length, 'each is answered once');
  const refused = await agent.request('no/such_method', { a: 1 });
  assert.deepEqual(refused.error, { code: -32601, message: 'method not found: no/such_method' });
  const { error } = await agent.request('fs/read_text_file', { sessionId: session, path: 'relative' });
  assert.deepEqual(error, { code: -32602, message: 'the path must be absolute: relative' });
  await works(editor, session);
});

test('lines that are no messages, and answers that nobody waits for', async (t) => {
  const { agent, editor, session } = await start(t, { 'session/prompt': () => later });
  const turn = editor.prompt(session, 'hello');
  const [prompt] = await agent.heard('session/prompt');
  for (const line of [
    '',
    ' ',
    'noise',
    '{',
    '[]',
    '[1]',
    '7',
    'null',
    '"x"',
    '{}',
    '{"jsonrpc":"2.0"}',
    '{"id":1}',
    '{"jsonrpc":"1.0","method":"x"}',
    '{"jsonrpc":"2.0","id":{},"method":"x"}',
    '{"jsonrpc":"2.0","id":999,"result":{}}',
    '{"jsonrpc":"2.0","id":999,"error":7}',
    '{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}',
    '{"jsonrpc":"2.0","method":7}',
    '\u0000',
  ])
    agent.raw(`${line}\n`);
  agent.raw(Buffer.from([0xff, 0xfe, 0x0a]));
  agent.send({ id: prompt.id, result: { stopReason: 'refusal' } });
  agent.send({ id: prompt.id, result: { stopReason: 'end_turn' } });
  agent.send({ id: prompt.id, error: { code: 1, message: 'twice' } });
  assert.deepEqual(await turn, { stopReason: 'refusal' });
  const next = editor.prompt(session, 'again');
  const [, second] = await agent.heard('session/prompt', 2);
  // An answer in several pieces.
  const line = `${JSON.stringify({ jsonrpc: '2.0', id: second.id, result: {} })}\n`;
  for (const letter of line) agent.raw(letter);
  assert.deepEqual(await next, { stopReason: 'end_turn' });
  assert.deepEqual(problems, []);
});

test('malformed answers are errors that people can read', async (t) => {
  const errors = [
    7,
    'words',
    [],
    {},
    { code: 'x' },
    { code: 1.5, message: 7 },
    { message: null, data: { details: 'the reason' } },
  ];
  let next = 0;
  const { agent, editor, session } = await start(t, {
    'session/prompt': (_, it, { id }) => {
      const error = errors[next];
      next += 1;
      it.raw(`${JSON.stringify(next <= errors.length ? { jsonrpc: '2.0', id, error } : { jsonrpc: '2.0', id })}\n`);
      return later;
    },
  });
  for (const error of [...errors, null]) {
    await assert.rejects(
      editor.prompt(session, 'hello'),
      /session\/prompt failed|answered session\/prompt with an error/,
      JSON.stringify(error),
    );
  }
  assert.match(
    entriesOf(editor, session, 'error')
      .map((it) => it.text)
      .join('\n'),
    /the reason/,
  );
  agent.peer.destroy();
  await when(editor, () => chainOf(editor).state === 'ended', 'the end of the chain');
  assert.deepEqual(problems, []);
});

test('answers to the greeting and to new sessions that make no sense', async (t) => {
  for (const value of values) {
    const agent = await scripted(t, { initialize: () => value ?? null, 'session/new': () => value ?? null });
    const editor = startEditor(t, { program: agent.program });
    await assert.rejects(editor.newSession(), /without a sessionId/, JSON.stringify(value));
    assert.equal(chainOf(editor).state, 'running');
    await editor.stop();
  }
  const agent = await scripted(t, {
    'session/new': (_, it) => ({
      sessionId: `s${(it.sessions += 1)}`,
      modes: values,
      models: { availableModels: values },
      configOptions: values.map((it) => ({ id: 'x', name: it, options: [it, { options: values }] })),
    }),
  });
  const editor = startEditor(t, { program: agent.program });
  await works(editor, await editor.newSession());
});

test('thousands of requests, answers that are not read, and cancelled requests', async (t) => {
  const folder = project(t, { 'a.txt': 'x'.repeat(100_000) });
  const { agent, editor, session } = await start(t, {}, { folder });
  const reads = Array.from({ length: 3000 }, () =>
    agent.request('fs/read_text_file', { sessionId: session, path: join(folder, 'a.txt') }),
  );
  agent.peer.pause();
  // The answers wait until the agent reads again.
  const often = (check) => {
    const timer = setInterval(check, 10);
    return () => clearInterval(timer);
  };
  await until(often, () => agent.peer.readableLength >= agent.peer.readableHighWaterMark, 'answers that are not read');
  agent.peer.resume();
  const answers = await Promise.all(reads);
  const refused = answers.filter((it) => it.error);
  assert.ok(
    refused.every((it) => /requests are being performed|EMFILE/.test(it.error.message)),
    JSON.stringify(refused[0]),
  );
  assert.ok(answers.some((it) => it.result?.content.length === 100_000));
  const waits = Array.from({ length: 50 }, (_, count) => {
    const options = [{ optionId: 'y', name: 'Yes', kind: 'allow_once' }];
    const answer = agent.request(
      'session/request_permission',
      { sessionId: session, toolCall: { toolCallId: 't' }, options },
      `q${count}`,
    );
    agent.notify('$/cancel_request', { requestId: `q${count}` });
    agent.notify('$/cancel_request', { requestId: `q${count}` });
    return answer;
  });
  for (const { error } of await Promise.all(waits))
    assert.deepEqual(error, { code: -32800, message: 'the request was cancelled' });
  assert.ok(entriesOf(editor, session, 'question').every((it) => it.answer === 'cancelled'));
  await works(editor, session);
});

test('a refusal of everything is an editor that says so', async (t) => {
  const refuse = () => new Refusal({ code: -32603, message: 'no' });
  const agent = await scripted(t, { initialize: refuse });
  const editor = startEditor(t, { program: agent.program });
  await assert.rejects(editor.newSession(), /initialize failed: no/);
  assert.deepEqual([chainOf(editor).state, /no/.test(chainOf(editor).error)], ['ended', true]);
  const second = await scripted(t, { 'session/new': refuse });
  const other = startEditor(t, { program: second.program });
  await assert.rejects(other.newSession(), /session\/new failed: no/);
  assert.equal(chainOf(other).state, 'running');
  assert.match(chainOf(other).error, /session\/new failed: no/);
  assert.deepEqual(problems, []);
});
