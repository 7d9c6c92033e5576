// Conversations with the demo agent through the real conductor.
import assert from 'node:assert/strict';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { chainOf, conductor, entriesOf, entry, processesWith, project, said, startEditor, when } from './help.mjs';

const demo = { chain: ['demo-agent --pace 0'] };

/** Answers the next open question of a session with the choice of this effect. Returns the question. */
async function answer(editor, session, effect) {
  const [id, question] = await entry(
    editor,
    `session/${session}`,
    (it) => it.kind === 'question' && it.answer === null,
  );
  const choice = question.choices.find((it) => it.effect === effect).id;
  await editor.do({ op: 'answer', session, entry: id, choice });
  return question;
}

test('the greeting, the first session and a prompt', async (t) => {
  const editor = startEditor(t, demo);
  assert.equal(chainOf(editor).state, 'starting');
  const session = await editor.newSession();
  const { state, agent, canLoad, images, error, components } = chainOf(editor);
  assert.deepEqual(
    { state, canLoad, images, error, components },
    { state: 'running', canLoad: true, images: true, error: null, components: demo.chain },
  );
  assert.match(agent, /^Demo agent \d/);
  assert.deepEqual(await editor.prompt(session, 'hello there'), { stopReason: 'end_turn' });
  assert.match(said(editor, session), /You said “hello there”/);
  const shown = editor.topics.get('sessions', session);
  assert.deepEqual([shown.title, shown.state], ['hello there', 'idle']);
  // Another session is another conversation.
  const other = await editor.do({ op: 'newSession' });
  assert.notEqual(other, session);
  assert.equal(editor.topics.entries('sessions').length, 2);
});

test('a streamed text comes in order, and is complete before the turn ends', async (t) => {
  const editor = startEditor(t, demo);
  const session = await editor.newSession();
  let text = '';
  let ended = false;
  editor.topics.follow((topic, change) => {
    if (topic !== `session/${session}`) return;
    if (change.c === 'append') {
      assert.equal(change.offset, text.length);
      text += change.text;
    } else if (change.c === 'put' && change.entry.kind === 'agent') {
      text = change.entry.text;
    } else if (change.c === 'put' && change.entry.kind === 'turn' && change.entry.ended) {
      ended = true;
    }
    if (change.c === 'append') assert.ok(!ended, 'no text after the end of the turn');
  });
  await editor.prompt(session, 'story');
  assert.match(text, /^Once upon a time .* they are playing still\.$/s);
  assert.equal(entriesOf(editor, session, 'agent').at(-1).open, false);
});

test('every kind of update is shown', async (t) => {
  const editor = startEditor(t, demo);
  const session = await editor.newSession();
  const turn = editor.prompt(session, 'show all');
  // Some samples ask for a permission.
  const asked = editor.topics.follow((topic, change) => {
    if (change.c !== 'put' || change.entry.kind !== 'question' || change.entry.answer !== null) return;
    const { id, entry: question } = change;
    void editor.do({ op: 'answer', session, entry: id, choice: question.choices[0].id });
  });
  await turn;
  asked();
  const kinds = new Set(entriesOf(editor, session).map((it) => it.kind));
  for (const kind of ['agent', 'thought', 'tool', 'plan', 'user', 'settings', 'turn']) assert.ok(kinds.has(kind), kind);
  for (const tool of entriesOf(editor, session, 'tool')) assert.equal(typeof tool.time, 'number');
});

