// The same conversation through the studio (Rust) and through the library gives the same entries.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { project, startEditor, when } from './help.mjs';
import { later, Refusal, scripted } from './scripted.mjs';
import { startStudio } from './studio.mjs';

const option = (id, more) => ({ id, name: id.toUpperCase(), ...more });

/** What the agent says before it answers a prompt. */
const turns = {
  async texts(session, agent) {
    agent.say(session, 'Let me ', 'agent_thought_chunk');
    agent.say(session, 'think.', 'agent_thought_chunk');
    agent.say(session, 'Hello');
    agent.say(session, ' 🎉 world');
    agent.say(session, 'the prompt again', 'user_message_chunk');
    agent.update(session, {
      sessionUpdate: 'agent_message_chunk',
      content: { type: 'image', mimeType: 'image/png', data: 'aGk=' },
    });
    agent.update(session, {
      sessionUpdate: 'agent_message_chunk',
      content: { type: 'resource', resource: { uri: 'file:///a/b.txt', text: 'b' } },
    });
    agent.update(session, { sessionUpdate: 'agent_message_chunk', content: { type: 'audio', mimeType: 'audio/wav' } });
    agent.say(session, 'The end.');
  },
  async tools(session, agent, folder) {
    const call = {
      sessionUpdate: 'tool_call',
      toolCallId: 't1',
      title: 'Edit\na file',
      kind: 'edit',
      rawInput: { path: 'a' },
    };
    agent.update(session, call);
    agent.update(session, {
      sessionUpdate: 'tool_call_update',
      toolCallId: 't1',
      title: null,
      status: 'completed',
      content: [
        { type: 'diff', path: join(folder, 'a.txt'), oldText: 'old', newText: 'new' },
        { type: 'diff', path: '/elsewhere/b.txt', newText: 'new' },
        { type: 'content', content: { type: 'text', text: 'done' } },
        { type: 'content', content: { type: 'resource_link', uri: 'https://example.org/x', name: 'x' } },
      ],
      locations: [{ path: join(folder, 'sub/c.txt'), line: 3 }, { path: '/x' }],
      rawOutput: { ok: true },
    });
    agent.update(session, { sessionUpdate: 'tool_call_update', toolCallId: 't2', status: 'failed' });
    agent.update(session, {
      sessionUpdate: 'plan',
      entries: [{ content: 'one\ntwo', status: 'completed', priority: 'high' }, {}],
    });
    agent.update(session, {
      sessionUpdate: 'available_commands_update',
      availableCommands: [
        { name: '/go', description: ' Goes ', input: { hint: 'where' } },
        { name: '' },
        { name: 'stop' },
      ],
    });
    agent.update(session, { sessionUpdate: 'usage_update', used: 12_400, size: 200_000 });
    agent.update(session, {
      sessionUpdate: 'session_info_update',
      title: `A title\u001b[31m that is long ${'x'.repeat(100)}`,
    });
    agent.update(session, { sessionUpdate: 'current_mode_update', currentModeId: 'b' });
  },
  async options(session, agent) {
    agent.update(session, {
      sessionUpdate: 'config_option_update',
      configOptions: [
        option('effort', {
          category: 'thought_level',
          currentValue: 'low',
          options: [{ group: 'g', name: 'G', options: [{ value: 'low', name: 'Low' }, { value: 'high' }] }],
        }),
        option('fast', { type: 'boolean', currentValue: true }),
        option('empty', { options: [] }),
      ],
    });
  },
  async files(session, agent, folder) {
    const read = (path, more) => agent.request('fs/read_text_file', { sessionId: session, path, ...more });
    const answers = [
      await read(join(folder, 'a.txt')),
      await read(join(folder, 'a.txt'), { line: 2, limit: 1 }),
      await read(join(folder, 'none')),
      await read('relative'),
      await read(folder),
      await read(join(folder, 'a.txt'), { line: 99 }),
      await agent.request('fs/write_text_file', {
        sessionId: session,
        path: join(folder, 'deep/new.txt'),
        content: 'ä',
      }),
      await agent.request('fs/write_text_file', { sessionId: session, path: join(folder, 'x.txt') }),
      await agent.request('fs/read_text_file', { sessionId: session }),
      await agent.request('no/such', {}),
      await agent.request('terminal/output', { sessionId: session, terminalId: 'none' }),
      await agent.request('terminal/create', { sessionId: session, command: ' ' }),
      await agent.request('terminal/create', { sessionId: session, command: 'ls', cwd: 'relative' }),
      await agent.request('terminal/create', { sessionId: session, command: 'no-such-program-here' }),
    ];
    agent.say(
      session,
      JSON.stringify(
        answers.map(({ result, error }) => ({ result, error })),
        null,
        1,
      ),
    );
  },
  async terminal(session, agent) {
    const { result } = await agent.request('terminal/create', {
      sessionId: session,
      command: 'printf "%s" "a b"; echo " é"; echo err >&2; exit 4',
    });
    const params = { sessionId: session, ...result };
    const exit = await agent.request('terminal/wait_for_exit', params);
    const output = await agent.request('terminal/output', params);
    agent.update(session, {
      sessionUpdate: 'tool_call',
      toolCallId: 'run',
      title: 'Run',
      content: [{ type: 'terminal', ...result }],
    });
    await agent.request('terminal/release', params);
    agent.say(session, JSON.stringify([exit.result, output.result]));
  },
  async permission(session, agent) {
    agent.update(session, {
      sessionUpdate: 'tool_call',
      toolCallId: 'p',
      title: 'Clean up',
      kind: 'execute',
      rawInput: { command: ['rm', '-r', 'x'] },
    });
    const options = [
      { optionId: 'y', name: 'Yes', kind: 'allow_once' },
      { optionId: 'n', name: 'No\n', kind: 'reject_once' },
    ];
    const { result } = await agent.request('session/request_permission', {
      sessionId: session,
      toolCall: { toolCallId: 'p' },
      options,
    });
    agent.say(session, JSON.stringify(result));
  },
  async outside(session, agent) {
    const { error } = await agent.request('fs/read_text_file', { sessionId: session, path: '/etc/hostname' });
    agent.say(session, JSON.stringify(error));
  },
  async scp(session, agent) {
    const send = async (method, params) => {
      const { result, error } = await agent.request(`_scp/${method}`, params);
      agent.say(session, `${method}: ${JSON.stringify(result ?? error)}\n`);
    };
    await send('html_panel/show', { id: 'p' });
    await send('html_panel/show', { id: 'p', label: 'P', contents: '<p>x</p>', sessionId: session });
    await send('html_panel/show', { id: 'p', label: 'P2' });
    await send('html_panel/get', { id: 'p' });
    await send('html_panel/get', { id: 'none' });
    await send('file_comment/show', {
      id: 'c',
      url: 'a.txt',
      start: { line: 1, column: 2 },
      end: { line: 2 },
      can_reply: true,
      contents: '*c*',
    });
    await send('file_comment/show', { id: 'd', url: 'a.txt', start: { line: 0 } });
    await send('file_comment/show', { id: 'd', url: 'https://example.org', start: { line: 1 } });
    await send('ide_operation/diagnostics', {});
    agent.notify('_scp/log', { level: 'warn', message: 'a log\u0007', component: 'me' });
  },
};

