// Conversations of an earlier run: shown at once, and opened by load, by resume, or as a new session.
import assert from 'node:assert/strict';
import test from 'node:test';
import { chainOf, conductor, entriesOf, entry, project, said, startEditor, when } from './help.mjs';
import { later, Refusal, scripted } from './scripted.mjs';

const greeting = (capabilities) => () => ({ protocolVersion: 1, agentCapabilities: capabilities });

const kept = (id, entries = []) => ({
  id,
  session: { title: 'Earlier words', cwd: '/tmp', state: 'running', time: 1000 },
  entries: [
    ['turn', { kind: 'turn', state: 'running', since: 1, awaits: null, ended: null }],
    ['m:7', { kind: 'user', text: 'before', attachments: [], queued: false, time: 1 }],
    ['m:9', { kind: 'agent', text: 'half an ans', open: true, time: 2, blocks: [] }],
    ...entries,
  ],
});

/** The texts of a session, with the kind of each. */
const texts = (editor, session) =>
  entriesOf(editor, session, 'user', 'agent', 'note', 'error', 'draft').map(
    (it) => `${it.kind}: ${it.text.split('\n')[0]}`,
  );

test('a conversation with the demo agent is kept, restored and continued', async (t) => {
  const folder = project(t);
  const env = { ...process.env, HOME: project(t) };
  const program = { command: conductor, args: ['agent', 'demo-agent --pace 0'], env };
  const first = startEditor(t, { folder, program });
  const session = await first.newSession();
  await first.prompt(session, 'hello one');
  const conversations = JSON.parse(JSON.stringify(first.conversations()));
  assert.deepEqual(
    conversations.map((it) => it.id),
    [session],
  );
  await first.stop();
  const second = startEditor(t, { folder, program, options: { restored: conversations, continue: session } });
  assert.match(said(second, session), /hello one/, 'shown before the program runs');
  assert.equal(second.topics.get('sessions', session).state, 'saved');
  await when(second, () => chainOf(second).state === 'running', 'the chain runs');
  const opened = await second.do({ op: 'openSession', session }).catch(() => session);
  await when(second, () => ['idle', 'failed'].includes(second.topics.get('sessions', opened)?.state), 'it is open');
  assert.match(said(second, opened), /hello one/, 'whether the agent knows it or not');
});

test('restored entries are as their program has left them', async (t) => {
  const agent = await scripted(t);
  const question = { kind: 'question', title: 'q', tool: null, command: null, choices: [], answer: null };
  const tool = {
    kind: 'tool',
    title: 't',
    tool: 'read',
    status: 'in_progress',
    blocks: [],
    diffs: [],
    terminals: ['terminal-4'],
    places: [],
    input: null,
    output: null,
    time: 1,
    ms: null,
  };
  const restored = [
    kept('old', [
      ['q:3', question],
      ['tool:5:x', tool],
      ['terminal:terminal-4', { kind: 'terminal', command: 'c', text: '', exit: null, cut: false }],
      ['m:12', { kind: 'user', text: 'never sent', attachments: [], queued: true, time: 3 }],
      ['draft', { kind: 'draft', text: 'half written' }],
      ['bad', { kind: 'nothing' }],
      'worse',
    ]),
    { id: 7 },
    { id: 'x', session: null, entries: [] },
    { id: 'y', session: kept('y').session, entries: 5 },
  ];
  const editor = startEditor(t, { program: agent.program, options: { restored } });
  const get = (id) => editor.topics.get('session/old', id);
  assert.equal(get('m:9').open, false);
  assert.equal(get('q:3').answer, 'cancelled');
  assert.equal(get('tool:5:x').status, 'failed');
  assert.deepEqual(get('terminal:terminal-4').exit, { code: null, signal: null });
  assert.equal(get('draft').text, 'never sent\n\nhalf written');
  assert.equal(get('turn').state, 'idle');
  assert.deepEqual(
    editor.topics.entries('sessions').map(([id]) => id),
    ['old'],
  );
  // New ids are none of the old ones.
  const session = await editor.newSession();
  await editor.prompt(session, 'new');
  const [id] = editor.topics.entries(`session/${session}`).find(([, it]) => it.kind === 'user');
  assert.ok(Number(id.split(':')[1]) > 12, id);
  const { result } = await agent.request('terminal/create', { sessionId: session, command: 'true' });
  assert.equal(result.terminalId, 'terminal-5');
  await editor.do({ op: 'draft', session: 'old', text: 'other words' });
  assert.equal(get('draft').text, 'other words');
});

