// Panels in the real program: an agent shows them, the user uses and closes them, and hostile ones reach nothing.
import assert from 'node:assert/strict';
import test from 'node:test';
import { axe, fits, openStudio, picture, project, startStudio, until } from './harness.mjs';
import { cases } from './panel-cases.mjs';
import { clickAll, settle } from './panel-scripts.mjs';
import { serveEnemy } from './panel-server.mjs';
import { scriptedAgent } from './scripted.mjs';

/** axe reads style sheets by itself, and the policy of the frame stops it. */
const allow = [/connect-src \S*\/panel\/frame\.css/, /^console: Connecting to '\S*\/panel\/frame\.css'/];

async function start(t, options = {}) {
  let page;
  // The page ends before the program, or it complains about the lost connection.
  t.after(() => page?.check());
  const agent = await scriptedAgent({ t });
  const cwd = await project({ t, files: { 'src/router.rs': 'fn one() {}\nfn two() {}\nfn three() {}\n' } });
  const studio = await startStudio({ t, cwd, chain: agent.chain });
  page = await openStudio(studio, { t, allow, ...options });
  const show = (id, contents, label) => agent.request('_scp/html_panel/show', { id, contents, ...(label ? { label } : {}) });
  return { agent, studio, page, show };
}

/** The frame of the panel in front, when its newest HTML is shown. */
async function front(page) {
  await page.waitForSelector('.panel-view:not([hidden]) .panel-frame[data-shown="true"]');
  return (await page.$('.panel-view:not([hidden]) .panel-frame')).contentFrame();
}

const walk = `<h1>Step 1</h1><p>Look at <a class="c-file" data-file="src/router.rs" data-line="2">the router</a> and
<a href="https://example.com/docs">the notes</a>.</p><pre class="c-code" data-language="rust"><code>fn two() {}</code></pre>
<div class="c-row"><button class="c-button" data-widget="next" data-value="2">Next step</button><button class="c-button c-muted" data-widget="stop">Stop</button></div>
<div class="c-choice" data-widget="depth"><button data-value="a">Short</button><button data-value="b">Long</button></div>
<input class="c-input" data-widget="ask" placeholder="Ask about this step">
<details class="c-collapsible" data-widget="more"><summary>More</summary><p>Text</p></details>`;

test('a panel keeps its state when the panels have another order, also in a browser without moveBefore', async (t) => {
  const { agent, page, show } = await start(t);
  await page.evaluate(() => delete Element.prototype.moveBefore);
  const frames = {};
  for (const id of ['a', 'b', 'c']) {
    await show(id, '<input class="c-input" data-widget="w" placeholder="Write">', `Panel ${id}`);
    await page.locator('.panels [role=tab][aria-selected=true]', { hasText: `Panel ${id}` }).waitFor();
    frames[id] = await front(page);
    await frames[id].fill('input', `text of ${id}`);
  }
  // At once, so that the page gets both together.
  await Promise.all([agent.request('_scp/html_panel/clear', { id: 'a' }), show('a', '<p>New</p>', 'Panel a again')]);
  await until(async () => (await page.locator('.panels [role=tab]').allTextContents()).join() === 'Panel b,Panel c,Panel a again', 'the new order of the tabs');
  for (const id of ['b', 'c']) {
    await page.getByRole('tab', { name: `Panel ${id}` }).click();
    await front(page);
    assert.equal(await frames[id].inputValue('input'), `text of ${id}`);
  }
  assert.equal(await page.locator('.panel-text').count(), 0, 'no panel was stopped');
});

test('an agent shows a panel, changes it, and receives what the user does', async (t) => {
  const { agent, page, show } = await start(t);
  await show('p', walk, 'Walkthrough');
  const frame = await front(page);
  assert.equal(await page.textContent('.panels [role=tab]'), 'Walkthrough');
  const event = async (index) => agent.heard('_scp/html_panel/event', index);
  await frame.click('text=Next step');
  assert.deepEqual(await event(0), { id: 'p', widget: 'next', kind: 'click', value: '2' });
  await frame.click('text=Long');
  assert.deepEqual(await event(1), { id: 'p', widget: 'depth', kind: 'choice', value: 'b' });
  await frame.fill('input', 'Why?');
  await frame.press('input', 'Enter');
  assert.deepEqual(await event(2), { id: 'p', widget: 'ask', kind: 'input', value: 'Why?' });
  await frame.click('summary');
  assert.deepEqual(await event(3), { id: 'p', widget: 'more', kind: 'toggle', value: true });
  await frame.click('text=Stop');
  const { value, ...rest } = await event(4);
  assert.deepEqual([rest, value ?? null], [{ id: 'p', widget: 'stop', kind: 'click' }, null]);
  await show('p', walk.replace('Step 1', 'Step 2'));
  await frame.waitForSelector('text=Step 2');
  assert.equal(await frame.inputValue('input'), 'Why?', 'the text of the user stays');
  assert.equal(await agent.request('_scp/html_panel/get', { id: 'p' }), walk.replace('Step 1', 'Step 2'));
});

test('a link to a file opens it; another link is asked about first', async (t) => {
  const { page, show } = await start(t);
  await show('p', walk, 'Walkthrough');
  const frame = await front(page);
  await frame.click('text=the notes');
  const dialog = page.getByRole('dialog', { name: 'Open this link?' });
  await dialog.waitFor();
  assert.match(await dialog.textContent(), /example\.com.*https:\/\/example\.com\/docs/s);
  await axe(page);
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  await dialog.waitFor({ state: 'hidden' });
  assert.equal(page.context().pages().length, 1);
  await frame.click('text=the router');
  await page.getByText('fn two() {}').first().waitFor();
  assert.ok(await page.locator('.side-files').isVisible(), 'the files are in front');
});