async function scriptedTurns(t, folder) {
  return scripted(t, {
    initialize: () => ({
      protocolVersion: 1,
      agentInfo: { name: 'scripted', title: 'Scripted agent', version: '1' },
      agentCapabilities: {
        loadSession: true,
        promptCapabilities: { image: true },
        sessionCapabilities: { list: {}, close: {} },
      },
      authMethods: [
        { id: 'key', name: 'Key', description: 'A key' },
        { id: 'term', name: 'T', type: 'terminal', _meta: { 'terminal-auth': { command: 'x y', args: ['log in'] } } },
      ],
    }),
    'session/new': (_, it) => ({
      sessionId: `s${(it.sessions += 1)}`,
      modes: {
        currentModeId: 'a',
        availableModes: [
          { id: 'a', name: 'A', description: 'first' },
          { id: 'b', name: 'B' },
        ],
      },
      models: { currentModelId: 'm', availableModels: [{ modelId: 'm', name: 'M' }] },
    }),
    'session/list': () => ({
      sessions: [{ sessionId: 'earlier', title: 'Earlier\nmore', updatedAt: '2026-01-02T03:04:05Z', cwd: folder }],
    }),
    'session/load': ({ sessionId }, it) => {
      it.say(sessionId, 'What was ', 'user_message_chunk');
      it.say(sessionId, 'that?', 'user_message_chunk');
      it.say(sessionId, 'It was **this**.');
      it.update(sessionId, { sessionUpdate: 'tool_call', toolCallId: 'l', title: 'Loaded', status: 'completed' });
      return sessionId === 'earlier'
        ? { modes: { currentModeId: 'x', availableModes: [{ id: 'x', name: 'X' }] } }
        : new Refusal({ code: -32002, message: 'gone' });
    },
    'session/set_mode': ({ modeId }) =>
      modeId === 'b' ? {} : new Refusal({ code: -32602, message: 'no', data: { details: 'not this one' } }),
    'session/set_model': () => ({}),
    'session/set_config_option': ({ configId, value }) => ({
      configOptions: [option(configId, { currentValue: value, options: [{ value: 'low' }, { value: 'high' }] })],
    }),
    'session/close': () => ({}),
    'session/prompt': async ({ sessionId, prompt }, agent, { id }) => {
      const [word] = (prompt[0].text ?? '').split(' ');
      if (word === 'fail')
        return new Refusal({
          code: -32603,
          message: 'Internal error',
          data: { details: 'first\nsecond', apiKey: 'abc' },
        });
      if (word === 'limit') return new Refusal({ code: -32603, message: '429 Too Many Requests' });
      if (word === 'login') return new Refusal({ code: -32000, message: 'Authentication required' });
      if (word === 'wait') {
        agent.say(sessionId, 'waiting');
        agent.held = id;
        return later;
      }
      await turns[word]?.(sessionId, agent, folder);
      return { stopReason: word === 'scp' ? 'refusal' : 'end_turn' };
    },
  });
}

