// Starts a real VS Code for tests: code-server, with fresh folders for everything that it keeps.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { atEnd, leftOver, marked, once, program } from '../../../web/test/harness.mjs';
import { until } from '../../../web/test/until.mjs';

/** How long a fact may take to become true. Long, because the tests share the machine. */
export const DEADLINE = 60_000;

/** The extension under test. While you work on it, `CONDUCTOR_EXTENSION` names another folder. */
export const extension = resolve(process.env.CONDUCTOR_EXTENSION ?? join(dirname(fileURLToPath(import.meta.url)), '..'));

/** The name of the extension, as VS Code knows it. */
export const EXTENSION_ID = 'acp-conductor.conductor';

const SETTINGS = {
  'workbench.startupEditor': 'none', 'workbench.colorTheme': 'Default Dark Modern', 'workbench.reduceMotion': 'on',
  'workbench.secondarySideBar.defaultVisibility': 'hidden', 'chat.disableAIFeatures': true, 'comments.openView': 'never',
  'editor.minimap.enabled': false, 'editor.autoClosingBrackets': 'never', 'editor.autoClosingQuotes': 'never',
  'extensions.autoCheckUpdates': false, 'remote.autoForwardPorts': false, 'window.confirmBeforeClose': 'never',
  'files.hotExit': 'off', 'git.enabled': false,
  // In a browser, VS Code saves a changed text after a second.
  'files.autoSave': 'off',
  // Otherwise the language server would ask a registry for packages of types.
  'typescript.disableAutomaticTypeAcquisition': true,
};

/** The built-in extensions that tests need. All of them would take seconds and a gigabyte. */
const BUILT_IN = [
  'theme-defaults', 'theme-modern-icons', 'theme-seti', 'javascript', 'typescript-basics', 'rust', 'json', 'markdown-basics',
];

/** The folder of code-server. */
function codeServer() {
  const folder = process.env.CONDUCTOR_CODE_SERVER;
  assert.ok(folder, 'CONDUCTOR_CODE_SERVER is not set: run the tests by `cargo xtask vscode --test`');
  return folder;
}

/**
 * Starts VS Code and waits until it answers.
 *
 * `load` says how it gets the extension: `link`, `vsix` (the package is installed) or `none`. `settings` are those of the
 * user. `program: false` starts without the setting of the program `conductor`. `builtIn` has further built-in extensions.
 * `trust` asks for the trust in a folder, as VS Code does by default. `stop()` ends it, and fails if a process is left.
 */
