// Windows: what stays after a reload, several folders, the end of a window, and themes.
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { scriptedAgent } from '../../../web/test/scripted.mjs';
import { DEADLINE, openWindow, program, project, server, startServer, test, until } from './harness.mjs';

const demo = { 'conductor.chain': ['demo-agent --pace 0'] };

test('a reload keeps the conversation and the message that is being written', async (t) => {
  const window = await openWindow(await server(), { t, settings: demo });
  await window.ask('remember these words', await window.startChat());
  await window.chat().getByLabel('Message', { exact: true }).fill('half a mess');
  await until(() => window.server.keeps('half a mess'), 'the message on the disk');
  const starts = window.events('start').length;
  await window.reload();
  const chat = window.chat();
  await until(() => window.events('start').length > starts, 'the second start');
  await chat.getByText('remember these words').first().waitFor();
  await until(async () => (await chat.getByLabel('Message', { exact: true }).inputValue()) === 'half a mess', 'the draft');
  await chat.getByLabel('Message', { exact: true }).fill('');
  await window.ask('and these', chat);
  await window.told(/remember these words[^]*and these/, chat);
});

test('no program is left after a window is closed, also in the middle of an answer', async (t) => {
  const code = await server();
  const window = await openWindow(code, { t, settings: demo });
  await window.send('hang', await window.startChat());
  await window.chat().locator('.stop').waitFor();
  const ours = () => code.processes(program()).filter((it) => it.command.includes('demo-agent'));
  assert.ok(ours().length > 0);
  await window.close();
  assert.deepEqual(ours(), []);
});

test('no program is left after the browser is gone', async (t) => {
  const code = await server();
  const window = await openWindow(code, { t, settings: demo });
  await window.send('hang', await window.startChat());
  await window.chat().locator('.stop').waitFor();
  await window.page.close();
  // VS Code waits some seconds for the browser to come back.
  await until(() => !code.processes(program()).some((it) => it.command.includes('demo-agent')), 'the end of the chain');
  // The extension has ended the chain itself.
  await window.event('stop');
});

test('a command of the agent ends with the host of the extensions, also if that is killed', async (t) => {
  const code = await server();
  const window = await openWindow(code, { t, settings: demo });
  const chat = await window.startChat();
  await window.send('run sleep 4242', chat);
  await chat.locator('[data-permission][data-ready="true"]').getByRole('button', { name: /Allow/ }).first().click();
  const commands = () => code.processes('sleep 4242');
  await until(() => commands().length > 0, 'the command');
  // The hosts of earlier windows end with their windows.
  const hosts = () => code.processes('--type=extensionHost');
  await until(() => hosts().length === 1, 'one host of extensions');
  process.kill(hosts()[0].pid, 'SIGKILL');
  await until(() => commands().length === 0, 'the end of the command');
});

test('a workspace with several folders: a session knows its folder', async (t) => {
  const [one, two] = [await project({ t, files: { 'one.txt': '1\n' } }), await project({ t, files: { 'two.txt': '2\n' } })];
  const place = await project({ t });
  const path = join(place, 'both.code-workspace');
  await writeFile(path, JSON.stringify({ folders: [{ path: one, name: 'one' }, { path: two, name: 'two' }], settings: demo }));
  const window = await openWindow(await server(), { t, workspace: path });
  const chat = await window.startChat();
  assert.equal((await window.event('start')).folder, one);
  await window.ask('read one.txt', chat);
  // A file of the other folder is inside of the workspace, so it is read without a question.
  await window.ask(`read ${join(two, 'two.txt')}`, chat);
  assert.equal(window.events('question').length, 0);
  const shown = window.events('session shown').length;
  await window.command('Conductor: New Session');
  await window.choose('two');
  await until(() => window.events('session shown').length > shown, 'the new session');
  await until(async () => !/one\.txt/.test(await chat.locator('.conversation').innerText()), 'an empty conversation');
  await window.ask('read two.txt', chat);
  assert.match(window.events('message').at(-1).text, /^two\.txt has 1 line/);
});

test('a workspace with several folders: relative paths of a panel or comment belong to the folder of its session', async (t) => {
  const files = (text) => ({ 'same.txt': `${text}\n` });
  const [one, two] = [await project({ t, files: files('this is one') }), await project({ t, files: files('this is two') })];
  const agent = await scriptedAgent({ t });
  const path = join(await project({ t }), 'both.code-workspace');
  const folders = [{ path: one, name: 'one' }, { path: two, name: 'two' }];
  await writeFile(path, JSON.stringify({ folders, settings: { 'conductor.chain': agent.chain } }));
  const window = await openWindow(await server(), { t, workspace: path });
  await window.ask('first', await window.startChat());
  await window.command('Conductor: New Session');
  await window.choose('two');
  assert.equal((await agent.heard('session/new', 1)).cwd, two);
  await agent.request('_scp/file_comment/show', { id: 'c', url: 'same.txt', start: { line: 1 }, contents: 'A comment', sessionId: 's2' });
  assert.equal((await window.event('comment thread')).file, 'two/same.txt');
  const contents = '<p><a class="c-file" data-file="same.txt">the file</a></p>';
  await agent.request('_scp/html_panel/show', { id: 'p', label: 'Panel', contents, sessionId: 's2' });
  await window.panel().locator('.panel-frame').contentFrame().getByText('the file').click();
  await window.tab('same.txt').waitFor();
  await window.shows('this is two');
});