/** Plays the conversation. `target` is the studio or the library. */
async function play(target, agent) {
  const { do: act, entries } = target;
  const session = 's1';
  const open = (kind) =>
    entries(`session/${session}`).find(([, it]) => it.kind === kind && (it.answer ?? null) === null);
  const idle = () =>
    entries('sessions').find(([id]) => id === session)?.[1].state === 'idle' &&
    !entries(`session/${session}`).some(([, it]) => it.kind === 'user' && it.queued);
  const ask = async (text) => {
    await act({ op: 'prompt', session, text, attachments: [] });
    await target.when(idle, `the end of '${text}'`);
  };
  const refused = [];
  const fails = async (action) =>
    refused.push(
      await act(action).then(
        (it) => it,
        (error) => error.message,
      ),
    );
  await target.when(idle, 'the first session');
  await target.when(() => entries('sessions').some(([id]) => id === 'earlier'), 'the list');
  for (const word of ['texts', 'tools']) await ask(word);
  await act({ op: 'select', session, select: 'mode', value: 'b' });
  await act({ op: 'select', session, select: 'model', value: 'm' });
  await fails({ op: 'select', session, select: 'mode', value: 'a' });
  await fails({ op: 'select', session, select: 'mode', value: 'c' });
  await ask('options');
  await act({ op: 'select', session, select: 'option:effort', value: 'high' });
  for (const word of ['files', 'terminal']) await ask(word);
  for (const [word, choice] of [
    ['permission', 'y'],
    ['permission', 'n'],
    ['outside', 'reject_once'],
  ]) {
    await act({ op: 'prompt', session, text: word, attachments: [] });
    const [entry] = await target.when(() => open('question'), 'the question');
    await fails({ op: 'answer', session, entry, choice: 'other' });
    await act({ op: 'answer', session, entry, choice });
    await fails({ op: 'answer', session, entry, choice });
    await target.when(idle, 'the end of the turn');
  }
  await act({ op: 'prompt', session, text: 'permission', attachments: [] });
  await target.when(() => open('question'), 'the question');
  await act({ op: 'cancel', session });
  await target.when(idle, 'the cancelled turn');
  for (const word of ['fail', 'limit', 'login', 'scp']) await ask(word);
  await act({ op: 'reply', thread: 'c', text: ' a reply ' });
  await fails({ op: 'reply', thread: 'none', text: 'x' });
  await act({ op: 'panelEvent', panel: 'p', widget: 'w', event: 'input', value: 'v' });
  await fails({ op: 'panelEvent', panel: 'none', widget: 'w', event: 'click', value: null });
  await act({
    op: 'prompt',
    session,
    text: 'wait',
    attachments: [
      { attach: 'text', name: 'Note', text: 'n' },
      { attach: 'image', name: 'i.png', mime: 'image/png', data: 'aGk=' },
    ],
  });
  await target.when(() => entries(`session/${session}`).some(([, it]) => it.text === 'waiting'), 'it waits');
  for (const text of ['two', 'three']) await act({ op: 'prompt', session, text, attachments: [] });
  await target.when(() => entries(`session/${session}`).filter(([, it]) => it.queued).length === 2, 'two wait');
  const [[two], [three]] = entries(`session/${session}`).filter(([, it]) => it.queued);
  await fails({ op: 'unqueue', session, entry: two });
  await act({ op: 'sendNow', session, entry: three });
  await agent.heard('session/cancel', 2);
  agent.send({ id: agent.held, result: { stopReason: 'cancelled' } });
  await target.when(idle, 'the last turn');
  await act({ op: 'draft', session, text: 'a draft' });
  await fails({ op: 'openSession', session: 'missing' });
  await act({ op: 'openSession', session: 'earlier' });
  await target.when(
    () => entries('sessions').find(([id]) => id === 'earlier')?.[1].state === 'idle',
    'the earlier session',
  );
  await fails({ op: 'prompt', session: 'nobody', text: 'x', attachments: [] });
  await fails({ op: 'prompt', session, text: '  ', attachments: [] });
  await act({ op: 'closePanel', panel: 'p' });
  return refused;
}

