// The chat with the real program and its demo agent: what the agent sends is shown, what the user does arrives.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'node:test';
import { ask, chat, composer, idle, scripted, send } from './chat-help.mjs';
import { axe, fits, until } from './harness.mjs';

const bodyText = (page) => page.locator('.conversation').innerText();

test('the key leaves the address, and the page logs in', async (t) => {
  const { page, studio } = await chat(t);
  assert.equal(page.url().includes(studio.key), false);
  assert.equal(await page.evaluate(() => history.length <= 2), true);
  const names = await page.evaluate(() => Object.keys(localStorage));
  assert.deepEqual(names, [`conductor-token-${studio.port}`]);
});

test('a page without the key asks for a log-in', async (t) => {
  const { page, studio } = await chat(t);
  await page.evaluate(() => localStorage.clear());
  await page.goto('about:blank');
  await page.goto(`${studio.origin}/studio`);
  await page.getByRole('heading', { name: 'Log-in needed' }).waitFor();
  await axe(page);
  await page.goto('about:blank');
  await page.goto(studio.url);
  await page.waitForSelector('[data-state="live"]');
});

test('Markdown streams: the text grows, then it is complete', async (t) => {
  const { agent, page, write } = await scripted(t);
  await send(page, 'show markdown');
  await write('# A heading\n\n- one\n  - nested\n\n| a | b |\n|---|---|\n| 1 | ');
  await page.waitForSelector('.message.agent[aria-busy="true"]');
  await page.getByRole('heading', { name: 'A heading' }).waitFor();
  assert.doesNotMatch(await bodyText(page), /A quotation/);
  await write('2 |\n\n```rust\nfn main() {}\n```\n\n> A quotation\n');
  await page.locator('.message.agent blockquote').getByText('A quotation').waitFor();
  assert.equal(await page.locator('.message.agent[aria-busy="true"]').count(), 1, 'the turn has not ended');
  await agent.answer('session/prompt', { stopReason: 'end_turn' });
  await idle(page);
  assert.equal(await page.locator('.message.agent[aria-busy="true"]').count(), 0);
  assert.match(await bodyText(page), /A heading[\s\S]*nested[\s\S]*A quotation/);
  assert.deepEqual(await page.locator('.message.agent td').allInnerTexts(), ['1', '2']);
  assert.match(await page.locator('.message.agent pre code').innerText(), /^fn main\(\) \{\}/);
  await page.locator('[data-live="polite"]', { hasText: /^Answer complete, \d+ words/ }).waitFor({ state: 'attached' });
  await axe(page);
});

test('a thought is closed, and opens by a click', async (t) => {
  const { page } = await chat(t);
  await ask(page, 'show thought');
  const thought = page.locator('.message.thought .fold').first();
  // A time that nobody notices is not shown.
  assert.match(await thought.innerText(), /^Thought( for \d|$)/);
  assert.equal(await thought.getAttribute('aria-expanded'), 'false');
  await thought.click();
  await page.waitForSelector('.thought-text');
});

test('a plan is above the composer while it is followed, then a row', async (t) => {
  const { agent, page, update } = await scripted(t);
  const plan = (...states) => update({
    sessionUpdate: 'plan',
    entries: states.map((status, i) => ({ content: `Step ${i + 1}`, priority: 'medium', status })),
  });
  await send(page, 'plan a party');
  await plan('completed', 'in_progress');
  await page.locator('.above').getByText(/^Plan, 1 of 2/).waitFor();
  assert.equal(await page.locator('.message.plan-row').count(), 0);
  await plan('completed', 'completed');
  await page.locator('.message.plan-row').getByText(/^Plan, 2 of 2 done/).waitFor();
  assert.equal(await page.locator('.above').count(), 0);
  await agent.answer('session/prompt', { stopReason: 'end_turn' });
  await idle(page);
  await page.locator('.message.plan-row .fold').click();
  await page.waitForSelector('.steps .completed');
  await axe(page);
});

test('tool calls of all kinds have a title, a state and a time', async (t) => {
  const { page } = await chat(t);
  await ask(page, 'show all');
  const tools = page.locator('.tool');
  assert.ok(await tools.count() >= 8);
  assert.equal(await page.locator('.tool[data-status="completed"] .tool-state').first().innerText().then((text) => /done/.test(text)), true);
  await page.locator('.tool-lines').first().waitFor();
  assert.match(await page.locator('.tool-lines').first().innerText(), /\+\d+ −\d+/);
  await page.locator('.diff-ins').first().waitFor();
  await axe(page);
  await fits(page);
});