export async function startServer({
  t, load = 'link', settings = {}, program: known = true, builtIn = [], trust = false, args = [], env = {},
} = {}) {
  const run = await realpath(await mkdtemp(join(tmpdir(), 'conductor-vscode-')));
  const [data, extensions, home, available] = ['data', 'extensions', 'home', 'built-in'].map((name) => join(run, name));
  const events = join(run, 'events.jsonl');
  for (const folder of [join(data, 'User'), join(data, 'Machine'), extensions, home, available]) await mkdir(folder, { recursive: true });
  // The path of a program belongs to the machine: VS Code does not take it from the settings of the user.
  const path = known ? program() : undefined;
  const { 'conductor.path': other = path, ...ofUser } = settings;
  await writeFile(join(data, 'Machine/settings.json'), JSON.stringify({ 'conductor.path': other }));
  await writeFile(join(data, 'User/settings.json'), JSON.stringify({ ...SETTINGS, ...ofUser }, null, 2));
  await writeFile(join(run, 'config.yaml'), '');
  // The folder `node_modules` there has the language server of TypeScript.
  for (const name of [...BUILT_IN, ...builtIn, 'node_modules']) {
    await symlink(join(codeServer(), 'lib/vscode/extensions', name), join(available, name));
  }
  const folders = ['--config', join(run, 'config.yaml'), '--user-data-dir', data, '--extensions-dir', extensions];
  const entry = join(codeServer(), 'out/node/entry.js');
  const mark = `conductor-test-${randomUUID()}`;
  const environment = {
    ...process.env, HOME: home, SHELL: '/bin/sh', CONDUCTOR_VSCODE_EVENTS: events, ...env, CONDUCTOR_TEST_MARK: mark,
  };
  for (const name of ['XDG_CONFIG_HOME', 'XDG_DATA_HOME', 'XDG_STATE_HOME', 'XDG_CACHE_HOME']) delete environment[name];
  if (load === 'link') {
    const { publisher, name, version } = JSON.parse(readFileSync(join(extension, 'package.json'), 'utf8'));
    await symlink(extension, join(extensions, `${publisher}.${name}-${version}`));
  } else if (load === 'vsix') {
    assert.ok(process.env.CONDUCTOR_VSIX, 'CONDUCTOR_VSIX is not set');
    await finished([entry, ...folders, '--install-extension', process.env.CONDUCTOR_VSIX], environment);
  }

  const child = spawn(process.execPath, [
    entry, ...folders, '--bind-addr', '127.0.0.1:0', '--auth', 'none', '--disable-telemetry', '--disable-update-check',
    '--disable-getting-started-override', '--reconnection-grace-time', '3', ...(trust ? [] : ['--disable-workspace-trust']),
    '--vscode-option', `builtin-extensions-dir=${available}`, ...args,
  ], { cwd: run, env: environment, stdio: ['ignore', 'pipe', 'pipe'] });
  let log = '';
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text) => { log += text; });
  const ended = new Promise((done) => {
    child.once('error', (error) => done(`did not start: ${error.message}`));
    // Not `close`: a process that is left keeps the pipes open.
    child.once('exit', (code, signal) => done(signal ?? code));
  });
  const stop = once(async () => {
    child.kill('SIGTERM');
    const patience = setTimeout(() => child.kill('SIGKILL'), DEADLINE);
    await ended;
    clearTimeout(patience);
    const left = await leftOver(mark);
    child.stdout.destroy();
    child.stderr.destroy();
    await rm(run, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
    assert.deepEqual(left, [], 'processes are left after the end of VS Code');
  });
  atEnd(t, stop);
  const url = await until(() => {
    if (child.exitCode !== null) throw new Error(`VS Code has ended:\n${log}`);
    return /http:\/\/127\.0\.0\.1:\d+/.exec(log)?.[0];
  }, 'the address of VS Code', DEADLINE).catch((error) => {
    throw new Error(`VS Code has not started:\n${log}`, { cause: error });
  });
  await until(async () => (await fetch(`${url}/healthz`)).ok, 'the answer of VS Code', DEADLINE);
  return {
    url, mark, data, home, extensions, stop, pid: child.pid, log: () => log,
    /** What the extension has reported so far. */
    events: () => read(events),
    /** What the hosts of extensions have logged. */
    hostLogs: () => logs(join(data, 'logs')),
    /** Whether a text is in what the extension keeps on the disk. */
    keeps: (text) => kept(join(data, 'User'), text),
    /** The processes of this VS Code whose command line contains a text. */
    processes: (text) => marked(mark).filter((it) => it.command.includes(text)),
  };
}

/** Runs a command of code-server to its end. */
async function finished(words, env) {
  const child = spawn(process.execPath, words, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let log = '';
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text) => { log += text; });
  const code = await new Promise((done) => child.once('close', done));
  assert.equal(code, 0, log);
  return log;
}

/** The lines of a file of JSON lines. The last one may be incomplete. */
function read(path) {
  if (!existsSync(path)) return [];
  return readFileSync(path, 'utf8').split('\n').slice(0, -1).map((line) => JSON.parse(line));
}

/** Whether a file of the storage of the extension contains a text. */
function kept(folder, text) {
  const names = readdirSync(folder, { recursive: true }).filter((it) => it.includes(EXTENSION_ID) && it.endsWith('.json'));
  return names.some((it) => readFileSync(join(folder, it), 'utf8').includes(text));
}

function logs(folder) {
  if (!existsSync(folder)) return '';
  const names = readdirSync(folder, { recursive: true }).filter((it) => it.endsWith('exthost.log'));
  return names.map((it) => `--- ${it}\n${readFileSync(join(folder, it), 'utf8')}`).join('\n');
}
