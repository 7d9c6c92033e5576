// What components show: panels as tabs, comments on lines, edits as diffs.
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { atEnd, openWindow, project, server, sharedWindow, test, until } from './harness.mjs';
import { scriptedAgent } from '../../../web/test/scripted.mjs';

const files = {
  'src/greeting.rs': `//! Greets people.

/// Says hello to a person.
pub fn greet(name: &str) -> String {
    let name = name.trim();
    format!("Hello, {name}!")
}
`,
  'README.md': '# Greeter\n\nSays hello.\n',
};

/** A window with an agent that does what the test says. */
const agentWindow = sharedWindow(async () => {
  const agent = await scriptedAgent();
  atEnd(undefined, agent.close);
  const window = await openWindow(await server(), { files, settings: { 'conductor.chain': agent.chain } });
  await window.startChat();
  return { agent, window, url: (name) => pathToFileURL(join(window.folder, name)).href };
});

async function windowWithAgent(t) {
  const made = await agentWindow(t);
  // Nothing of the test before is left.
  const { messages } = made.agent;
  messages.splice(0, messages.length, ...messages.filter((it) => ['initialize', 'session/new'].includes(it.method)));
  const tabs = made.window.page.locator('.tabs-container .tab');
  if (await tabs.count() > 0) await made.window.command('View: Close All Editors');
  await until(async () => (await tabs.count()) === 0, 'the end of all tabs');
  await writeFile(join(made.window.folder, 'src/greeting.rs'), files['src/greeting.rs']);
  return made;
}

/** The frame with the HTML of the panel that is shown. */
const shown = (window) => window.panel().locator('.panel-frame').contentFrame();

test('a panel is a tab: it is shown, updated, used, read and closed', async (t) => {
  const { agent, window } = await windowWithAgent(t);
  const show = (params) => agent.request('_scp/html_panel/show', { id: 'plan', ...params });
  await show({ label: 'Plan', contents: '<p>Two steps.</p><button class="c-button" data-widget="next" data-value="2">Next</button>' });
  await window.tab('Plan').waitFor();
  await shown(window).getByText('Two steps.').waitFor();
  await shown(window).getByRole('button', { name: 'Next' }).click();
  assert.deepEqual(await agent.heard('_scp/html_panel/event'), { id: 'plan', widget: 'next', kind: 'click', value: '2' });
  await show({ label: 'Plan B', contents: '<p>Three steps.</p><script>parent.postMessage("attack", "*")</script>' });
  await window.tab('Plan B').waitFor();
  await shown(window).getByText('Three steps.').waitFor();
  assert.equal(await shown(window).locator('script').filter({ hasText: 'attack' }).count(), 0);
  assert.match(await agent.request('_scp/html_panel/get', { id: 'plan' }), /Three steps/);
  assert.equal(await window.page.locator('.tabs-container .tab').count(), 1);
  await window.closeTab('Plan B');
  assert.deepEqual(await agent.heard('_scp/html_panel/closed'), { id: 'plan' });
  assert.equal(await agent.request('_scp/html_panel/get', { id: 'plan' }), null);
  await show({ label: 'Plan C', contents: '<p>Again.</p>' });
  await window.tab('Plan C').waitFor();
  await agent.request('_scp/html_panel/clear', { id: 'plan' });
  await window.tab('Plan C').waitFor({ state: 'detached' });
});

test('an operation about a file outside of the workspace is asked for', async (t) => {
  const { agent, window } = await windowWithAgent(t);
  const path = join(await project({ t, files: { 'outside.txt': 'not yours\n' } }), 'outside.txt');
  const open = () => agent.request('_scp/ide_operation/open-file', { url: path, sessionId: 's1' });
  const answer = (name) => window.chat().locator('[data-permission][data-ready="true"]').getByRole('button', { name }).click();
  const refused = assert.rejects(open(), /permission denied/);
  await window.chat().getByText(`Read ${path}, which is outside of the folder of the project`).first().waitFor();
  await answer('Reject');
  await refused;
  assert.equal(await window.tab('outside.txt').count(), 0);
  const opened = open();
  await answer('Allow once');
  await opened;
  await window.tab('outside.txt').waitFor();
});