test('a command is asked for in full, runs in a terminal, and stays as a line', async (t) => {
  const { page } = await chat(t);
  await send(page, 'run echo hello from the terminal');
  const row = page.getByRole('group', { name: /asks:/ });
  await row.waitFor();
  assert.match(await row.locator('.command-text').first().innerText(), /echo hello from the terminal/);
  await page.waitForFunction(() => document.title.startsWith('! '));
  await page.waitForSelector('.session[data-session-state="asks"]');
  await page.locator('[data-live="polite"]', { hasText: /asks:/ }).waitFor({ state: 'attached' });
  await axe(page);
  await row.getByRole('button', { name: /Allow/ }).first().click();
  await row.waitFor({ state: 'detached' });
  await page.locator('.terminal .ansi').getByText('hello from the terminal').waitFor();
  const exit = page.locator('.terminal-head', { hasText: 'exit 0' });
  await exit.waitFor();
  assert.equal(await exit.locator('.is-err').count(), 0, 'a command that has succeeded is not red');
  await page.locator('.message.answered').waitFor();
  await idle(page);
  await page.waitForFunction(() => !document.title.startsWith('! '));
});

test('a permission is given and refused with the keyboard only', async (t) => {
  const { page, cwd } = await chat(t);
  await composer(page).focus();
  await page.keyboard.type('edit notes.txt third');
  await page.keyboard.press('Enter');
  await page.waitForSelector('[data-permission][data-ready="true"]');
  // The focus stays where it is.
  assert.equal(await composer(page).evaluate((it) => it === document.activeElement), true);
  await page.keyboard.press('Control+Backspace');
  await page.waitForSelector('[data-permission]', { state: 'detached' });
  await idle(page);
  assert.equal(await readFile(join(cwd, 'notes.txt'), 'utf8'), 'first\nsecond\n');
  await page.keyboard.type('edit notes.txt third');
  await page.keyboard.press('Enter');
  await page.waitForSelector('[data-permission][data-ready="true"]');
  await page.keyboard.press('Control+Enter');
  await page.waitForSelector('[data-permission]', { state: 'detached' });
  await idle(page);
  assert.match(await readFile(join(cwd, 'notes.txt'), 'utf8'), /third/);
});

test('Ctrl+Enter does not answer while the user writes something else', async (t) => {
  const { page } = await chat(t);
  await send(page, 'run echo one');
  await page.waitForSelector('[data-permission][data-ready="true"]');
  await composer(page).fill('another text');
  await page.keyboard.press('Control+Enter');
  await page.evaluate(() => window.__idle());
  assert.equal(await page.locator('[data-permission]').count(), 1);
  // With Tab to the buttons and Enter.
  await composer(page).fill('');
  await page.keyboard.press('Shift+Tab');
  await page.keyboard.press('Enter');
  await page.waitForSelector('[data-permission]', { state: 'detached' });
});

test('the mode and the model are chosen by mouse and by keys', async (t) => {
  const { page } = await chat(t);
  await ask(page, 'hello');
  const mode = page.getByRole('button', { name: /^Mode:/ });
  const before = await mode.innerText();
  await mode.click();
  await page.getByRole('menuitemradio', { checked: false }).first().click();
  await page.waitForFunction((old) => document.querySelector('[aria-label^="Mode:"]').innerText !== old, before);
  await composer(page).focus();
  await page.keyboard.press('Alt+l');
  await page.waitForSelector('[role="menu"]');
  const model = await page.getByRole('button', { name: /^Model:/ }).innerText();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await page.waitForFunction((old) => document.querySelector('[aria-label^="Model:"]').innerText !== old, model);
});

test('slash commands are completed', async (t) => {
  const { page } = await chat(t);
  await ask(page, 'hello');
  await composer(page).fill('');
  await composer(page).pressSequentially('/pl');
  await page.getByRole('option', { name: /plan/ }).waitFor();
  await axe(page);
  await page.keyboard.press('Tab');
  assert.equal(await composer(page).inputValue(), '/plan ');
});

test('a file is mentioned with @, and attached', async (t) => {
  const { page } = await chat(t);
  await composer(page).pressSequentially('Explain @rout');
  await page.getByRole('option', { name: /router\.rs/ }).waitFor();
  await page.keyboard.press('Enter');
  await until(async () => (await composer(page).inputValue()) === 'Explain @src/router.rs ', 'the file is chosen');
  await page.keyboard.press('Enter');
  await page.locator('.message.user .chip', { hasText: 'router.rs' }).waitFor();
});