test('an edit needs a permission, and is written', async (t) => {
  const folder = project(t, { 'a.txt': 'one\n' });
  const editor = startEditor(t, { ...demo, folder });
  const session = await editor.newSession();
  const turn = editor.prompt(session, 'edit a.txt "two"');
  await when(editor, () => editor.topics.get('sessions', session).state === 'asks', 'the list says that it asks');
  const question = await answer(editor, session, 'allow_once');
  assert.match(question.title, /a\.txt/);
  assert.deepEqual(
    question.tool.places.map((it) => it.path),
    ['a.txt'],
  );
  await turn;
  assert.match(readFileSync(join(folder, 'a.txt'), 'utf8'), /^one\n.*two/s);
  const [tool] = entriesOf(editor, session, 'tool');
  assert.deepEqual(
    [tool.status, tool.tool, tool.diffs[0].path, tool.diffs[0].old],
    ['completed', 'edit', 'a.txt', 'one\n'],
  );
  assert.equal(typeof tool.ms, 'number');
  assert.ok(editor.topics.get('files', 'a.txt').version >= 1, 'views read the file again');
  // Rejected: nothing is written.
  const again = editor.prompt(session, 'edit a.txt "three"');
  await answer(editor, session, 'reject_once');
  await again;
  assert.doesNotMatch(readFileSync(join(folder, 'a.txt'), 'utf8'), /three/);
  const answers = entriesOf(editor, session, 'question').map((it) => it.answer);
  assert.deepEqual(answers.length, 2);
  // A question is answered once.
  const [id] = editor.topics.entries(`session/${session}`).find(([, it]) => it.kind === 'question');
  await assert.rejects(editor.do({ op: 'answer', session, entry: id, choice: 'x' }), /answered already/);
});

test('a cancelled turn cancels its question', async (t) => {
  const editor = startEditor(t, { ...demo, folder: project(t, { 'a.txt': '' }) });
  const session = await editor.newSession();
  const turn = editor.prompt(session, 'edit a.txt x');
  const [id, question] = await entry(editor, `session/${session}`, (it) => it.kind === 'question');
  await assert.rejects(
    editor.do({ op: 'answer', session, entry: id, choice: 'never offered' }),
    /no answer 'never offered'/,
  );
  await editor.do({ op: 'cancel', session });
  assert.deepEqual(await turn, { stopReason: 'cancelled' });
  assert.equal(question.answer, null);
  assert.equal(editor.topics.get(`session/${session}`, id).answer, 'cancelled');
  assert.equal(editor.topics.get('sessions', session).state, 'idle');
});

test('files inside are read, and a file outside asks first', async (t) => {
  const outside = project(t, { 'secret.txt': 'the secret\n' });
  const folder = project(t, { 'in.txt': 'line 1\nline 2\n' });
  symlinkSync(join(outside, 'secret.txt'), join(folder, 'link.txt'));
  const editor = startEditor(t, { ...demo, folder });
  const session = await editor.newSession();
  await editor.prompt(session, 'read in.txt');
  assert.match(said(editor, session), /line 1/);
  const refused = editor.prompt(session, 'read link.txt');
  const question = await answer(editor, session, 'reject_once');
  assert.equal(question.title, `Read ${join(outside, 'secret.txt')}, which is outside of the folder of the project`);
  await refused;
  assert.match(said(editor, session), /permission denied/);
  assert.doesNotMatch(said(editor, session), /the secret/);
  const allowed = editor.prompt(session, 'read link.txt');
  await answer(editor, session, 'allow_once');
  await allowed;
  assert.match(said(editor, session), /the secret/);
  await editor.prompt(session, 'read missing.txt');
  assert.match(said(editor, session), /missing\.txt/);
});

test('an unsaved text of the host is what the agent reads', async (t) => {
  const folder = project(t, { 'a.txt': 'on disk\n' });
  const host = { readTextFile: async () => 'in the window\n' };
  const editor = startEditor(t, { ...demo, folder, host });
  const session = await editor.newSession();
  await editor.prompt(session, 'read a.txt');
  assert.match(said(editor, session), /in the window/);
});

test('a command runs in a terminal whose output is shown', async (t) => {
  const folder = project(t);
  writeFileSync(join(folder, 'both.sh'), 'echo out; echo err >&2; echo out again; exit 3\n');
  const editor = startEditor(t, { ...demo, folder });
  const session = await editor.newSession();
  const turn = editor.prompt(session, 'run sh both.sh');
  const question = await answer(editor, session, 'allow_once');
  assert.equal(question.command, 'sh both.sh');
  await turn;
  const [terminal] = entriesOf(editor, session, 'terminal');
  assert.deepEqual(terminal, {
    kind: 'terminal',
    command: 'sh both.sh',
    text: 'out\nerr\nout again\n',
    folder: null,
    exit: { code: 3, signal: null },
    cut: false,
  });
  const [tool] = entriesOf(editor, session, 'tool');
  assert.equal(tool.status, 'failed');
  assert.ok(editor.topics.get(`session/${session}`, `terminal:${tool.terminals[0]}`));
  const missing = editor.prompt(session, 'run no-such-program-here');
  await answer(editor, session, 'allow_once');
  await missing;
  assert.match(said(editor, session), /No such file or directory/);
});

