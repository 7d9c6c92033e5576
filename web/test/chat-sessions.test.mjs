// Sessions, several tabs, reconnects and widths, with the real program.
import assert from 'node:assert/strict';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { ask, chat, composer, idle, scripted, send } from './chat-help.mjs';
import { axe, fits, picture, until } from './harness.mjs';

test('several sessions keep their conversations apart', async (t) => {
  const { page } = await chat(t);
  await ask(page, 'first topic');
  await page.getByRole('button', { name: 'New', exact: true }).click();
  await page.waitForSelector('.examples');
  await ask(page, 'second topic');
  assert.equal(await page.locator('.message.user').count(), 1);
  assert.equal(await page.locator('.session').count() >= 2, true);
  await page.locator('.session-open', { hasText: 'first topic' }).click();
  await page.locator('.message.user', { hasText: 'first topic' }).waitFor();
  await page.waitForFunction(() => document.querySelectorAll('.message.user').length === 1);
  await axe(page);
});

test('a page that is opened before the agent has started shows its first session', async (t) => {
  const { agent, page } = await scripted(t, { hold: ['initialize', 'session/prompt'], starts: false });
  await page.waitForSelector('[data-chain-state="starting"]');
  await agent.answer('initialize', { protocolVersion: 1, agentCapabilities: {} });
  await page.waitForSelector('.session.current[data-session-state="idle"]');
  await send(page, 'hello');
  assert.equal((await agent.heard('session/prompt')).sessionId, 's1');
  await agent.answer('session/prompt', { stopReason: 'end_turn' });
  await idle(page);
  assert.equal(await page.locator('.session').count(), 1);
  assert.equal(agent.messages.filter((it) => it.method === 'session/new').length, 1);
});

test('a session that could not be loaded is tried again, and nothing is sent to it before that', async (t) => {
  const { agent, page } = await scripted(t, { hold: ['initialize', 'session/list', 'session/load'], starts: false });
  await agent.answer('initialize', { protocolVersion: 1, agentCapabilities: { loadSession: true, sessionCapabilities: { list: {} } } });
  await agent.answer('session/list', { sessions: [
    { sessionId: 'old', title: 'Earlier', cwd: (await agent.heard('session/new')).cwd },
    { sessionId: 'foreign', title: 'Foreign', cwd: '/somewhere/else' }] });
  await page.locator('.session-open', { hasText: 'Earlier' }).click();
  assert.equal(await page.locator('.session', { hasText: 'Foreign' }).count(), 0, 'a session of another folder');
  await agent.fail('session/load', 'the disk is away');
  await page.locator('.error-card', { hasText: 'the disk is away' }).waitFor();
  assert.equal(await page.locator('.send').getAttribute('aria-disabled'), 'true');
  await axe(page);
  await page.locator('.error-card').getByRole('button', { name: 'Try again' }).click();
  const { sessionId } = await agent.heard('session/load', 1);
  const repeat = (content) => agent.notify('session/update', { sessionId, update: { sessionUpdate: 'user_message_chunk', content } });
  repeat({ type: 'text', text: 'Look at this' });
  repeat({ type: 'image', mimeType: 'image/png', data: 'aGk=' });
  repeat({ type: 'resource_link', uri: 'file:///a/b.rs', name: 'b.rs' });
  await agent.answer('session/load', {});
  const message = page.locator('.message.user', { hasText: 'Look at this' });
  await message.waitFor();
  assert.deepEqual(await message.locator('.chip').allInnerTexts(), ['image', 'b.rs']);
  await page.waitForSelector('.session.current[data-session-state="idle"]');
  assert.equal(await page.locator('.error-card').count(), 0);
});

