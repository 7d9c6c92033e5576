// Commands of the agent: the person can stop them, and they never outlive the session, the agent or the chain.
import assert from 'node:assert/strict';
import test from 'node:test';
import { ask, chat, composer, scripted, send } from './chat-help.mjs';
import { axe, fits, until } from './harness.mjs';

/** A command that runs until somebody ends it, and prints its process id. */
const endless = 'echo pid $$; exec sleep 1000';

const pidIn = async (page, at = 0) => {
  const output = page.locator('.terminal .ansi', { hasText: /pid \d+/ }).nth(at);
  await output.waitFor();
  return Number(/pid (\d+)/.exec(await output.innerText())[1]);
};

function runs(pid) {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

const gone = (pid) => until(() => !runs(pid), `the end of process ${pid}`);

/** A session of a scripted agent that has started this many commands. */
async function running(t, count) {
  const it = await scripted(t);
  await send(it.page, 'go');
  const { sessionId } = await it.agent.heard('session/prompt');
  const terminals = [];
  for (let i = 0; i < count; i++) {
    const { terminalId } = await it.agent.request('terminal/create', { sessionId, command: endless });
    terminals.push(terminalId);
  }
  await it.update({ sessionUpdate: 'tool_call', toolCallId: 'run', title: 'Run', kind: 'execute', status: 'in_progress',
    content: terminals.map((terminalId) => ({ type: 'terminal', terminalId })) });
  return { ...it, sessionId, terminals };
}

test('a running command has a button that stops it, and its output stays', async (t) => {
  const { agent, page, another, sessionId, terminals: [terminalId] } = await running(t, 1);
  const pid = await pidIn(page);
  await axe(page);
  for (const colorScheme of ['light', 'dark']) {
    const narrow = await another({ width: 400, colorScheme });
    assert.equal(await pidIn(narrow), pid);
    await axe(narrow);
    await fits(narrow);
  }
  await page.getByRole('button', { name: 'Stop this command' }).click();
  await page.locator('.terminal-head', { hasText: 'killed by SIGTERM' }).waitFor();
  assert.equal(await page.getByRole('button', { name: 'Stop this command' }).count(), 0);
  assert.equal(await pidIn(page), pid);
  const { output, exitStatus } = await agent.request('terminal/output', { sessionId, terminalId });
  assert.deepEqual([output, exitStatus.signal], [`pid ${pid}\n`, 'SIGTERM']);
  await agent.request('terminal/release', { sessionId, terminalId });
  await gone(pid);
});

test('a released command is not shown as if it ran', async (t) => {
  const { agent, page, sessionId, terminals: [terminalId] } = await running(t, 1);
  const pid = await pidIn(page);
  await agent.request('terminal/release', { sessionId, terminalId });
  await page.locator('.terminal-head', { hasText: 'killed by SIGKILL' }).waitFor();
  await gone(pid);
});

test('a closed session leaves no command, and its agent starts no other one', async (t) => {
  const { agent, page, sessionId } = await running(t, 2);
  const pids = [await pidIn(page), await pidIn(page, 1)];
  await page.locator('.session.current .session-close').click();
  for (const pid of pids) await gone(pid);
  await assert.rejects(agent.request('terminal/create', { sessionId, command: endless }), /the session was closed/);
});

test('a chain that has ended leaves no command', async (t) => {
  const { agent, page } = await running(t, 1);
  const pid = await pidIn(page);
  agent.exit(3);
  await page.waitForSelector('[data-chain-state="ended"]');
  await gone(pid);
  await page.locator('.terminal-head', { hasText: 'killed by SIGKILL' }).waitFor();
  assert.equal(await page.getByRole('button', { name: 'Stop this command' }).count(), 0);
});

test('an agent that has crashed leaves no command, although it is started again', async (t) => {
  const { page } = await chat(t, { files: { 'endless.sh': endless } });
  await send(page, 'run sh endless.sh');
  await page.waitForSelector('[data-permission][data-ready="true"]');
  await page.getByRole('button', { name: /^Allow once/ }).click();
  const pid = await pidIn(page);
  await page.locator('.new-session').click();
  await page.waitForFunction(() => document.querySelectorAll('.terminal').length === 0);
  await send(page, 'crash');
  await gone(pid);
  await page.locator('.error-card').first().waitFor();
  await ask(page, 'hello');
  assert.equal(await composer(page).count(), 1);
});
