// The helpers of the browser tests: the real program, one Chromium, checked pages, axe, temporary projects.
//
// Everything that a test opens is closed at its end if the test passes its context: `open({ t, … })`.
// A helper waits for a fact, with a deadline, and never for an amount of time.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { accessSync, constants, existsSync, readFileSync, readdirSync } from 'node:fs';
import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { after } from 'node:test';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';
import { browserOptions } from './chromium.mjs';
import { DEADLINE, until } from './until.mjs';

export const root = resolve(dirname(fileURLToPath(import.meta.url)), '../..');

export { DEADLINE, until };

// --- the program ---

/** The program under test. */
export function program() {
  const path = resolve(process.env.CONDUCTOR_BIN ?? join(root, 'target/debug/conductor'));
  accessSync(path, constants.X_OK);
  return path;
}

/**
 * Starts `conductor studio` and waits for the line with its address.
 * `stop()` ends it, and fails if the program fails or a process of it is left after the time `leaves`.
 */
export async function startStudio({ t, args = [], chain = ['demo-agent'], cwd, env = {}, leaves = DEADLINE } = {}) {
  const mark = `conductor-test-${randomUUID()}`;
  const words = ['studio', '--no-open', '--port', '0', ...(cwd ? ['--cwd', cwd] : []), ...args, '--', ...chain];
  const child = spawn(program(), words, {
    cwd: cwd ?? root,
    env: { ...process.env, ...env, CONDUCTOR_TEST_MARK: mark },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let log = '';
  const ended = new Promise((done) => {
    child.once('error', (error) => done(`did not start: ${error.message}`));
    // Not `close`: a process that is left keeps the pipes open.
    child.once('exit', (code, signal) => done(signal ?? code));
  });
  const stop = once(async () => {
    const alreadyEnded = child.exitCode !== null || child.signalCode !== null;
    child.kill('SIGTERM');
    const patience = setTimeout(() => child.kill('SIGKILL'), DEADLINE);
    const end = await ended;
    clearTimeout(patience);
    const left = await leftOver(mark, leaves);
    child.stdout.destroy();
    child.stderr.destroy();
    assert.deepEqual(left, [], `processes are left after the end of the program:\n${log}`);
    assert.ok(!alreadyEnded, `the program has ended by itself (${end}):\n${log}`);
    assert.ok(end === 0 || end === 'SIGTERM' || end === 143, `the program ended with ${end}:\n${log}`);
  });

  const url = await new Promise((found, failed) => {
    const patience = setTimeout(() => failed(new Error(`no address was printed:\n${log}`)), DEADLINE);
    let line = '';
    child.stdout.setEncoding('utf8').on('data', (text) => {
      log += text;
      line += text;
      const address = /http:\/\/127\.0\.0\.1:\d+\/studio#key=\S+(?=\s)/.exec(line);
      if (!address) return;
      clearTimeout(patience);
      found(address[0]);
    });
    child.stderr.setEncoding('utf8').on('data', (text) => { log += text; });
    ended.then((end) => {
      clearTimeout(patience);
      failed(new Error(`the program ended (${end}) before it printed an address:\n${log}`));
    });
  }).catch(async (error) => {
    await stop().catch(() => {});
    throw error;
  });
  atEnd(t, stop);
  const { origin, port, hash } = new URL(url);
  return { url, origin, port: Number(port), key: hash.replace('#key=', ''), pid: child.pid, stop, ended, log: () => log };
}

/** The processes that have inherited this mark, and have not ended in time. They are killed. */
export async function leftOver(mark, time = DEADLINE) {
  let left = [];
  await until(() => (left = marked(mark)).length === 0, 'the end of all processes', time).catch(() => {});
  for (const { pid } of left) {
    try { process.kill(pid, 'SIGKILL'); } catch { /* It has ended. */ }
  }
  return left.map((it) => `${it.pid} ${it.command}`);
}

/** The processes that have inherited this mark. */
export function marked(mark) {
  const found = [];
  for (const pid of readdirSync('/proc').filter((it) => /^\d+$/.test(it))) {
    try {
      if (!readFileSync(`/proc/${pid}/environ`, 'utf8').includes(mark)) continue;
      found.push({ pid: Number(pid), command: readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ') });
    } catch { /* It has ended, or belongs to another user. */ }
  }
  return found;
}

// --- the browser ---

let launched;

/** One Chromium for all tests of a run: that of run.mjs, or an own one. */
export function browser() {
  const server = process.env.CONDUCTOR_TEST_BROWSER;
  return (launched ??= server ? chromium.connect(server) : chromium.launch(browserOptions()));
}

// --- the end of a test ---

const running = new Set();

/** What each test has opened. */
const opened = new WeakMap();

/**
 * Calls `close` at the end of the test, or without one at the end of the file. What was opened last is closed first: a
 * page whose program has ended complains. Everything is closed, also after a failure.
 */
export function atEnd(t, close) {
  if (!t) {
    running.add(close);
    return;
  }
  const known = opened.get(t);
  if (known) {
    known.push(close);
    return;
  }
  const list = [close];
  opened.set(t, list);
  t.after(() => closeAll(list));
}

async function closeAll(list) {
  const failures = [];
  for (const close of [...list].reverse()) await close().catch((error) => failures.push(error));
  if (failures.length) throw failures.length === 1 ? failures[0] : new AggregateError(failures);
}

/** A function that works once. Only its first caller gets the error. */
export function once(work) {
  let done;
  return () => {
    if (done) return done.then(() => {}, () => {});
    return (done = work());
  };
}

after(async () => {
  try {
    await closeAll([...running]);
  } finally {
    if (launched) await soon((await launched).close());
  }
});

/**
 * Opens a page in a context of its own. At the end of the test it is checked: an error on the console, an exception,
 * a violation of the CSP, or a request to another host fails the test. `allow` has expressions for expected complaints.
 */
export async function open(url, { t, width = 1440, height = 900, colorScheme = 'light', allow = [], ...more } = {}) {
  const context = await (await browser()).newContext({
    viewport: { width, height }, colorScheme, reducedMotion: 'reduce', deviceScaleFactor: 1, locale: 'en-GB',
    timezoneId: 'UTC', ...more,
  });
  const complaints = [];
  const complain = (text) => { if (!allow.some((it) => it.test(text))) complaints.push(text); };
  const host = /^https?:/.test(url) ? new URL(url).host : null;
  const checkHost = (kind, address) => {
    const { protocol, host: other } = new URL(address);
    if (['data:', 'blob:', 'about:'].includes(protocol)) return;
    if (host && other !== host) complain(`${kind} to another host: ${address}`);
  };
  await context.exposeBinding('__violation', (_source, text) => complain(`CSP violation: ${text}`));
  await context.addInitScript(() => {
    const report = globalThis.__violation;
    document.addEventListener('securitypolicyviolation', (event) => {
      void report?.(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber} ${event.sample}`);
    });
  });
  context.on('request', (request) => checkHost('a request', request.url()));
  context.on('weberror', (error) => complain(`exception: ${error.error().stack ?? error.error()}`));
  context.on('console', (message) => {
    if (message.type() === 'error') complain(`console: ${message.text()} (${message.location().url})`);
  });
  context.on('page', (page) => page.on('websocket', (socket) => checkHost('a WebSocket', socket.url())));
  context.setDefaultTimeout(DEADLINE);
  if (host && new URL(url).pathname === '/studio') await useBuilt(context);

  const page = await context.newPage();
  const check = once(async () => {
    // What the page has said so far arrives before the answer to this.
    for (const it of context.pages()) await soon(it.evaluate(() => 0));
    await soon(context.close());
    assert.deepEqual(complaints, [], `the page complains:\n${complaints.join('\n')}`);
  });
  page.complaints = complaints;
  page.check = check;
  atEnd(t, check);
  if (url) await page.goto(url);
  return page;
}

/**
 * The program contains the built pages. While you work on them, `CONDUCTOR_TEST_DIST` names a folder with newer ones,
 * so that the program need not be compiled: they get the headers of the old ones.
 */
async function useBuilt(context) {
  const folder = process.env.CONDUCTOR_TEST_DIST;
  if (!folder) return;
  await context.route(/^http:\/\/[^/]+\/(studio|assets\/.*|panel\/.*)([?#].*)?$/, async (route) => {
    const path = new URL(route.request().url()).pathname.slice(1).replace(/^assets\//, '');
    const file = join(folder, path === 'studio' ? 'studio.html' : path);
    if (!existsSync(file)) return route.fallback();
    // The program may have ended.
    const response = await route.fetch().catch(() => null);
    return response ? route.fulfill({ response, body: readFileSync(file) }) : route.abort();
  });
}

/**
 * Waits for the browser to do this, but not longer than the deadline: Chromium sometimes never closes a page that is
 * leaving for an error page. What is left of it ends with the browser.
 */
export function soon(done) {
  let timer;
  const patience = new Promise((over) => { timer = setTimeout(over, DEADLINE); });
  return Promise.race([done.catch(() => {}), patience]).finally(() => clearTimeout(timer));
}

/** Opens the studio and waits until it is connected. */
export async function openStudio(studio, options = {}) {
  const page = await open(studio.url, options);
  await page.waitForSelector('[data-state="live"]', { state: 'attached' });
  return page;
}

/**
 * Waits until what has just come into view can be answered: until then, its buttons are disabled and look different.
 * Every check of how a page looks begins with this.
 */
export const settled = (frame) => frame.waitForSelector('[data-ready="false"]', { state: 'detached' });

const TAGS = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
let axeSource;

/** Checks the accessibility of a page, or of the part that `include` selects: no violation. */
export async function axe(page, { include, frame = page } = {}) {
  axeSource ??= readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
  await settled(frame);
  if (!await frame.evaluate(() => 'axe' in globalThis)) await frame.evaluate(axeSource);
  const violations = await frame.evaluate(async ({ tags, part }) => {
    const result = await globalThis.axe.run(part ?? document, { runOnly: tags, iframes: false, resultTypes: ['violations'] });
    return result.violations.flatMap((it) => it.nodes.map((node) =>
      `${it.id} (${it.impact}): ${node.target.join(' ')}\n    ${node.html.slice(0, 200)}\n    ${node.failureSummary}`));
  }, { tags: TAGS, part: include });
  assert.deepEqual(violations, [], `axe:\n${violations.join('\n')}`);
}

/** Checks that nothing makes the page wider than the window. */
export async function fits(page) {
  await settled(page);
  const wide = await page.evaluate(() => {
    if (document.documentElement.scrollWidth <= window.innerWidth) return [];
    return [...document.querySelectorAll('body *')].filter((it) => it.getBoundingClientRect().right > window.innerWidth + 1)
      .slice(0, 5).map((it) => `${it.tagName}.${it.className} ${Math.round(it.getBoundingClientRect().right)}`);
  });
  assert.deepEqual(wide, [], 'the page is wider than its window');
}

/** Checks that the text of the selected elements is not cut. */
export async function notCut(page, selector) {
  const cut = await page.locator(selector).evaluateAll((all) => all.filter((it) => it.scrollWidth > it.clientWidth + 1)
    .map((it) => `${it.className}: ${it.textContent.slice(0, 60)}`));
  assert.deepEqual(cut, [], 'text is cut');
}

/** Writes a picture of a page for people into `CONDUCTOR_PICTURES`, or into target/pictures. Returns its path. */
export async function picture(page, name, options = {}) {
  const folder = process.env.CONDUCTOR_PICTURES ?? join(root, 'target/pictures');
  await mkdir(folder, { recursive: true });
  const path = join(folder, `${name}.png`);
  await Promise.all(page.frames().map((frame) => settled(frame).catch((error) => { if (!frame.isDetached()) throw error; })));
  await page.evaluate(() => document.fonts.ready.then(() => 0));
  await page.screenshot({ path, animations: 'disabled', caret: 'hide', ...options });
  return path;
}

// --- projects ---

/** A temporary folder with these files: `{ 'src/a.rs': 'text' }`. A value `{ link: 'TARGET' }` is a symlink. */
export async function project({ t, files = {} } = {}) {
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'conductor-project-')));
  const remove = () => rm(folder, { recursive: true, force: true });
  atEnd(t, remove);
  for (const [name, content] of Object.entries(files)) {
    const path = join(folder, name);
    await mkdir(dirname(path), { recursive: true });
    if (content !== null && typeof content === 'object' && 'link' in content) await symlink(content.link, path);
    else await writeFile(path, content);
  }
  return folder;
}