/** Entries without what differs from run to run: times, and the numbers of ids. */
function comparable(value, folder, port) {
  const times = ['time', 'since', 'ms'];
  const clean = (it) => {
    if (Array.isArray(it)) return it.map(clean);
    // The systems of both languages name a missing file in their own way.
    if (typeof it === 'string')
      return it
        .replaceAll(folder, 'FOLDER')
        .replaceAll(port, 'PORT')
        .replace(/ \((ENOENT|os error 2)\)/g, '');
    if (typeof it !== 'object' || it === null) return it;
    return Object.fromEntries(
      Object.entries(it).map(([name, member]) => [name, times.includes(name) && member !== null ? 0 : clean(member)]),
    );
  };
  return clean(value).map(([id, entry]) => [id.replace(/^(m|q|e|log):\d+$/, '$1'), entry]);
}

test('the studio and the library show the same', async (t) => {
  const shown = {};
  const refused = {};
  const heard = {};
  for (const name of ['studio', 'library']) {
    const folder = project(t, { 'a.txt': 'one\ntwo\nthree\n' });
    mkdirSync(join(folder, 'sub'));
    writeFileSync(join(folder, 'sub/c.txt'), '');
    const agent = await scriptedTurns(t, folder);
    let target;
    if (name === 'studio') {
      target = await startStudio(t, folder, [agent.words]);
    } else {
      const editor = startEditor(t, { folder, chain: [agent.words], options: { components: ['pipe-agent'] } });
      target = {
        do: (action) => editor.do(action),
        entries: (topic) => editor.topics.entries(topic),
        when: (fact, what) => when(editor, fact, what),
      };
    }
    refused[name] = await play(target, agent);
    const port = agent.program.args[1];
    const topics = [
      'chain',
      'sessions',
      'session/s1',
      'session/earlier',
      'session/missing',
      'panels',
      'comments',
      'files',
    ];
    shown[name] = Object.fromEntries(topics.map((topic) => [topic, comparable(target.entries(topic), folder, port)]));
    // What the agent has heard: the same requests, in the same order. Each side declares itself in its own way.
    heard[name] = agent.messages
      .filter((it) => it.method !== undefined && !['initialize', 'session/list'].includes(it.method))
      .map(({ method, params }) => JSON.parse(JSON.stringify({ method, params }).replaceAll(folder, 'FOLDER')));
  }
  for (const topic of Object.keys(shown.studio)) {
    if (topic === 'chain') continue;
    assert.deepEqual(shown.library[topic], shown.studio[topic], topic);
  }
  const logs = (name) =>
    shown[name].chain.filter(([, it]) => it.kind === 'log' && it.component !== null && it.text === 'a log');
  assert.deepEqual(logs('library'), logs('studio'));
  const [[, one], [, two]] = [shown.studio.chain[0], shown.library.chain[0]];
  assert.deepEqual(two, one);
  assert.deepEqual(refused.library, refused.studio);
  assert.deepEqual(heard.library, heard.studio);
});