test('Enter that is pressed before the files are known chooses the file of the typed letters', async (t) => {
  const { page } = await chat(t);
  // The test keeps the answers of the program back.
  let hold = false;
  const kept = [];
  await page.routeWebSocket(/\/api\/link$/, (page) => {
    const server = page.connectToServer();
    server.onMessage((message) => (hold ? kept.push(() => page.send(message)) : page.send(message)));
  });
  await page.reload();
  await page.waitForSelector('[data-state="live"]');
  await composer(page).pressSequentially('Explain @');
  await page.getByRole('option', { name: /README/ }).waitFor();
  hold = true;
  await composer(page).pressSequentially('rout');
  await page.keyboard.press('Enter');
  assert.equal(await composer(page).inputValue(), 'Explain @rout');
  hold = false;
  for (const send of kept) send();
  await until(async () => (await composer(page).inputValue()) === 'Explain @src/router.rs ', 'the file is chosen');
});

test('files are attached by button, drop and paste, and removed', async (t) => {
  const { page } = await chat(t);
  const png = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64');
  await page.locator('[data-attach]').setInputFiles([
    { name: 'dot.png', mimeType: 'image/png', buffer: png }, { name: 'a.txt', mimeType: 'text/plain', buffer: Buffer.from('text') },
  ]);
  await page.getByRole('button', { name: 'Remove a.txt' }).click();
  await page.getByRole('button', { name: 'Remove a.txt' }).waitFor({ state: 'detached' });
  for (const kind of ['drop', 'paste']) {
    await composer(page).evaluate((area, type) => {
      const data = new DataTransfer();
      data.items.add(new File(['by ' + type], `${type}.txt`, { type: 'text/plain' }));
      area.dispatchEvent(type === 'drop' ? new DragEvent('drop', { bubbles: true, cancelable: true, dataTransfer: data })
        : new ClipboardEvent('paste', { bubbles: true, cancelable: true, clipboardData: data }));
    }, kind);
    await page.getByRole('button', { name: `Remove ${kind}.txt` }).waitFor();
  }
  await axe(page);
  await page.locator('[data-attach]').setInputFiles([
    { name: 'big.txt', mimeType: 'text/plain', buffer: Buffer.alloc(600_000, 'x') }]);
  await page.locator('.toast').getByText(/big\.txt has 600/).waitFor();
  await send(page, 'Look at these');
  await page.locator('.message.user .chip', { hasText: 'dot.png' }).waitFor();
  assert.equal(await page.locator('.message.user .chip').count(), 3);
  await idle(page);
});

test('Esc stops the agent', async (t) => {
  // The whole story would take a minute.
  const { page } = await chat(t, { chain: ['demo-agent --pace 500'] });
  await send(page, 'story');
  await page.locator('.message.agent').getByText(/Once upon/).waitFor();
  await page.keyboard.press('Escape');
  await idle(page);
  assert.doesNotMatch(await bodyText(page), /playing still/);
});

test('a message is queued while the agent works: edit, remove, send now', async (t) => {
  const { agent, page } = await scripted(t);
  await send(page, 'story');
  await page.waitForSelector('.stop');
  for (const text of ['one more', 'two more', 'three more']) {
    await send(page, text);
    await page.locator('.queued', { hasText: text }).waitFor();
  }
  await axe(page);
  await page.getByRole('button', { name: 'Edit “two more”' }).click();
  await page.locator('.queued', { hasText: 'two more' }).waitFor({ state: 'detached' });
  await until(async () => (await composer(page).inputValue()) === 'two more', 'the text is in the composer');
  await composer(page).fill('');
  await page.getByRole('button', { name: 'Remove “three more”' }).click();
  await page.locator('.queued', { hasText: 'three more' }).waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Send now: “one more”' }).click();
  await agent.heard('session/cancel');
  await agent.answer('session/prompt', { stopReason: 'cancelled' });
  await page.locator('.message.user', { hasText: 'one more' }).waitFor();
  await page.waitForSelector('.queued', { state: 'detached' });
  await agent.heard('session/prompt', 1);
  await agent.answer('session/prompt', { stopReason: 'end_turn' });
  await idle(page);
  assert.deepEqual(agent.messages.filter((it) => it.method === 'session/prompt').map((it) => it.params.prompt[0].text),
    ['story', 'one more']);
});

test('↑ in the empty box edits the last message', async (t) => {
  const { page } = await chat(t);
  await ask(page, 'a first try');
  await composer(page).press('ArrowUp');
  await until(async () => (await composer(page).inputValue()) === 'a first try', 'the last message is in the box');
});