test('a link in a panel opens its address as it is written', async (t) => {
  const { agent, window } = await windowWithAgent(t);
  const address = 'https://link.example/a%2Fb%20c/%C3%A4?to=x%26y%3D1&q=%23%2B+#part%2F2';
  const opened = [];
  const context = window.page.context();
  await context.route('https://link.example/**', (route) => {
    opened.push(route.request().url());
    return route.fulfill({ body: 'the page' });
  });
  t.after(() => context.unroute('https://link.example/**'));
  await agent.request('_scp/html_panel/show', {
    id: 'links', label: 'Links', contents: `<p><a href="${address.replaceAll('&', '&amp;')}">the page</a></p>` });
  const popup = context.waitForEvent('page');
  await shown(window).getByText('the page').click();
  // VS Code asks first.
  await window.dialog(/^Open$/).click();
  const page = await popup;
  await until(() => opened.length > 0, 'the request for the page');
  await until(() => page.url() !== 'about:blank', 'the address of the page');
  assert.equal(page.url(), address);
  await page.close();
  await agent.request('_scp/html_panel/clear', { id: 'links' });
});

test('a link in a panel opens a file at its line, beside the panel', async (t) => {
  const { agent, window } = await windowWithAgent(t);
  await agent.request('_scp/html_panel/show', {
    id: 'tour', label: 'Tour', contents: '<p><a class="c-file" data-file="src/greeting.rs" data-line="4">the function</a></p>' });
  await shown(window).getByText('the function').click();
  await window.tab('greeting.rs').waitFor();
  await window.page.locator('.line-numbers.active-line-number', { hasText: '4' }).first().waitFor();
  await agent.request('_scp/html_panel/clear', { id: 'tour' });
});

test('comments stand on their lines, and a reply reaches the component', async (t) => {
  const { agent, window, url } = await windowWithAgent(t);
  const comment = (id, line, end, contents, can_reply = true) => agent.request('_scp/file_comment/show', {
    id, url: url('src/greeting.rs'), start: { line }, end: { line: end }, can_reply, contents });
  await comment('trim', 5, 5, 'Blanks around the name are **removed** here.');
  await comment('whole', 4, 7, 'The whole function.', false);
  await window.event('comment thread', (it) => it.id === 'trim');
  await window.openFile('greeting.rs');
  const thread = window.thread('Blanks around the name');
  await thread.waitFor();
  await window.picture('comments');
  const lines = (id) => window.events('comment thread').findLast((it) => it.id === id).range;
  assert.deepEqual([lines('trim')[0], lines('trim')[2]], [4, 4]);
  assert.deepEqual([lines('whole')[0], lines('whole')[2]], [3, 6]);
  // The comment is below its line.
  const top = async (locator) => (await locator.boundingBox()).y;
  const number = (n) => window.page.locator('.editor-instance .margin-view-overlays .line-numbers').filter({ hasText: new RegExp(`^${n}$`) });
  // VS Code makes room for the comment when it knows its height.
  let places;
  await until(async () => {
    places = [await top(number(5)), await top(thread), await top(number(6))];
    return places[0] < places[1] && places[1] < places[2];
  }, 'the comment between its lines').catch((error) => assert.fail(`${error.message}: ${places}`));
  await window.reply(thread, 'Is that needed?');
  assert.deepEqual(await agent.heard('_scp/file_comment/reply'), { id: 'trim', contents: 'Is that needed?' });
  await thread.locator('.review-comment', { hasText: 'Is that needed?' }).waitFor();
  // A component may answer: its new text replaces the old one, and the reply stays.
  await comment('trim', 5, 5, 'Blanks are **removed**, because people type them.');
  await window.thread('because people type them').waitFor();
  await window.thread('Is that needed?').waitFor();
  await agent.request('_scp/file_comment/clear', { id: 'trim' });
  await window.thread('because people type them').waitFor({ state: 'detached' });
  await agent.request('_scp/file_comment/clear', { id: 'whole' });
  await window.event('comment gone', (it) => it.id === 'whole');
});

const renamed = (url) => ({ label: 'Greet in another language', edits: [
  { url: url('src/greeting.rs'), start: { line: 6, column: 14 }, end: { line: 6, column: 19 }, new_text: 'Bonjour' },
] });