test('panels have tabs, come to the front, and are closed', async (t) => {
  const { agent, page, show } = await start(t);
  await show('one', '<p>First panel</p>', 'One');
  await (await front(page)).waitForSelector('text=First panel');
  await show('two, with <b> & blanks', '<p>Second panel</p>', 'Two <b>');
  await page.waitForSelector('.panels [role=tab][aria-selected=true]:has-text("Two <b>")');
  await (await front(page)).waitForSelector('text=Second panel');
  await axe(page, { include: '.panels' });
  // By keyboard: to the other tab and back.
  await page.focus('.panels [role=tab][aria-selected=true]');
  await page.keyboard.press('ArrowLeft');
  await page.waitForSelector('.panels [role=tab][aria-selected=true]:has-text("One")');
  await (await front(page)).waitForSelector('text=First panel');
  await show('two, with <b> & blanks', '<p>Second again</p>');
  await page.waitForSelector('.panels [role=tab][aria-selected=true]:has-text("Two <b>")');
  await (await front(page)).waitForSelector('text=Second again');
  await page.getByRole('button', { name: 'Close panel Two <b>' }).click();
  assert.deepEqual(await agent.heard('_scp/html_panel/closed'), { id: 'two, with <b> & blanks' });
  await page.waitForSelector('.panels [role=tab][aria-selected=true]:has-text("One")');
  await (await front(page)).waitForSelector('text=First panel');
  assert.equal(await page.locator('.panel-text').count(), 0, 'closing one panel does not disturb the other');
  await agent.request('_scp/html_panel/clear', { id: 'one' });
  await page.waitForSelector('.panels-empty');
  await axe(page);
});

test('F6 leads out of a panel', async (t) => {
  const { page, show } = await start(t);
  await show('p', walk, 'Walkthrough');
  const frame = await front(page);
  await frame.focus('button');
  await page.keyboard.press('F6');
  await until(() => page.evaluate(() => document.activeElement?.localName !== 'iframe'), 'the focus is outside of the frame');
  assert.equal(await page.evaluate(() => document.activeElement.closest('[data-region]')?.dataset.region !== 'side'), true);
});

for (const colorScheme of ['light', 'dark']) {
  test(`the studio with a panel is accessible and fits, ${colorScheme}`, async (t) => {
    const { page, show } = await start(t, { colorScheme });
    await show('p', walk, 'Walkthrough');
    await show('q', '<p>Other</p>', 'Other panel with a long name that goes on');
    await show('p', walk);
    await (await front(page)).waitForSelector('.t-key');
    await axe(page);
    await axe(page, { frame: await front(page) });
    await fits(page);
    await picture(page, `panel-studio-${colorScheme}`);
    await page.setViewportSize({ width: 400, height: 800 });
    await page.getByRole('button', { name: /^Panels/ }).or(page.getByRole('tab', { name: /^Panels/ })).first().click();
    await front(page);
    await axe(page, { include: '.side' });
    await fits(page);
    await picture(page, `panel-studio-400-${colorScheme}`);
  });
}

test('no hostile panel of an agent reaches anything', async (t) => {
  const enemy = await serveEnemy();
  t.after(enemy.close);
  const noise = [...allow, /\/panel\/frame\.js[:)]/, /^console: Loading media from  '\S*\/15d'/, /^CSP violation: media-src \S*\/15d/];
  const { agent, studio, page, show } = await start(t, { allow: noise });
  const seen = { dialogs: 0, pages: 0 };
  page.on('dialog', (dialog) => {
    seen.dialogs += 1;
    dialog.dismiss().catch(() => {});
  });
  page.context().on('page', () => (seen.pages += 1));
  await page.evaluate(() => {
    window.messages = 0;
    window.addEventListener('message', () => (window.messages += 1));
  });
  // The session that is shown is added to the address when it is known.
  const addressOf = () => page.url().replace(/#session=\w+$/, '');
  const address = addressOf();
  for (const [i, [name, html]] of cases(enemy.origin).entries()) {
    await show(`p${i}`, `${html}<p class="c-end">End ${i}.</p>`, name);
    const frame = await front(page);
    await until(() => frame.evaluate(() => document.querySelector('main').childNodes.length > 0), `${name} is shown`);
    await clickAll(frame, async () => {
      // The page asks before it opens a link.
      await page.evaluate(() => window.__idle());
      const dialog = page.getByRole('dialog', { name: 'Open this link?' });
      if (await dialog.isVisible()) await dialog.getByRole('button', { name: 'Cancel' }).click();
    });
    // The program has done all that came before.
    await agent.request('_scp/html_panel/get', { id: `p${i}` });
    await settle(page, '/studio');
    assert.deepEqual(enemy.requests, [], `${name}: nothing reaches the enemy`);
    assert.deepEqual(seen, { dialogs: 0, pages: 0 }, `${name}: no dialog and no new page`);
    assert.equal(addressOf(), address, `${name}: the page stays where it is`);
    assert.equal(frame.url(), `${studio.origin}/panel/frame.html`, `${name}: the frame stays where it is`);
    assert.equal(await page.evaluate(() => window.messages), 0, `${name}: no message to the window`);
    await agent.request('_scp/html_panel/clear', { id: `p${i}` });
    await page.waitForSelector('.panels-empty');
  }
});