test('load: the replay replaces what was shown, and waiting messages are sent afterwards', async (t) => {
  const agent = await scripted(t, { initialize: greeting({ loadSession: true }), 'session/load': () => later });
  const editor = startEditor(t, { program: agent.program, options: { restored: [kept('old')], continue: 'old' } });
  const [{ id, params }] = await agent.heard('session/load');
  assert.deepEqual(params, { sessionId: 'old', cwd: '/tmp', mcpServers: [] });
  assert.deepEqual(texts(editor, 'old'), ['user: before', 'agent: half an ans'], 'still shown');
  assert.equal(editor.topics.get('session/old', 'turn').state, 'loading');
  const turn = editor.prompt('old', 'while it loads');
  agent.say('old', 'before', 'user_message_chunk');
  agent.say('old', 'a whole answer');
  await when(editor, () => said(editor, 'old') === 'a whole answer', 'the replay');
  const [{ entries }] = editor.conversations();
  const words = entries.map(([, it]) => it.text).filter(Boolean);
  assert.deepEqual(words, ['before', 'half an ans', 'while it loads'], 'what is kept is not half of a replay');
  agent.send({ id, result: {} });
  assert.deepEqual(await turn, { stopReason: 'end_turn' });
  assert.deepEqual(texts(editor, 'old'), ['user: before', 'agent: a whole answer', 'user: while it loads']);
  assert.equal(agent.messages.filter((it) => it.method === 'session/new').length, 0);
});

test('a load that fails goes on in a new session, with the error', async (t) => {
  for (const code of [-32603, -32602, 4]) {
    const agent = await scripted(t, {
      initialize: greeting({ loadSession: true }),
      'session/load': (_, it) => {
        it.say('old', 'something else');
        return new Refusal({ code, message: 'The disk is full' });
      },
    });
    const options = { restored: [kept('old')], continue: 'old' };
    const editor = startEditor(t, { program: agent.program, options });
    assert.deepEqual(await editor.prompt('old', 'go on'), { stopReason: 'end_turn' });
    const { sessionId: id } = agent.messages.find((it) => it.method === 'session/prompt').params;
    assert.equal(id, 's1');
    const [user, before, note, prompt] = texts(editor, id);
    assert.deepEqual([user, before, prompt], ['user: before', 'agent: half an ans', 'user: go on']);
    assert.match(note, /^note: The agent could not open this session: .* This is a new session/);
    assert.match(note, /The disk is full/);
    assert.equal(editor.topics.get('sessions', id).state, 'idle');
  }
});

test('if a new session cannot take over either, the conversation is back, with the error, and can be tried again', async (t) => {
  let tries = 0;
  const full = new Refusal({ code: -32603, message: 'The disk is full' });
  const agent = await scripted(t, {
    initialize: greeting({ loadSession: true }),
    'session/load': (_, it) => {
      it.say('old', 'something else');
      return (tries += 1) === 1 ? full : {};
    },
    'session/new': () => full,
  });
  const editor = startEditor(t, { program: agent.program, options: { restored: [kept('old')], continue: 'old' } });
  await when(editor, () => editor.topics.get('sessions', 'old').state === 'failed', 'it has failed');
  assert.deepEqual(texts(editor, 'old').slice(0, 2), ['user: before', 'agent: half an ans']);
  assert.match(texts(editor, 'old')[2], /^error: .*session\/new.*The disk is full/);
  await assert.rejects(editor.do({ op: 'prompt', session: 'old', text: 'x', attachments: [] }), /has failed/);
  assert.equal(await editor.do({ op: 'openSession', session: 'old' }), 'old');
  assert.deepEqual(texts(editor, 'old'), ['agent: something else']);
  assert.equal(editor.topics.get('sessions', 'old').state, 'idle');
});

test('a load that fails becomes a resume, if the agent can do that', async (t) => {
  const agent = await scripted(t, {
    initialize: greeting({ loadSession: true, sessionCapabilities: { resume: {} } }),
    'session/load': () => new Refusal({ code: -32002, message: 'Resource not found' }),
    'session/resume': () => ({}),
  });
  const editor = startEditor(t, { program: agent.program, options: { restored: [kept('old')] } });
  assert.deepEqual(await editor.prompt('old', 'go on'), { stopReason: 'end_turn' });
  assert.deepEqual(texts(editor, 'old'), ['user: before', 'agent: half an ans', 'user: go on']);
});

test('a session that the agent does not have any more goes on in a new one', async (t) => {
  const agent = await scripted(t, {
    initialize: greeting({ loadSession: true }),
    'session/load': () => new Refusal({ code: -32002, message: 'Resource not found' }),
  });
  const editor = startEditor(t, { program: agent.program, options: { restored: [kept('old')] } });
  await editor.newSession();
  const id = await editor.do({ op: 'openSession', session: 'old' });
  assert.notEqual(id, 'old');
  assert.deepEqual(texts(editor, id).slice(0, 2), ['user: before', 'agent: half an ans']);
  assert.match(texts(editor, id)[2], /^note: The agent does not have this session any more/);
  assert.deepEqual(await editor.prompt(id, 'go on'), { stopReason: 'end_turn' });
});