test('an edit is shown as a diff, and is made when the person accepts it', async (t) => {
  const { agent, window, url } = await windowWithAgent(t);
  const path = join(window.folder, 'src/greeting.rs');
  const answer = agent.request('_scp/ide_operation/apply-edit', renamed(url));
  await window.page.locator('.monaco-diff-editor .line-insert').first().waitFor();
  await window.picture('edit');
  assert.match(await readFile(path, 'utf8'), /Hello, \{name\}/);
  await window.page.locator('.title-actions a.action-label[aria-label^="Accept Edit"], .editor-actions a.action-label[aria-label^="Accept Edit"]').first().click();
  assert.deepEqual(await answer, { applied: true });
  await window.page.locator('.monaco-diff-editor').waitFor({ state: 'detached' });
  await window.openFile('greeting.rs');
  await window.shows('Bonjour, {name}!');
});

test('an edit that the person rejects, or whose diff she closes, changes nothing', async (t) => {
  const { agent, window, url } = await windowWithAgent(t);
  const first = agent.request('_scp/ide_operation/apply-edit', renamed(url));
  await window.page.locator('.monaco-diff-editor .line-insert').first().waitFor();
  await window.command('Conductor: Reject Edit');
  const { applied, reason } = await first;
  assert.equal(applied, false);
  assert.match(reason, /reject/);
  await window.page.locator('.monaco-diff-editor').waitFor({ state: 'detached' });
  const second = agent.request('_scp/ide_operation/apply-edit', renamed(url));
  await window.page.locator('.monaco-diff-editor .line-insert').first().waitFor();
  await window.closeTab('greeting.rs');
  assert.equal((await second).applied, false);
  const third = agent.request('_scp/ide_operation/apply-edit', { ...renamed(url), label: 'Greet once more' });
  await window.press('Greet once more', 'Reject');
  assert.equal((await third).applied, false);
  assert.match(await readFile(join(window.folder, 'src/greeting.rs'), 'utf8'), /Hello, \{name\}/);
});

test('no text of a component becomes a link in a message', async (t) => {
  const { agent, window, url } = await windowWithAgent(t);
  const link = '[Press here](command:workbench.action.showCommands)';
  const answer = agent.request('_scp/ide_operation/apply-edit', { ...renamed(url), label: `${link}\nnow` });
  const messageWith = (text) => window.page.locator('.notification-list-item', { hasText: text }).locator('.notification-list-item-message').first();
  const message = messageWith('Press here');
  await message.waitFor();
  assert.equal(await message.locator('a').count(), 0);
  assert.match(await message.innerText(), /command:workbench\.action\.showCommands\) now: change/);
  await window.command('Conductor: Reject Edit');
  await answer;
  await agent.request('_scp/html_panel/show', {
    id: 'tour', label: 'Tour', contents: `<p><a class="c-file" data-file="${link.replace('Press here', 'Open it')}">a file</a></p>` });
  await shown(window).getByText('a file').click();
  const missing = messageWith('There is no file');
  await missing.waitFor();
  assert.match(await missing.innerText(), /Open it/);
  assert.equal(await missing.locator('a').count(), 0);
  await agent.request('_scp/html_panel/clear', { id: 'tour' });
});

test('a person asks about a line', async (t) => {
  const { agent, window } = await windowWithAgent(t);
  await window.openFile('greeting.rs');
  const row = window.page.locator('.editor-instance .margin-view-overlays > div').filter({ has: window.page.locator('.line-numbers', { hasText: /^5$/ }) });
  await row.hover();
  await row.locator('.comment-range-glyph').click();
  await window.page.locator('.comment-form .monaco-editor.focused').waitFor();
  await window.page.keyboard.type('Why is it trimmed?');
  await window.page.locator('.form-actions a.monaco-button', { hasText: 'Ask the Agent' }).click();
  const { prompt } = await agent.heard('session/prompt');
  const text = prompt.map((block) => block.text ?? block.resource?.uri ?? block.uri ?? '').join('\n');
  assert.match(text, /Why is it trimmed\?/);
  assert.match(text, /greeting\.rs(:5|[^]*line 5)/);
  await until(() => window.events('asked').some((it) => it.lines === '5'), 'the event');
});