test('the conversation and the draft are there after a reload', async (t) => {
  const { page, another } = await chat(t);
  await ask(page, 'remember this');
  await composer(page).fill('not sent yet');
  // Another tab shows it when the server has it.
  const other = await another();
  await until(async () => (await composer(other).inputValue()) === 'not sent yet', 'the server has the draft');
  await page.reload();
  await page.locator('.message.user', { hasText: 'remember this' }).waitFor();
  await until(async () => (await composer(page).inputValue()) === 'not sent yet', 'the draft is back');
});

const savedAgent = [`${process.execPath} ${fileURLToPath(new URL('saved-agent.mjs', import.meta.url))}`];

test('an earlier session of the agent is listed and loaded', async (t) => {
  const { page } = await chat(t, { chain: savedAgent });
  const earlier = page.locator('.session[data-session-state="saved"] .session-open', { hasText: 'The earlier session' });
  await earlier.waitFor();
  await earlier.click();
  await page.locator('.message.user', { hasText: 'What was that?' }).waitFor();
  await page.locator('.message.agent strong', { hasText: 'earlier' }).waitFor();
  await page.waitForSelector('.session.current[data-session-state="idle"]');
});

test('characters that hide what a command does are marked in the question', async (t) => {
  const { page } = await chat(t, { chain: savedAgent });
  await send(page, 'clean up');
  await page.waitForSelector('[data-permission] .suspicious');
  const text = await page.locator('[data-permission] .command-text').first().innerText();
  assert.match(text, /U\+2013, not -/);
  assert.match(text, /U\+202E right-to-left override/);
  await axe(page);
  await page.locator('[data-permission]').getByRole('button', { name: 'Reject' }).click();
  await page.locator('.message.agent', { hasText: 'The answer was n.' }).waitFor();
});

test('a session is closed', async (t) => {
  const { page } = await chat(t);
  await ask(page, 'close me');
  await page.locator('.session.current').hover();
  await page.getByRole('button', { name: /^Close / }).first().click();
  await page.locator('.message.user', { hasText: 'close me' }).waitFor({ state: 'detached' });
  await composer(page).waitFor();
});

test('two tabs are in step, also for a permission', async (t) => {
  const { page, another } = await chat(t);
  await ask(page, 'hello');
  const other = await another();
  await other.locator('.message.user', { hasText: 'hello' }).waitFor();
  await send(other, 'run echo from the other tab');
  await page.waitForSelector('[data-permission]');
  await other.waitForSelector('[data-permission]');
  await page.locator('[data-permission]').getByRole('button', { name: /Allow/ }).first().click();
  await other.waitForSelector('[data-permission]', { state: 'detached' });
  await other.locator('.terminal .ansi').getByText('from the other tab').waitFor();
  await page.locator('.terminal .ansi').getByText('from the other tab').waitFor();
  await idle(page);
  await idle(other);
  assert.equal(await page.locator('.conversation').innerText(), await other.locator('.conversation').innerText());
});

test('after cuts of the connection the page goes on where it was, and nothing is lost or doubled', async (t) => {
  const { page } = await chat(t, { chain: ['demo-agent --pace 30'] });
  // All later connections go through the test, which can cut them.
  const connections = [];
  await page.routeWebSocket(/\/api\/link$/, (page) => {
    page.connectToServer();
    // The end of the page's side also ends that of the server.
    connections.push({ cut: () => page.close() });
  });
  await page.reload();
  await page.waitForSelector('[data-state="live"]');
  assert.equal(connections.length, 1);
  await send(page, 'story');
  for (const words of [/Once upon/, /it was a monolith/, /passed on every word/]) {
    await page.locator('.message.agent').getByText(words).waitFor();
    const before = connections.length;
    await connections.at(-1).cut();
    await until(() => connections.length > before, 'the page connects again');
    await page.waitForSelector('[data-state="live"]');
  }
  await page.locator('.message.agent').getByText(/playing still/).waitFor();
  await idle(page);
  assert.ok(connections.length >= 4);
  assert.equal(await page.locator('.message.user').count(), 1);
  const text = await page.locator('.message.agent').last().innerText();
  assert.match(text, /^Once upon a time[\s\S]*they are playing still\.$/);
  await page.reload();
  await page.locator('.message.agent').getByText(/playing still/).waitFor();
  assert.equal(await page.locator('.message.agent').last().innerText(), text);
});