test('a failed turn says why, and can be tried again', async (t) => {
  const { page } = await chat(t);
  await send(page, 'fail');
  const card = page.locator('.error-card');
  await card.waitFor();
  await axe(page);
  await card.getByRole('button', { name: 'Show details' }).click();
  await page.waitForSelector('.details');
  await card.getByRole('button', { name: 'Try again' }).click();
  await page.waitForFunction(() => document.querySelectorAll('.error-card').length === 2);
});

test('the agent that needs a log-in is logged in', async (t) => {
  const { page } = await chat(t, { chain: ['demo-agent --require-login'] });
  await page.getByRole('heading', { name: /needs a log-in/ }).waitFor();
  await axe(page);
  await page.getByRole('button', { name: 'Log in', exact: true }).click();
  await composer(page).waitFor();
});

test('a key in the address of an open page logs it in at once', async (t) => {
  const { page, studio } = await chat(t);
  await ask(page, 'hello');
  const session = new URL(page.url()).hash;
  await page.evaluate(() => localStorage.clear());
  await page.context().clearCookies();
  await page.reload();
  await page.getByRole('heading', { name: 'Log-in needed' }).waitFor();
  await page.evaluate((key) => { location.hash = `key=${key}`; }, studio.key);
  await page.waitForSelector('[data-state="live"]');
  assert.equal(new URL(page.url()).hash, session, 'the key is gone, the session stays');
  await page.locator('.message.user', { hasText: 'hello' }).waitFor();
});

test('Esc closes a drawer, and does not stop the agent behind it', async (t) => {
  const { agent, page } = await scripted(t, { page: { width: 900 } });
  await send(page, 'story');
  await page.waitForSelector('.stop');
  await page.getByRole('button', { name: 'Files', exact: true }).click();
  await page.waitForSelector('.side.drawer:not([hidden])');
  await page.keyboard.press('Escape');
  await page.waitForSelector('.side.drawer', { state: 'hidden' });
  await page.evaluate(() => window.__idle());
  assert.equal(agent.messages.some((it) => it.method === 'session/cancel'), false);
  await page.keyboard.press('Escape');
  await agent.heard('session/cancel');
  await agent.answer('session/prompt', { stopReason: 'cancelled' });
  await idle(page);
});

test('an answer to one question does not answer the next one', async (t) => {
  const { agent, page } = await scripted(t);
  await send(page, 'work');
  const { sessionId } = await agent.heard('session/prompt');
  const ask = (title) => agent.request('session/request_permission', {
    sessionId, toolCall: { toolCallId: title, title },
    options: [{ optionId: 'y', name: 'Yes', kind: 'allow_once' }, { optionId: 'z', name: 'Yes to all', kind: 'allow_always' },
      { optionId: 'n', name: 'No', kind: 'reject_once' }],
  });
  const first = ask('First');
  await page.getByRole('group', { name: /First/ }).waitFor();
  const second = ask('Second');
  await page.locator('[data-permission]').getByText('1 more').waitFor();
  await page.getByRole('button', { name: 'Yes to all (always)' }).waitFor();
  await page.waitForSelector('[data-permission][data-ready="true"]');
  // A key that is held down does nothing. The next question is clicked in the moment in which it appears.
  const press = (repeat) => page.evaluate((repeat) => document.activeElement.dispatchEvent(
    new KeyboardEvent('keydown', { key: 'Enter', ctrlKey: true, repeat, bubbles: true, cancelable: true })), repeat);
  await press(true);
  await page.evaluate(() => window.__idle());
  assert.equal(await page.getByRole('group', { name: /First/ }).count(), 1);
  await page.evaluate(() => {
    window.clicked = 0;
    new MutationObserver(() => {
      const row = document.querySelector('[data-permission]');
      if (!row?.textContent.includes('Second') || window.clicked) return;
      window.clicked += 1;
      row.querySelector('.button.main').click();
    }).observe(document.body, { childList: true, subtree: true });
  });
  await press(false);
  assert.equal((await first).outcome.optionId, 'y');
  await page.waitForFunction(() => window.clicked === 1);
  await page.evaluate(() => window.__idle());
  assert.equal(await page.getByRole('group', { name: /Second/ }).count(), 1);
  // The click waits until the button can be used.
  await page.getByRole('group', { name: /Second/ }).getByRole('button', { name: 'No', exact: true }).click();
  assert.equal((await second).outcome.optionId, 'n');
  await agent.answer('session/prompt', { stopReason: 'end_turn' });
  await idle(page);
});