test('the chat follows the theme: light and high contrast', async (t) => {
  const window = await openWindow(await server(), { t, settings: demo });
  const chat = await window.startChat();
  await window.ask('show all', chat);
  const path = join(window.folder, '.vscode/settings.json');
  for (const [theme, kind] of [
    ['Default Light Modern', 'vscode-light'], ['Default High Contrast', 'vscode-high-contrast'],
    ['Default High Contrast Light', 'vscode-high-contrast-light'],
  ]) {
    await writeFile(path, JSON.stringify({ ...demo, 'workbench.colorTheme': theme }));
    await chat.locator(`body.${kind}[data-vscode-theme-name="${theme}"], body.${kind}`).first().waitFor();
    await window.picture(theme.replaceAll(' ', '-').toLowerCase());
  }
});

test('a second window of a folder shows the conversations of the first one, and no conversation is lost later', async (t) => {
  const code = await startServer({ t, settings: demo });
  const folder = await project({ t, files: { 'a.txt': '1\n' } });
  const first = await openWindow(code, { t, folder });
  await first.ask('words of the first', await first.startChat());
  await until(() => code.keeps('words of the first'), 'the first conversation on the disk');
  const second = await openWindow(code, { t, folder });
  await second.openChat();
  const starts = (count) => until(() => code.events().filter((it) => it.event === 'start')[count - 1], `the start ${count}`);
  const { restored, continues } = await starts(2);
  assert.deepEqual({ restored, continues }, { restored: 1, continues: null });
  // Its page may remember the session of the first window, and moves to one of its own.
  const shown = () => code.events().filter((it) => it.event === 'session shown').map((it) => it.session);
  await until(() => new Set(shown()).size === 2, 'a session of the second window');
  await second.ask('words of the second', second.chat());
  await until(() => code.keeps('words of the second'), 'the second conversation on the disk');
  // A page that is left ends its host.
  await second.page.goto('about:blank');
  await first.reload();
  await first.openChat();
  assert.equal((await starts(3)).restored, 2);
  await first.page.goto('about:blank');
});

/** Does what changes the workspace of a window, and waits until the chain runs again. */
async function changeWorkspace(window, isDone, command, path, button) {
  const starts = window.events('start').length;
  await window.command(command);
  const input = window.page.locator('.quick-input-widget input.input');
  await until(async () => {
    if (isDone(decodeURIComponent(window.page.url()))) return true;
    // The box is ready when it shows the path that it begins with.
    if (!(await input.inputValue({ timeout: DEADLINE / 6 }))) return false;
    await input.fill(path, { timeout: DEADLINE / 6 });
    await window.page.locator('.quick-input-action .monaco-button', { hasText: button }).click({ timeout: DEADLINE / 6 });
    // A second click would ask whether the file that the first one writes may be overwritten.
    // A click that comes before the box has read the path does nothing.
    await input.waitFor({ state: 'hidden', timeout: DEADLINE / 6 });
    return isDone(decodeURIComponent(window.page.url()));
  }, 'the new workspace', 2 * DEADLINE);
  await until(async () => {
    const last = window.events().findLast((it) => ['start', 'off'].includes(it.event));
    if (window.events('start').length > starts) return true;
    // This VS Code now and then reads the file of a workspace before it can.
    if (last.why === 'noFolder') await window.reload();
    // A click on the icon would hide a chat that is there already.
    await window.command('Conductor: Open Chat');
    return false;
  }, 'the next start');
  return window.events('start').at(-1);
}

test('the conversations stay when a folder is added to the workspace, and when that is saved', async (t) => {
  const more = await project({ t, files: { 'more.txt': '1\n' } });
  const code = await startServer({ t, settings: demo });
  const window = await openWindow(code, { t });
  await window.ask('remember these words', await window.startChat());
  await until(() => code.keeps('remember these words'), 'the conversation on the disk');
  const isWorkspace = (address) => address.includes('workspace=');
  const added = await changeWorkspace(window, isWorkspace, 'Workspaces: Add Folder to Workspace...', `${more}/`, /^Add$/);
  assert.equal(added.restored, 1);
  await window.chat().getByText('remember these words').first().waitFor();
  await window.ask('and these', window.chat());
  await until(() => code.keeps('and these'), 'the conversation on the disk');
  const path = join(await project({ t }), 'saved.code-workspace');
  const isSaved = (address) => address.includes(path);
  const saved = await changeWorkspace(window, isSaved, 'Workspaces: Save Workspace As...', path, /^(OK|Save)$/);
  assert.equal(saved.restored, 1);
  await window.chat().getByText('and these').first().waitFor();
});