test('without files and terminals, none are declared', async (t) => {
  const sent = [];
  const editor = startEditor(t, {
    ...demo,
    host: { readTextFile: undefined, writeTextFile: undefined, terminals: false, panels: false, comments: false },
    options: { trace: (direction, message) => direction === 'out' && sent.push(message) },
  });
  const session = await editor.newSession();
  const { clientCapabilities: declared, clientInfo } = sent[0].params;
  assert.deepEqual(declared.fs, { readTextFile: false, writeTextFile: false });
  assert.equal(declared.terminal, false);
  assert.deepEqual(declared._meta, { '_proxy/log': true, '_scp/log': true });
  assert.deepEqual(clientInfo, { name: 'test-client', title: 'Test client', version: '1' });
  await editor.prompt(session, 'run ls');
  assert.match(said(editor, session), /does not let me use terminals/);
});

test('modes, models and options are chosen', async (t) => {
  const editor = startEditor(t, { ...demo, folder: project(t, { 'a.txt': '' }) });
  const session = await editor.newSession();
  const current = () =>
    Object.fromEntries(editor.topics.get(`session/${session}`, 'settings').selects.map((it) => [it.id, it.current]));
  assert.deepEqual(current(), { mode: 'ask', model: 'small', 'option:thoughts': 'true' });
  await editor.do({ op: 'select', session, select: 'mode', value: 'auto' });
  await editor.do({ op: 'select', session, select: 'model', value: 'loud' });
  await editor.do({ op: 'select', session, select: 'option:thoughts', value: 'false' });
  assert.deepEqual(current(), { mode: 'auto', model: 'loud', 'option:thoughts': 'false' });
  await assert.rejects(editor.do({ op: 'select', session, select: 'mode', value: 'x' }), /does not offer this value/);
  await editor.prompt(session, 'edit a.txt more');
  assert.equal(entriesOf(editor, session, 'question').length, 0, 'it does not ask in this mode');
  const text = said(editor, session);
  assert.equal(text, text.toUpperCase());
});

test('messages wait in a queue, can be taken back, and can be sent now', async (t) => {
  const editor = startEditor(t, demo);
  const session = await editor.newSession();
  const first = editor.prompt(session, 'hang');
  await entry(editor, `session/${session}`, (it) => it.kind === 'agent');
  const second = editor.prompt(session, 'second');
  const third = editor.prompt(session, 'third');
  const queued = () => editor.topics.entries(`session/${session}`).filter(([, it]) => it.kind === 'user' && it.queued);
  assert.deepEqual(
    queued().map(([, it]) => it.text),
    ['second', 'third'],
  );
  const [[secondId], [thirdId]] = queued();
  const taken = await editor.do({ op: 'unqueue', session, entry: secondId });
  assert.deepEqual(taken, { text: 'second', attachments: [] });
  await assert.rejects(second, /the message was removed/);
  await assert.rejects(editor.do({ op: 'unqueue', session, entry: secondId }), /sent already/);
  await editor.do({ op: 'sendNow', session, entry: thirdId });
  assert.deepEqual(await first, { stopReason: 'cancelled' });
  assert.deepEqual(await third, { stopReason: 'end_turn' });
  assert.deepEqual(
    entriesOf(editor, session, 'user').map((it) => [it.text, it.queued]),
    [
      ['hang', false],
      ['third', false],
    ],
  );
});

