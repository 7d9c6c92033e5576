// The chat in the side bar, with the real program and its demo agent.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { atEnd, openWindow, server, sharedWindow, test, until } from './harness.mjs';
import { scriptedAgent } from '../../../web/test/scripted.mjs';

const files = { 'notes.txt': 'first\nsecond\n', 'src/main.rs': 'fn main() {\n    println!("Hello");\n}\n', 'README.md': '# Greeter\n' };

const demo = ['demo-agent --pace 0'];
const conversation = (chat) => chat.locator('.conversation').innerText();

async function openChat(chain, more = {}, t = undefined) {
  const window = await openWindow(await server(), { t, files, settings: { 'conductor.chain': chain, ...more } });
  return { window, chat: await window.startChat() };
}

/** A window with the demo agent. Each test has a session of its own. */
const demoWindow = sharedWindow(() => openChat(demo));
async function withDemo(t) {
  const { window, chat } = await demoWindow(t);
  if (await chat.locator('.message').count() > 0) await window.newSession(chat);
  window.forget();
  return { window, chat };
}

/** A window with an agent that does what the test says. */
const scriptedWindow = sharedWindow(async () => {
  const agent = await scriptedAgent({ hold: true });
  atEnd(undefined, agent.close);
  return { agent, ...await openChat(agent.chain) };
});
async function withScript(t) {
  const { agent, window, chat } = await scriptedWindow(t);
  const prompts = agent.messages.filter((it) => it.method === 'session/prompt').length;
  /** Sends a message of the agent, in the turn of this test. */
  const write = async (text) => {
    const { sessionId } = await agent.heard('session/prompt', prompts);
    agent.notify('session/update', { sessionId, update: { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text } } });
  };
  return { agent, window, chat, write };
}

test('a conversation with the demo agent', async (t) => {
  const { window, chat } = await withDemo(t);
  await window.ask('hello', chat);
  assert.ok(window.events('message').length > 0);
  await window.ask('show all', chat);
  await chat.locator('.tool').first().waitFor();
  await window.told(/hello/, chat);
  await window.picture('chat-dark');
});

test('an answer streams: the text grows, then it is complete', async (t) => {
  const { agent, window, chat, write } = await withScript(t);
  await window.send('show markdown', chat);
  await write('# A heading\n\n- one\n\n| a | b |\n|---|---|\n| 1 | ');
  await chat.locator('.message.agent[aria-busy="true"]').waitFor();
  await chat.getByRole('heading', { name: 'A heading' }).waitFor();
  await write('2 |\n\n```rust\nfn main() {}\n```\n\n> A quotation\n');
  await chat.locator('.message.agent blockquote').getByText('A quotation').waitFor();
  assert.equal(window.events('message').length, 0, 'the message has not ended');
  await agent.answer('session/prompt', { stopReason: 'end_turn' });
  await window.event('turn');
  await chat.locator('.message.agent[aria-busy="true"]').waitFor({ state: 'detached' });
  await window.told(/A quotation/, chat);
  assert.deepEqual(await chat.locator('.message.agent td').allInnerTexts(), ['1', '2']);
});

test('a permission is refused and given by keys', async (t) => {
  const { window, chat } = await withDemo(t);
  const composer = chat.getByLabel('Message', { exact: true });
  const row = chat.locator('[data-permission][data-ready="true"]');
  await composer.click();
  await window.page.keyboard.type('edit notes.txt third');
  await window.page.keyboard.press('Enter');
  await row.waitFor();
  await window.picture('permission');
  await window.page.keyboard.press('Control+Backspace');
  await window.event('turn');
  assert.equal(await readFile(join(window.folder, 'notes.txt'), 'utf8'), 'first\nsecond\n');
  await row.waitFor({ state: 'detached' });
  await composer.click();
  await window.page.keyboard.type('edit notes.txt third');
  await window.page.keyboard.press('Enter');
  await row.waitFor();
  await window.page.keyboard.press('Control+Enter');
  await until(() => window.events('turn').length === 2, 'the end of the turn');
  assert.match(await readFile(join(window.folder, 'notes.txt'), 'utf8'), /third/);
});

