// The helpers of the tests in a real VS Code: windows, the chat, panels, comments, outputs and messages.
//
// Everything that a test opens is closed at its end if the test passes its context: `openWindow(server, { t, … })`.
// A helper waits for a fact, with a deadline, and never for an amount of time.

import assert from 'node:assert/strict';
import { readlinkSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import nodeTest from 'node:test';
import { atEnd, browser, once, picture, project, soon } from '../../../web/test/harness.mjs';
import { until as untilTrue } from '../../../web/test/until.mjs';
import { DEADLINE, EXTENSION_ID, startServer } from './server.mjs';

export { atEnd, program, project, root } from '../../../web/test/harness.mjs';
export { DEADLINE, EXTENSION_ID, extension, startServer } from './server.mjs';

/** Waits until `fact` returns something true, and returns it. `fact` may fail until then. */
export const until = (fact, what, deadline = DEADLINE) => untilTrue(fact, what, deadline);

/** A test that ends at the latest after some minutes: a promise that nobody keeps would stop all others. */
export const test = (name, body) => nodeTest(name, { timeout: 10 * DEADLINE }, body);

let shared;

/** One VS Code for all tests of a file. It is ended after the last one. */
export const server = () => (shared ??= startServer());

const FILES = {
  'README.md': '# Greeter\n\nSays hello.\n',
  'src/main.rs': 'fn main() {\n    println!("Hello");\n}\n',
  'src/math.js': 'function add(a, b) {\n  return a + b;\n}\nconst three = add(1, 2);\nconsole.log(add(three, 4));\n',
};

/**
 * Opens a window of VS Code on a temporary project with these files. `settings` are those of the project. `workspace` is
 * the path of a file of a workspace instead. At the end, no program may be left that runs in the
 * project. `expose` has functions that the page may call.
 */
export async function openWindow(server, {
  t, files = FILES, settings, folder, workspace, width = 1440, height = 1000, query = '',
  ready = '.activitybar a.action-label[aria-label^="Conductor"]', expose = {},
} = {}) {
  const path = folder ?? (workspace ? null : await project({ t, files }));
  if (settings) {
    await mkdir(join(path, '.vscode'), { recursive: true });
    await writeFile(join(path, '.vscode/settings.json'), JSON.stringify(settings, null, 2));
  }
  const page = await (await contextOf(server)).newPage();
  await page.setViewportSize({ width, height });
  const window = new Window(server, page, path);
  const close = once(async () => {
    // A page that is left ends the host of the extensions at once. A closed one would wait to be connected again.
    if (!page.isClosed()) await page.goto('about:blank');
    await soon(page.close());
    if (path) await nothingRunsIn(server, path);
  });
  window.close = close;
  atEnd(t, async () => {
    if (t && !t.passed && !page.isClosed()) await window.explain(t.name);
    await close();
  });
  for (const [name, call] of Object.entries(expose)) await page.exposeFunction(name, call);
  const address = workspace ? `workspace=${encodeURIComponent(workspace)}` : `folder=${encodeURIComponent(path)}`;
  await page.goto(`${server.url}/?${address}${query}`);
  if (ready) await page.waitForSelector(ready);
  if (workspace) await hasFolders(page);
  return window;
}

/**
 * Waits until the folders of a workspace are shown. This VS Code now and then reads the file of a workspace before it can,
 * and shows no folder until it is loaded again.
 */
async function hasFolders(page) {
  await until(async () => {
    const row = page.locator('.explorer-folders-view .monaco-list-row').first();
    const shown = await row.waitFor({ timeout: DEADLINE / 6 }).then(() => true, () => false);
    if (!shown) await page.reload();
    return shown;
  }, 'the folders of the workspace');
}

/** The windows of a VS Code share a context of the browser, so that they share its cache. */
async function contextOf(server) {
  server.context ??= browser().then((it) => it.newContext({
    reducedMotion: 'reduce', deviceScaleFactor: 1, locale: 'en-GB', timezoneId: 'UTC',
  }));
  const context = await server.context;
  context.setDefaultTimeout(DEADLINE);
  return context;
}

/**
 * One window for several tests, because a window takes seconds to open. `open` makes `{ window, … }`. After a failed test,
 * the next one gets a new window.
 */
export function sharedWindow(open) {
  let current;
  return async (t) => {
    current ??= open();
    const opened = current;
    const made = await opened;
    made.window.forget();
    atEnd(t, async () => {
      if (t.passed) return;
      if (current === opened) current = undefined;
      await made.window.explain(t.name);
      await made.window.close();
    });
    return made;
  };
}

/** Checks that no program of this VS Code runs in a folder any more. */
async function nothingRunsIn(server, folder) {
  const inside = ({ pid }) => {
    try {
      return readlinkSync(`/proc/${pid}/cwd`).startsWith(folder);
    } catch {
      return false; // It has ended.
    }
  };
  let left = [];
  await untilTrue(() => (left = server.processes('').filter(inside)).length === 0, 'the end of all programs', DEADLINE).catch(() => {});
  assert.deepEqual(left, [], 'programs are left after the window was closed');
}

/** Waits until a page of the extension shows everything that it knows, if it is shown and has a connection. */
async function isQuiet(frame) {
  for (let it = frame; it.parentFrame(); it = it.parentFrame()) {
    if (!(await (await it.frameElement()).isVisible())) return;
  }
  const isLive = () => (document.querySelector('[data-state]')?.dataset.state ?? 'live') === 'live';
  if (await frame.evaluate(isLive)) await frame.evaluate(() => globalThis.__idle?.());
}

/** Waits until the first diagram of a panel is a picture. */
export async function drawn(frame) {
  const image = frame.locator('.x-diagram img').first();
  await image.waitFor();
  await until(() => image.evaluate(async (it) => (await it.decode(), it.naturalWidth > 0)), 'the diagram');
}

/** A window of VS Code. */
export class Window {
  constructor(server, page, folder) {
    this.server = server;
    this.page = page;
    this.folder = folder;
    this.forget();
  }

  /** From now on, `events` has only what comes later. */
  forget() {
    this.earlier = this.server.events().length;
  }

  /** What the extension has reported since the window was opened. */
  events(kind) {
    const all = this.server.events().slice(this.earlier);
    return kind ? all.filter((it) => it.event === kind) : all;
  }

  /** Waits until the extension has reported an event of this kind for which `fact` is true. */
  async event(kind, fact = () => true) {
    try {
      return await until(() => this.events(kind).find(fact), `the event ${kind}`);
    } catch (error) {
      throw new Error(`no event ${kind}. There are:\n${this.events().map((it) => JSON.stringify(it)).join('\n')}`, { cause: error });
    }
  }

  /** Runs a command by its title in the palette. */
  async command(title) {
    await this.quick('F1', `>${title}`, title);
  }

  /** Opens a file by its name. */
  async openFile(name) {
    await this.quick('Control+p', name, name.split('/').at(-1));
    await this.page.locator('.tab.active', { hasText: name.split('/').at(-1) }).waitFor();
    await this.page.locator('.editor-instance .monaco-editor.focused .view-lines').first().waitFor();
  }

  /** Opens a list at the top by a key, writes this text, and clicks this row once. */
  async quick(key, text, row) {
    const input = this.page.locator('.quick-input-widget input.input');
    await this.page.evaluate(() => {
      window.clickedRow = false;
      window.noticesRows ??= addEventListener('click', ({ target }) => {
        if (target instanceof Element && target.closest('.quick-input-list .monaco-list-row')) window.clickedRow = true;
      }, { capture: true }) ?? true;
    });
    await until(async () => {
      // A click may arrive although it was given up. What it has opened is no list to write this text into.
      if (await this.page.evaluate(() => window.clickedRow)) return true;
      // A key that is pressed while a page of the extension starts may get lost, and such a page may take the focus.
      if (!(await input.isVisible())) await this.page.keyboard.press(key);
      await input.fill(text, { timeout: DEADLINE / 12 });
      const shown = await this.row(row).waitFor({ timeout: DEADLINE / 6 }).then(() => true, () => false);
      if (shown) await this.row(row).click({ timeout: DEADLINE / 6 });
      // The list may be older than the row. The same text would not change it, so it is opened anew.
      else await this.page.keyboard.press('Escape');
      return shown;
    }, `the row ${row} of the palette`, 2 * DEADLINE);
    await until(async () => !(await input.isVisible()) || (await input.inputValue()) !== text, 'the end of the palette');
  }

  /** A row of the list that is shown at the top: of the palette, of files, or of a choice of the extension. */
  row(text) {
    return this.page.locator('.quick-input-list .monaco-list-row', { hasText: text }).first();
  }

  /** Chooses a row of the list at the top. */
  async choose(text) {
    await this.row(text).click();
  }

  /** Shows the chat in the side bar, and returns its page when that shows the state. */
  async openChat() {
    await this.page.locator('.activitybar a.action-label[aria-label^="Conductor"]').click();
    const chat = this.chat();
    // On a busy machine, the frame of a webview now and then stays empty. VS Code has a command for this case.
    await chat.locator('body :visible').first().waitFor({ timeout: DEADLINE / 4 })
      .catch(() => this.command('Developer: Reload Webviews'));
    return chat;
  }

  /** The page of the chat in the side bar. */
  chat() {
    return this.webview('[src*="purpose=webviewView"]');
  }

  /** Shows the chat, and waits until the chain can be used. */
  async startChat() {
    const chat = await this.openChat();
    await this.event('chain', (it) => it.state === 'running');
    await chat.getByLabel('Message', { exact: true }).waitFor();
    return chat;
  }

  /** Begins a new session in the chat, and shows it. */
  async newSession(chat = this.chat()) {
    const shown = this.events('session shown').length;
    await this.command('Conductor: New Session');
    await until(() => this.events('session shown').length > shown, 'the new session');
    await chat.locator('.message').first().waitFor({ state: 'detached' });
  }

  /** Writes a message in the chat and sends it. */
  async send(text, chat = this.chat()) {
    const composer = chat.getByLabel('Message', { exact: true });
    await composer.fill(text);
    // While the page has no connection to the chain, it does not send.
    await chat.locator('.send:not([aria-disabled="true"])').waitFor();
    await composer.press('Enter');
  }

  /** Sends a message, and waits until the agent has ended its turn. */
  async ask(text, chat = this.chat()) {
    const turns = this.events('turn').length;
    await this.send(text, chat);
    await until(() => this.events('turn').length > turns, 'the end of the turn');
    await chat.locator('.stop').waitFor({ state: 'detached' });
  }

  /** Waits until the conversation matches. The page shows it a moment after the extension has reported it. */
  async told(expression, chat = this.chat()) {
    let text = '';
    await until(async () => expression.test(text = await chat.locator('.conversation').innerText()), 'the text').catch(() => {});
    assert.match(text, expression);
  }

  /** The page of the tab that is shown: a panel, or the chat in a tab. */
  panel() {
    return this.webview(':not([src*="purpose=webviewView"]):visible');
  }

  /** The content of a webview of the extension. Its frames do not lie inside the view. */
  webview(more) {
    const outer = this.page.locator(`iframe.webview.ready[src*="extensionId=${EXTENSION_ID}"]${more}`);
    return outer.contentFrame().locator('iframe#active-frame').contentFrame();
  }

  /** A tab of an editor group. */
  tab(title) {
    return this.page.locator('.tabs-container .tab', { hasText: title });
  }

  /** Closes a tab by its button. */
  async closeTab(title) {
    const tab = this.tab(title).first();
    await tab.hover();
    await tab.locator('.tab-actions a.action-label').click();
  }

  /** A thread of comments that contains a text. */
  thread(text) {
    return this.page.locator('.review-widget', { hasText: text });
  }

  /** Replies to a thread of comments. */
  async reply(thread, text) {
    const button = thread.locator('.review-thread-reply-button');
    const editor = thread.locator('.comment-form .monaco-editor');
    await until(async () => {
      if (await editor.and(this.page.locator('.focused')).isVisible()) return true;
      const place = await button.isVisible() ? button : editor;
      await place.click({ timeout: 2_000 });
      return false;
    }, 'the place for a reply');
    await this.page.keyboard.type(text);
    await thread.locator('.form-actions a.monaco-button', { hasText: 'Reply' }).click();
  }

  /** The text of the output that is shown: the lines that are in view. */
  async output() {
    const text = await this.page.locator('.output-view .view-lines').innerText();
    return text.replaceAll('\u00a0', ' ');
  }

  /** A message at the edge of the window. */
  toast(text) {
    return this.page.locator('.notification-toast', { hasText: text });
  }

  /** Presses a button of a message. The message may have hidden itself: then it is in the list of messages. */
  async press(text, button) {
    const inToast = this.toast(text).locator('.monaco-button', { hasText: button });
    const list = this.page.locator('.notifications-center');
    const inList = list.locator('.notification-list-item', { hasText: text }).locator('.monaco-button', { hasText: button });
    await until(async () => {
      if (await inToast.isVisible()) await inToast.click({ timeout: 2_000 });
      else if (await inList.isVisible()) await inList.click({ timeout: 2_000 });
      else {
        if (!(await list.isVisible())) await this.page.locator('.statusbar-item#status\\.notifications').click({ timeout: 2_000 });
        return false;
      }
      return true;
    }, `the button ${button} of the message ${text}`);
  }

  /** A button of the dialog in the middle of the window. */
  dialog(button) {
    return this.page.locator('.monaco-dialog-box .monaco-button', { hasText: button });
  }

  /** Waits until the texts of the editor that is shown contain a text. */
  async shows(text) {
    await until(async () => {
      const all = await this.page.locator('.editor-instance .view-lines').allInnerTexts();
      return all.some((it) => it.replaceAll('\u00a0', ' ').includes(text));
    }, `the text ${text} in an editor`);
  }

  /** Loads the window anew, as the command "Reload Window" does. */
  async reload() {
    await this.page.reload();
    await this.page.waitForSelector('.monaco-workbench .activitybar a.action-label');
  }

  /** Waits until the pages of the extension that are shown show everything that they know. A hidden page never draws. */
  async quiet() {
    await Promise.all(this.page.frames().map((frame) => soon(isQuiet(frame))));
  }

  /** Writes a picture for people. Returns its path. */
  async picture(name, options) {
    await this.quiet();
    // Nothing is explained below the pointer.
    await this.page.mouse.move(300, 16);
    await this.page.locator('.workbench-hover-container:visible').waitFor({ state: 'detached' });
    return picture(this.page, `vscode-${name}`, options);
  }

  /** Writes what a person needs to understand a failure. */
  async explain(name) {
    const path = await this.picture(`failed-${name.replaceAll(/[^\w]+/g, '-').slice(0, 60)}`).catch(() => 'no picture');
    const events = this.events().slice(-60).map((it) => JSON.stringify(it)).join('\n');
    console.log(`picture: ${path}\nevents:\n${events}\n${this.server.hostLogs()}`);
  }
}