test('when the program has ended, the page says so and stays readable', async (t) => {
  const { page, studio } = await chat(t, { page: { allow: [/WebSocket|ERR_|Failed to load/] } });
  await ask(page, 'hello');
  await studio.stop();
  await page.waitForSelector('[data-bar="lost"]');
  await axe(page);
  assert.equal(await page.locator('.message.user').isVisible(), true);
  await page.waitForSelector('[data-state="ended"]');
  await page.locator('[data-bar="lost"]').getByText(/Conductor has ended/).waitFor();
  await page.locator('[data-live="assertive"]', { hasText: /ended|lost/ }).waitFor({ state: 'attached' });
  assert.equal(await page.locator('.send').getAttribute('aria-disabled'), 'true');
});

for (const colorScheme of ['light', 'dark']) {
  for (const width of [1440, 900, 400]) {
    test(`a conversation at ${width} px, ${colorScheme}, is accessible and fits`, async (t) => {
      const { page } = await chat(t, { page: { width, height: width === 400 ? 800 : 900, colorScheme } });
      await ask(page, 'show all');
      await send(page, 'run cargo test --workspace');
      await page.waitForSelector('[data-permission]');
      await axe(page);
      await fits(page);
      if (process.env.CONDUCTOR_PICTURES) await picture(page, `real-${width}-${colorScheme}`);
    });
  }
}

test('at 400 px the views are tabs at the bottom', async (t) => {
  const { page } = await chat(t, { page: { width: 400, height: 800 } });
  for (const name of ['Files', 'Panels', 'Log']) {
    await page.getByRole('navigation', { name: 'Views' }).getByRole('button', { name }).click();
    await page.waitForSelector('.side:not([hidden])');
    assert.equal(await composer(page).isVisible(), false);
    await fits(page);
    await axe(page);
  }
  await page.getByRole('navigation', { name: 'Views' }).getByRole('button', { name: 'Chat' }).click();
  await composer(page).waitFor();
});

test('the page is used with keys: regions, palette, help, theme', async (t) => {
  const { page } = await chat(t);
  await ask(page, 'hello');
  const region = () => page.evaluate(() => document.activeElement.closest('[data-region]')?.dataset.region ?? null);
  await page.keyboard.press('Alt+1');
  await until(async () => (await region()) === 'sessions', 'sessions');
  for (const name of ['conversation', 'composer', 'side', 'header', 'sessions']) {
    await page.keyboard.press('F6');
    await until(async () => (await region()) === name, name);
  }
  await page.keyboard.press('Shift+F6');
  await until(async () => (await region()) === 'header', 'header');
  await page.keyboard.press('Alt+2');
  await until(async () => (await region()) === 'conversation', 'conversation');
  await page.keyboard.press('j');
  await page.waitForFunction(() => document.activeElement.tagName === 'ARTICLE');
  await page.keyboard.press('?');
  await page.waitForSelector('dialog.help[open]');
  await page.keyboard.press('Escape');
  await page.waitForSelector('dialog.help', { state: 'detached' });
  await page.waitForFunction(() => document.activeElement.tagName === 'ARTICLE');
  await page.keyboard.press('Control+k');
  await page.waitForSelector('dialog.palette[open]');
  await page.keyboard.type('dark');
  await page.keyboard.press('Enter');
  await page.waitForSelector('html[data-theme="dark"]', { state: 'attached' });
  await axe(page);
});

test('a question mark in the composer is a question mark', async (t) => {
  const { page } = await chat(t);
  await composer(page).focus();
  await page.keyboard.type('why? jk');
  assert.equal(await composer(page).inputValue(), 'why? jk');
  assert.equal(await page.locator('dialog').count(), 0);
});