test('resume: the entries stay', async (t) => {
  const agent = await scripted(t, {
    initialize: greeting({ sessionCapabilities: { resume: {} } }),
    'session/resume': () => ({ modes: { currentModeId: 'a', availableModes: [{ id: 'a', name: 'A' }] } }),
  });
  const editor = startEditor(t, { program: agent.program, options: { restored: [kept('old')] } });
  assert.deepEqual(await editor.prompt('old', 'go on'), { stopReason: 'end_turn' });
  assert.deepEqual(texts(editor, 'old'), ['user: before', 'agent: half an ans', 'user: go on']);
  assert.equal(editor.topics.get('session/old', 'settings').selects[0].current, 'a');
  assert.equal(agent.messages.find((it) => it.method === 'session/resume').params.sessionId, 'old');
});

test('neither: a new session takes over the conversation, and says so', async (t) => {
  const agent = await scripted(t);
  const editor = startEditor(t, { program: agent.program, options: { restored: [kept('old')] } });
  const turn = editor.prompt('old', 'go on');
  const id = await editor.do({ op: 'openSession', session: 'old' });
  assert.deepEqual(await turn, { stopReason: 'end_turn' });
  const [[moved, session]] = editor.topics.entries('sessions').filter(([, it]) => it.title === 'Earlier words');
  assert.equal(id, moved);
  assert.notEqual(moved, 'old');
  assert.equal(await editor.do({ op: 'openSession', session: 'old' }), moved, 'the old id still leads to it');
  assert.equal(session.state, 'idle');
  assert.deepEqual(texts(editor, moved), [
    'user: before',
    'agent: half an ans',
    'note: The agent cannot open earlier sessions. This is a new session: the agent does not know what was said before.',
    'user: go on',
  ]);
  assert.equal(editor.topics.get('sessions', 'old'), undefined);
  assert.deepEqual(editor.topics.entries('session/old'), []);
  assert.equal(agent.messages.findLast((it) => it.method === 'session/prompt').params.sessionId, moved);
});

test('a session that takes over is named by openSession', async (t) => {
  const agent = await scripted(t);
  const editor = startEditor(t, { program: agent.program, options: { restored: [kept('old')], continue: 'old' } });
  const [id] = await entry(editor, 'sessions', (it) => it.state === 'idle');
  assert.equal(id, 's1');
  assert.equal(agent.messages.find((it) => it.method === 'session/new').params.cwd, '/tmp');
  assert.deepEqual(
    editor.conversations().map((it) => it.id),
    ['s1'],
  );
});

test('a new session with the id of a kept conversation begins empty, and the conversation goes on under another id', async (t) => {
  const agent = await scripted(t);
  const editor = startEditor(t, { program: agent.program, options: { restored: [kept('s1'), kept('s1~1'), kept('s2')] } });
  assert.equal(await editor.newSession(), 's1');
  await editor.prompt('s1', 'hello');
  assert.deepEqual(texts(editor, 's1'), ['user: hello']);
  assert.deepEqual(texts(editor, 's1~2'), ['user: before', 'agent: half an ans']);
  assert.equal(editor.topics.get('sessions', 's1~2').state, 'saved');
  // The session that takes over has the id of a kept conversation, too.
  assert.equal(await editor.do({ op: 'openSession', session: 's1~2' }), 's2');
  assert.deepEqual(texts(editor, 's2').slice(0, 2), ['user: before', 'agent: half an ans']);
  assert.match(texts(editor, 's2')[2], /^note: .*This is a new session/);
  assert.deepEqual(texts(editor, 's2~1'), ['user: before', 'agent: half an ans']);
  assert.deepEqual(
    editor
      .conversations()
      .map((it) => it.id)
      .sort(),
    ['s1', 's1~1', 's2', 's2~1'],
  );
});