test('an answer is stopped by the palette', async (t) => {
  const { window, chat } = await withDemo(t);
  await window.send('hang', chat);
  await chat.locator('.stop').waitFor();
  await window.command('Conductor: Stop the Agent');
  assert.equal((await window.event('turn')).ended, 'cancelled');
});

test('a command of the agent runs in a terminal of the chat', async (t) => {
  const { window, chat } = await withDemo(t);
  await window.send('run echo hello from the terminal', chat);
  await chat.locator('[data-permission][data-ready="true"]').getByRole('button', { name: /Allow/ }).first().click();
  await chat.locator('.terminal .ansi').getByText('hello from the terminal').waitFor();
  await window.event('turn');
});

test('a selection and a file are added to the message', async (t) => {
  const { window, chat } = await withDemo(t);
  await window.openFile('main.rs');
  await window.page.keyboard.press('Control+a');
  await window.command('Conductor: Add Selection to Chat');
  const composer = chat.getByLabel('Message', { exact: true });
  await until(async () => /@src\/main\.rs:1-[34]/.test(await composer.inputValue()), 'the mention of the lines');
  await window.openFile('notes.txt');
  await window.command('Conductor: Add File to Chat');
  await until(async () => /@notes\.txt/.test(await composer.inputValue()), 'the mention of the file');
});

test('a link to a file opens it in VS Code', async (t) => {
  const { agent, window, chat, write } = await withScript(t);
  await window.send('where', chat);
  await write('It is in src/main.rs:2.\n');
  await agent.answer('session/prompt', { stopReason: 'end_turn' });
  await chat.locator('.message.agent').getByRole('link', { name: /main\.rs:2/ }).or(
    chat.locator('.message.agent').getByRole('button', { name: /main\.rs:2/ })).first().click();
  await window.tab('main.rs').waitFor();
  await window.page.locator('.line-numbers.active-line-number', { hasText: '2' }).first().waitFor();
});

test('the chain is started again after a crash, and the conversation stays', async (t) => {
  const { window, chat } = await openChat(demo, { 'conductor.options': ['--on-crash', 'stop'] }, t);
  await window.ask('hello', chat);
  await window.send('crash hard', chat);
  await window.event('chain', (it) => it.state === 'ended');
  await chat.getByText(/hello/).first().waitFor();
  await window.picture('crash');
  await chat.getByRole('button', { name: /[Ss]tart/ }).first().click();
  await until(() => window.events('chain').filter((it) => it.state === 'running').length === 2, 'the second start');
  await window.told(/hello/, chat);
  await window.ask('hello again', chat);
  await window.told(/You said “hello”[^]*You said “hello again”/, chat);
  await window.picture('after-crash');
});

test('the output has what components log and write to their standard error', async (t) => {
  const { agent, window } = await withScript(t);
  agent.notify('_scp/log', { level: 'warn', message: 'the disk is nearly full', data: { percent: 97, apiKey: 'sk-1' } });
  agent.stderr('a line of the standard error');
  await window.event('log', (it) => it.text.includes('the disk is nearly full'));
  await window.command('Conductor: Show Log');
  const shown = /the disk is nearly full \{"percent":97,"apiKey":"…"\}/;
  await until(async () => shown.test(await window.output()), 'the message in the output');
  await until(async () => (await window.output()).includes('a line of the standard error'), 'the standard error in the output');
  await window.picture('output');
});

test('two sessions: a new one is empty, and the first one is still there', async (t) => {
  const { window, chat } = await withDemo(t);
  await window.ask('the first words', chat);
  await window.command('Conductor: New Session');
  await until(() => window.events('session shown').length >= 1, 'the new session');
  await until(async () => !(await conversation(chat)).includes('the first words'), 'an empty conversation');
  await window.ask('the second words', chat);
  await window.command('Conductor: Show Sessions');
  await until(async () => {
    const row = window.row('the first words');
    if (await row.isVisible()) await row.click();
    else await chat.locator('.session', { hasText: 'the first words' }).first().click({ timeout: 2_000 });
    return true;
  }, 'the first session in the list');
  await window.told(/the first words/, chat);
});
