// The first use: nothing is installed, nothing is chosen, the folder is not trusted, or the package is new.
import assert from 'node:assert/strict';
import { chmod, readFile, symlink, mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { openWindow, program, project, startServer, test, until } from './harness.mjs';

/** A PATH without the program, but with what it runs. */
const bare = `${dirname(process.execPath)}:/usr/bin:/bin`;

let packaged;
/** A VS Code in which the package was installed. */
const installed = () => (packaged ??= startServer({ load: 'vsix' }));

test('without the program, the chat says how to get it, and finds it later', async (t) => {
  const own = await startServer({ t, program: false, env: { PATH: bare }, settings: { 'conductor.chain': ['demo-agent'] } });
  const window = await openWindow(own, { t });
  const chat = await window.openChat();
  await window.event('no program');
  for (const text of [/conductor/, /install/i]) await chat.locator('body', { hasText: text }).waitFor();
  await window.picture('no-program');
  // The person installs it where programs of a user are.
  await mkdir(join(own.home, '.local/bin'), { recursive: true });
  await symlink(program(), join(own.home, '.local/bin/conductor'));
  await window.command('Conductor: Find the Program conductor');
  await window.event('program');
  await window.event('chain', (it) => it.state === 'running');
});

test('a program that is too old or broken is named', async (t) => {
  const folder = await project({ t, files: { 'conductor': '#!/bin/sh\necho "this is not it"\nexit 3\n' } });
  await chmod(join(folder, 'conductor'), 0o755);
  const settings = { 'conductor.path': join(folder, 'conductor'), 'conductor.chain': ['demo-agent'] };
  const window = await openWindow(await installed(), { t, settings });
  const chat = await window.openChat();
  const { problem } = await window.event('no program');
  assert.ok(problem.includes(join(folder, 'conductor')), problem);
  await chat.getByText(join(folder, 'conductor')).first().waitFor();
});

test('settings with wrong values are named, and the chain starts when they are corrected', async (t) => {
  const own = await startServer({ t });
  const chain = { 'conductor.chain': ['demo-agent'] };
  const settings = { ...chain, 'conductor.environment': null, 'conductor.options': 'x', 'conductor.conversations.keep': 'all' };
  const window = await openWindow(own, { t, settings });
  const chat = await window.openChat();
  await chat.getByText('The chain cannot start').waitFor();
  await chat.getByText(/conductor\.environment must be an object, not null/).waitFor();
  await chat.getByText(/conductor\.options must be a list of texts, not a text/).waitFor();
  await window.picture('wrong-settings');
  const change = (more) => writeFile(join(window.folder, '.vscode/settings.json'), JSON.stringify({ ...chain, ...more }));
  // Another mistake takes its place.
  await change({ 'conductor.path': `${program()}/x` });
  await window.event('no program');
  // The system refuses a variable that is too long.
  await change({ 'conductor.chain': 'mine', 'conductor.environment': { LONG: 'x'.repeat(200_000) } });
  await chat.getByText(/configuration of conductor could not be read: spawn E2BIG/).waitFor();
  await change({ 'conductor.conversations.keep': 'all' });
  await window.event('chain', (it) => it.state === 'running');
  await window.command('Conductor: Show Log');
  await until(async () => /conversations\.keep must be a whole number/.test(await window.output()), 'the note about the setting');
});

test('in a folder that is not trusted, nothing is started', async (t) => {
  const own = await startServer({
    t, trust: true, settings: { 'security.workspace.trust.startupPrompt': 'never', 'security.workspace.trust.banner': 'never' },
  });
  const marker = join(await project({ t }), 'started');
  const evil = join(await project({ t, files: { 'evil': `#!/bin/sh\ntouch ${marker}\n` } }), 'evil');
  await chmod(evil, 0o755);
  const window = await openWindow(own, { t, settings: { 'conductor.path': evil, 'conductor.chain': [evil] } });
  const chat = await window.openChat();
  await chat.getByText(/trust/i).first().waitFor();
  await window.picture('untrusted');
  assert.equal(window.events('start').length, 0);
  // The menus of the view and of the status bar have the command although the palette does not.
  await window.page.locator('.statusbar-item#acp-conductor\\.conductor\\.conductor\\.status').click();
  await window.choose('Choose chain');
  const offer = window.page.getByText('You are in Restricted Mode');
  await offer.waitFor();
  await until(async () => {
    await window.page.keyboard.press('Escape');
    return !(await offer.isVisible());
  }, 'the end of the offer');
  assert.equal(window.events('program').length, 0, 'not even the program conductor is asked');
  await assert.rejects(readFile(marker), 'nothing of the folder was run');
  await writeFile(join(window.folder, '.vscode/settings.json'), JSON.stringify({ 'conductor.chain': ['demo-agent'] }));
  await chat.getByRole('button', { name: /trust/i }).first().click();
  await until(async () => {
    const button = window.page.getByRole('button', { name: /^(Trust|Yes)/ }).first();
    if (await button.isVisible()) await button.click({ timeout: 2_000 });
    return window.events('chain').some((it) => it.state === 'running');
  }, 'the chain after the folder is trusted');
});

test('the package that was installed works', async (t) => {
  const window = await openWindow(await installed(), { t, settings: { 'conductor.chain': ['demo-agent --pace 0'] } });
  const chat = await window.startChat();
  await window.ask('hello', chat);
});

test('the pages of the first use are shown', async (t) => {
  const window = await openWindow(await installed(), { t });
  await window.command('Conductor: Get Started');
  await window.page.getByText('Find the program conductor').first().waitFor();
  await window.picture('get-started');
});

test('without a chain, the person chooses one', async (t) => {
  const code = await installed();
  const window = await openWindow(code, { t });
  const chat = await window.openChat();
  await window.event('off');
  await window.picture('no-chain');
  await chat.getByRole('button', { name: /[Cc]hoose/ }).first().click();
  await window.row(/demo/i).waitFor();
  await window.picture('choose-chain');
  await window.choose(/demo/i);
  await window.event('chain', (it) => it.state === 'running');
  await window.ask('hello', chat);
  await until(async () => {
    const settings = JSON.parse(await readFile(join(code.data, 'User/settings.json'), 'utf8'));
    return /demo-agent/.test(JSON.stringify(settings['conductor.chain']));
  }, 'the chain in the settings');
});

test('chains of the configuration: the default comes first, a mistake and a project that is not trusted are shown', async (t) => {
  const own = await startServer({ t });
  const path = join(own.home, '.config/conductor/conductor.toml');
  await mkdir(dirname(path), { recursive: true });
  const chains = '[chains.another]\nagent = "demo-agent"\n\n[chains.mine]\nproxies = ["ide"]\nagent = "demo-agent"\n';
  await writeFile(path, `default = "mine"\nunknown = 1\n\n${chains}`);
  const window = await openWindow(own, { t, files: { '.conductor.toml': '[chains.theirs]\nagent = "evil"\n' } });
  const chat = await window.openChat();
  await chat.getByText(/has a mistake: unknown key `unknown` .*conductor\.toml:2:1/).waitFor();
  await window.picture('wrong-configuration');
  await writeFile(path, `default = "mine"\n\n[settings]\nlog = "debug"\n\n${chains}`);
  await window.command('Conductor: Choose Chain…');
  await window.row('mine').waitFor();
  const [first, second] = await window.page.locator('.quick-input-list .monaco-list-row[aria-label]').evaluateAll((rows) => (
    rows.map((row) => row.getAttribute('aria-label')).filter((it) => !/^chains/.test(it))));
  assert.match(first, /mine.*default of your configuration/);
  assert.match(second, /another/);
  await window.choose('mine');
  await window.event('chain', (it) => it.state === 'running');
  await window.page.locator('.statusbar-item#status\\.notifications').click();
  const message = window.page.locator('.notification-list-item', { hasText: 'you do not trust this project yet' });
  await message.first().waitFor();
  await window.picture('untrusted-project');
  await window.ask('hello', chat);
  // The log level is that of the configuration, because the person has not set another one.
  const [chain] = own.processes('--chain');
  assert.ok(!chain.command.includes('--log'), chain.command);
});
