// The commands of an agent: how they end, and that none is left.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { libraryFile, processesWith, project, startEditor } from './help.mjs';
import { later, scripted } from './scripted.mjs';
import { until } from './until.mjs';

const mark = () => ['CONDUCTOR_TEST_MARK', String(Math.random())];
/** Checks again and again: a process tells nobody else about its end. */
const often = (check) => {
  const timer = setInterval(check, 10);
  return () => clearInterval(timer);
};
const run = (agent, sessionId, line, [name, value]) =>
  agent.request('terminal/create', { sessionId, command: line, env: [{ name, value }] });

test('stopping the editor kills the commands before it waits for the chain', async (t) => {
  const agent = await scripted(t);
  // A program that does not end when its input does.
  const stubborn = ['-c', 'trap "" TERM; "$@"; sleep 1000', 'sh', agent.program.command, ...agent.program.args];
  const editor = startEditor(t, { program: { command: 'sh', args: stubborn } });
  const session = await editor.newSession();
  const name = mark();
  await run(agent, session, 'trap "" TERM; sleep 1000; sleep 1000', name);
  await until(often, () => processesWith(name.join('=')).length > 0, 'the command');
  let stopped = false;
  const stop = editor.stop().then(() => {
    stopped = true;
  });
  await until(often, () => processesWith(name.join('=')).length === 0, 'the end of the command');
  assert.equal(stopped, false, 'the chain still runs');
  await stop;
});

test('a person can stop a command, and a closed session leaves none', async (t) => {
  const agent = await scripted(t);
  const editor = startEditor(t, { program: agent.program });
  const session = await editor.newSession();
  const [stopped, other] = [mark(), mark()];
  const { result: { terminalId } } = await run(agent, session, 'echo ready; exec sleep 1000', stopped);
  const { result: second } = await run(agent, session, 'trap "" TERM; sleep 1000; sleep 1000', other);
  await until(often, () => processesWith(other.join('=')).length > 0, 'the second command');
  const exit = agent.request('terminal/wait_for_exit', { sessionId: session, terminalId });
  await editor.do({ op: 'killTerminal', session, terminal: terminalId });
  assert.equal((await exit).result.signal, 'SIGTERM');
  assert.ok(processesWith(other.join('=')).length > 0, 'the other one goes on');
  await editor.do({ op: 'closeSession', session });
  await until(often, () => processesWith(other.join('=')).length === 0, 'the end of the second command');
  const late = await run(agent, session, 'sleep 1000', other);
  assert.match(JSON.stringify(late.error), /the session was closed/);
  await assert.rejects(editor.do({ op: 'killTerminal', session, terminal: second.terminalId }), /has ended already/);
});

test('a closed session leaves no command, however many it has run meanwhile', async (t) => {
  const agent = await scripted(t);
  const editor = startEditor(t, { program: agent.program });
  const session = await editor.newSession();
  const name = mark();
  await run(agent, session, 'sleep 1000', name);
  await until(often, () => processesWith(name.join('=')).length > 0, 'the command');
  for (let count = 0; count < 1000; count += 1) {
    const { result: { terminalId } } = await run(agent, session, 'true', mark());
    await agent.request('terminal/release', { sessionId: session, terminalId });
  }
  await editor.do({ op: 'closeSession', session });
  await until(often, () => processesWith(name.join('=')).length === 0, 'the end of the command');
});

test('the commands end if the editor is killed', async (t) => {
  const folder = project(t, {
    'agent.mjs': `import { createInterface } from 'node:readline';
      const send = (message) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\\n');
      createInterface({ input: process.stdin }).on('line', (line) => {
        const { id, method } = JSON.parse(line);
        if (method === 'initialize') send({ id, result: { protocolVersion: 1, agentCapabilities: {} } });
        else if (method === 'session/new') {
          send({ id, result: { sessionId: 's' } });
          const command = 'trap "" TERM HUP; sleep 1000 & sleep 1000';
          send({ id: 'x', method: 'terminal/create', params: { sessionId: 's', command } });
        }
      });`,
  });
  writeFileSync(join(folder, 'editor.mjs'), `import { Editor, filesIn } from ${JSON.stringify(libraryFile)};
    const folder = ${JSON.stringify(folder)};
    new Editor({
      program: { command: process.execPath, args: [folder + '/agent.mjs'], cwd: folder }, folder, components: ['agent'],
      client: { name: 'c', title: 'c', version: '1' }, host: { ...filesIn(folder), terminals: true },
    }).start();`);
  const [name, value] = mark();
  const env = { ...process.env, [name]: value };
  const child = spawn(process.execPath, [join(folder, 'editor.mjs')], { env, stdio: ['ignore', 'ignore', 'inherit'] });
  t.after(() => child.kill('SIGKILL'));
  const isSleep = (pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').startsWith('sleep');
    } catch {
      return false;
    }
  };
  const left = () => processesWith(`${name}=${value}`);
  await until(often, () => left().filter(isSleep).length === 2, 'both parts of the command');
  child.kill('SIGKILL');
  await until(often, () => left().length === 0, 'the end of all processes');
});

test('a command has only its own files, children and exit', async (t) => {
  const agent = await scripted(t, { 'session/prompt': () => later });
  const editor = startEditor(t, { program: agent.program });
  const session = await editor.newSession();
  const name = mark();
  const ended = async (line) => {
    const { result: { terminalId } } = await run(agent, session, line, name);
    const { result: exit } = await agent.request('terminal/wait_for_exit', { sessionId: session, terminalId });
    const { result: { output } } = await agent.request('terminal/output', { sessionId: session, terminalId });
    return { terminalId, exit, output };
  };
  const { output, exit } = await ended('echo out; echo err >&2; ls /proc/$$/fd; echo children:; cat /proc/$$/task/$$/children; exit 3');
  assert.deepEqual(exit, { exitCode: 3, signal: null });
  const [files, children] = output.split('children:\n');
  assert.deepEqual(files.split('\n').filter(Boolean).slice(0, 5), ['out', 'err', '0', '1', '2']);
  assert.equal(files.split('\n').includes('3'), false, 'the pipe of the watcher');
  // Only `cat`, which writes the list.
  assert.equal(children.trim().split(' ').length, 1, children);
  assert.deepEqual((await ended('kill -9 $$')).exit, { exitCode: null, signal: 'SIGKILL' });
  // What a command leaves behind ends with the release of its terminal.
  const { terminalId } = await ended('sleep 1000 >/dev/null 2>&1 & echo started');
  assert.ok(processesWith(name.join('=')).length > 0);
  await agent.request('terminal/release', { sessionId: session, terminalId });
  await editor.stop();
  await until(often, () => processesWith(name.join('=')).length === 0, 'the end of what was left behind');
});