test('sessions of the agent are listed page by page, and loaded', async (t) => {
  const pages = {
    '': {
      sessions: [{ sessionId: 'a', title: 'First', updatedAt: '1970-01-01T00:00:01Z', cwd: '/x' }, {}],
      nextCursor: 'next',
    },
    next: { sessions: [{ sessionId: 'b' }, { sessionId: 5 }, null] },
  };
  const agent = await scripted(t, {
    initialize: greeting({ loadSession: true, sessionCapabilities: { list: {}, close: {} } }),
    'session/list': ({ cursor }) => pages[cursor ?? ''],
    'session/load': ({ sessionId }, it) => {
      it.say(sessionId, 'said before', 'user_message_chunk');
      return {};
    },
    'session/close': () => ({}),
  });
  const editor = startEditor(t, { program: agent.program });
  const [, listed] = await entry(editor, 'sessions', (_, id) => id === 'a');
  assert.deepEqual(listed, { kind: 'session', title: 'First', cwd: '/x', state: 'saved', time: 1000 });
  await entry(editor, 'sessions', (it, id) => id === 'b' && it.title === 'b');
  assert.equal(await editor.do({ op: 'openSession', session: 'a' }), 'a');
  assert.deepEqual(texts(editor, 'a'), ['user: said before']);
  assert.equal(await editor.do({ op: 'listSessions' }), null);
  assert.equal(editor.topics.get('sessions', 'a').state, 'idle', 'it is open');
  assert.equal(await editor.do({ op: 'closeSession', session: 'a' }), null);
  assert.deepEqual(editor.topics.entries('session/a'), []);
  assert.deepEqual((await agent.heard('session/close'))[0].params, { sessionId: 'a' });
  await entry(editor, 'sessions', (it, id) => id === 'a' && it.state === 'saved');
});

test('sessions of all folders of the project are listed, also if the agent has an error about one of them', async (t) => {
  const folder = project(t);
  const sessions = { [folder]: [{ sessionId: 'a' }], '/two': [{ sessionId: 'b' }, { sessionId: 'c', cwd: '/else' }] };
  const agent = await scripted(t, {
    initialize: greeting({ loadSession: true, sessionCapabilities: { list: {} } }),
    'session/list': ({ cwd }) =>
      sessions[cwd] ? { sessions: sessions[cwd] } : new Refusal({ code: -32603, message: 'no such folder' }),
  });
  const otherFolders = ['/one', '/two', folder];
  const editor = startEditor(t, { folder, program: agent.program, options: { otherFolders: () => otherFolders } });
  await entry(editor, 'sessions', (_, id) => id === 'c');
  const cwdOf = (id) => editor.topics.get('sessions', id).cwd;
  assert.deepEqual(['a', 'b', 'c'].map(cwdOf), ['', '/two', '/else']);
  const asked = async (from, number) =>
    (await agent.heard('session/list', from + number)).slice(from).map((it) => it.params.cwd);
  assert.deepEqual(await asked(0, 3), [folder, '/one', '/two']);
  await assert.rejects(editor.do({ op: 'listSessions' }), /no such folder/);
  otherFolders.shift();
  assert.equal(await editor.do({ op: 'listSessions' }), null);
  assert.deepEqual(await asked(6, 2), [folder, '/two']);
});

test('an agent that cannot load says so', async (t) => {
  const agent = await scripted(t);
  const editor = startEditor(t, { program: agent.program });
  await editor.newSession();
  await assert.rejects(editor.do({ op: 'openSession', session: 'other' }), /the agent cannot load earlier sessions/);
});

test('a restored conversation is kept if the program never starts', async (t) => {
  const editor = startEditor(t, {
    program: { command: 'no-such-program', args: [] },
    options: { restored: [kept('old')], continue: 'old' },
  });
  const turn = editor.prompt('old', 'hello?');
  await assert.rejects(turn, /not found/);
  const [{ id, entries }] = editor.conversations();
  assert.equal(id, 'old');
  assert.deepEqual(
    entries.filter(([, it]) => it.kind === 'user').map(([, it]) => it.text),
    ['before', 'hello?'],
  );
});

test('a conversation that needs a log-in is opened after it', async (t) => {
  let isLoggedIn = false;
  const agent = await scripted(t, {
    initialize: () => ({
      protocolVersion: 1,
      agentCapabilities: { loadSession: true },
      authMethods: [{ id: 'key', name: 'Key' }],
    }),
    authenticate: () => {
      isLoggedIn = true;
      return {};
    },
    'session/load': () => (isLoggedIn ? {} : new Refusal({ code: -32000, message: 'Authentication required' })),
  });
  const options = { restored: [kept('old')], continue: 'old' };
  const editor = startEditor(t, { program: agent.program, options });
  await when(editor, () => chainOf(editor).state === 'login', 'the agent asks for a log-in');
  assert.deepEqual(texts(editor, 'old').slice(0, 2), ['user: before', 'agent: half an ans']);
  await editor.do({ op: 'logIn', login: 'key' });
  await when(editor, () => editor.topics.get('sessions', 'old').state === 'idle', 'it is open');
  assert.deepEqual(texts(editor, 'old').slice(0, 2), ['user: before', 'agent: half an ans']);
  assert.equal(chainOf(editor).state, 'running');
});