test('drafts are kept until the message is sent', async (t) => {
  const editor = startEditor(t, demo);
  const session = await editor.newSession();
  await editor.do({ op: 'draft', session, text: 'not yet' });
  assert.equal(editor.topics.get(`session/${session}`, 'draft').text, 'not yet');
  await editor.prompt(session, 'hello');
  assert.equal(editor.topics.get(`session/${session}`, 'draft'), undefined);
  await assert.rejects(editor.do({ op: 'draft', session: 'none', text: 'x' }), /the session is not open/);
});

test('files, texts and images are attached', async (t) => {
  const sent = [];
  const editor = startEditor(t, {
    ...demo,
    folder: project(t, { 'a.txt': 'content of a' }),
    options: {
      trace: (direction, message) => direction === 'out' && message.method === 'session/prompt' && sent.push(message),
    },
  });
  const session = await editor.newSession();
  const attachments = [
    { attach: 'file', path: 'a.txt' },
    { attach: 'text', name: 'Note', text: 'a note' },
    { attach: 'image', name: 'dot', mime: 'image/png', data: 'aGk=' },
  ];
  // The second prompt has no files, and still comes second.
  const one = editor.do({ op: 'prompt', session, text: 'one', attachments });
  const two = editor.prompt(session, 'two');
  await Promise.all([one, two]);
  const [
    {
      params: { prompt },
    },
    second,
  ] = sent;
  assert.equal(second.params.prompt[0].text, 'two');
  assert.equal(prompt[0].text, 'one');
  assert.equal(
    prompt[1].resource?.text ?? prompt[1].uri.split('/').at(-1),
    prompt[1].resource ? 'content of a' : 'a.txt',
  );
  assert.equal(prompt[3].mimeType, 'image/png');
  assert.deepEqual(entriesOf(editor, session, 'user')[0].attachments, ['a.txt', 'Note', 'dot']);
  await assert.rejects(
    editor.do({ op: 'prompt', session, text: 'x', attachments: [{ attach: 'file', path: '../b' }] }),
    /outside/,
  );
  await assert.rejects(editor.do({ op: 'prompt', session, text: ' ', attachments: [] }), /write a message/);
  await assert.rejects(
    editor.do({ op: 'prompt', session: 'none', text: 'x', attachments: [] }),
    /the session is not open/,
  );
});

test('an error of the agent is described, with the prompt to try it again', async (t) => {
  const editor = startEditor(t, demo);
  const session = await editor.newSession();
  await assert.rejects(
    editor.prompt(session, 'fail'),
    /agent 'demo-agent --pace 0' answered session\/prompt with an error/,
  );
  const [error] = entriesOf(editor, session, 'error');
  assert.match(error.text, /The demo agent has failed, because the prompt asked for it/);
  assert.equal(error.prompt, 'fail');
  assert.equal(JSON.parse(error.details).code, -32603);
  assert.equal(entriesOf(editor, session, 'turn')[0].ended, 'error');
  // The session goes on.
  assert.deepEqual(await editor.prompt(session, 'hello'), { stopReason: 'end_turn' });
});

test('an agent that needs a log-in says so, and goes on after it', async (t) => {
  const editor = startEditor(t, demo);
  const session = await editor.newSession();
  await assert.rejects(editor.prompt(session, 'fail auth'), /Authentication required/);
  const chain = chainOf(editor);
  assert.equal(chain.state, 'login');
  assert.match(chain.error, /Demo login/);
  await assert.rejects(editor.do({ op: 'logIn', login: 'no such login' }), /the log-in 'no such login' failed/);
  assert.equal(await editor.do({ op: 'logIn', login: chain.logins[0].id }), null);
  assert.deepEqual([chainOf(editor).state, chainOf(editor).error], ['running', null]);
  assert.deepEqual(await editor.prompt(session, 'hello'), { stopReason: 'end_turn' });
});

test('a crash of the agent is told, and nothing hangs', async (t) => {
  const editor = startEditor(t, demo);
  const session = await editor.newSession();
  await assert.rejects(editor.prompt(session, 'crash'), /demo-agent/);
  const [error] = entriesOf(editor, session, 'error');
  assert.match(error.text, /conductor errors /);
});

test('a program that is killed leaves a chain that has ended', async (t) => {
  const mark = `CONDUCTOR_TEST_MARK=${Math.random()}`;
  const [name, value] = mark.split('=');
  const editor = startEditor(t, {
    program: { command: conductor, args: ['agent', 'demo-agent'], env: { ...process.env, [name]: value } },
  });
  const session = await editor.newSession();
  const turn = editor.prompt(session, 'hang');
  await entry(editor, `session/${session}`, (it) => it.kind === 'agent');
  const open = editor.newSession('/');
  for (const pid of processesWith(mark)) process.kill(Number(pid), 'SIGKILL');
  await assert.rejects(turn, /was killed by SIGKILL/);
  await assert.rejects(open, /the chain has ended/);
  assert.equal(chainOf(editor).state, 'ended');
  assert.match(chainOf(editor).error, /conductor' was killed by SIGKILL/);
  assert.equal(editor.topics.get('sessions', session).state, 'failed');
  for (const action of [
    { op: 'newSession' },
    { op: 'prompt', session, text: 'x', attachments: [] },
    { op: 'listSessions' },
  ]) {
    await assert.rejects(editor.do(action), /the chain has ended/);
  }
  await editor.stop();
});

test('a program or a folder that does not exist is an error that says what to do', async (t) => {
  const missing = startEditor(t, { program: { command: 'no-such-conductor', args: [] } });
  await assert.rejects(
    missing.newSession(),
    /'no-such-conductor': the program was not found\n {2}→ install it, or give its full path/,
  );
  assert.equal(chainOf(missing).state, 'ended');
  await missing.stop();
  const noFolder = startEditor(t, { program: { command: conductor, args: [], cwd: '/no/such/folder' } });
  await assert.rejects(noFolder.newSession(), /the folder \/no\/such\/folder does not exist/);
  const noName = startEditor(t, { program: { command: '', args: ['\0'] } });
  await assert.rejects(noName.newSession(), /cannot start ''/);
  await noName.stop();
  const noAgent = startEditor(t, { chain: ['no-such-agent-here'] });
  await assert.rejects(
    noAgent.newSession(),
    /agent 'no-such-agent-here' .*could not be started.*\n {2}→ install the program/s,
  );
  const wrong = startEditor(t, { program: { command: conductor, args: ['no-such-command'] } });
  await assert.rejects(wrong.newSession(), /exited with status 2\n.*no-such-command/s);
});

test('after stop, no process is left', async (t) => {
  const mark = `CONDUCTOR_TEST_MARK=${Math.random()}`;
  const [name, value] = mark.split('=');
  const folder = project(t);
  const editor = startEditor(t, {
    folder,
    program: { command: conductor, args: ['agent', 'demo-agent'], env: { ...process.env, [name]: value } },
  });
  const session = await editor.newSession();
  const turn = editor.prompt(session, 'run sleep 1000');
  await answer(editor, session, 'allow_once');
  await entry(editor, `session/${session}`, (it) => it.kind === 'terminal');
  assert.ok(processesWith(mark).length >= 2, 'the program and the command');
  // The agent may still end its turn, or not.
  const ended = turn.catch((error) => assert.match(error.message, /the chain has ended/));
  await editor.stop();
  await ended;
  assert.deepEqual(processesWith(mark), []);
  assert.deepEqual([chainOf(editor).state, chainOf(editor).error], ['ended', null]);
  await editor.stop();
});

test('a program that closes its output, or leaves processes behind, is ended', async (t) => {
  for (const [script, why] of [
    ['exec >&-; sleep 1000', /the program has closed its output/],
    ['sleep 1000 >/dev/null 2>&1 & exit 3', /exited with status 3/],
    ['sleep 1000 & exit 4', /exited with status 4/],
  ]) {
    const mark = `CONDUCTOR_TEST_MARK=${Math.random()}`;
    const [name, value] = mark.split('=');
    const env = { ...process.env, [name]: value };
    const editor = startEditor(t, { program: { command: 'sh', args: ['-c', script], env } });
    await assert.rejects(editor.newSession(), why);
    await editor.stop();
    assert.deepEqual(processesWith(mark), [], script);
  }
});
