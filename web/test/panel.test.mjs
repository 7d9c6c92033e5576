// Panels in a real browser: what is shown, what widgets send, with the mouse and with the keyboard, and the limits.
import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { axe, open, picture, until } from './harness.mjs';
import { walkthrough } from './panel-cases.mjs';
import { settle } from './panel-scripts.mjs';
import { buildPages, servePages } from './panel-server.mjs';

let pages;
let server;
before(async () => {
  pages = await buildPages();
  server = await servePages(pages.folder);
});
after(async () => {
  await server?.close();
  await pages?.remove();
});

/** axe reads style sheets by itself, and the policy of the frame stops it. */
const allow = [/connect-src \S*\/panel\/frame\.css/, /^console: Connecting to '\S*\/panel\/frame\.css'/];

async function panel(t, html, options = {}) {
  const page = await open(`${server.origin}/panel-test`, { t, width: 480, allow, ...options });
  await page.evaluate((it) => window.panelTest.fresh(it), html);
  await page.waitForSelector('.panel-frame[data-shown="true"]');
  const element = await page.waitForSelector('.panel-frame');
  return { page, frame: await element.contentFrame(), events: () => page.evaluate(() => window.panelTest.events) };
}

/** Waits for the next events. */
async function told(it, expected) {
  await until(async () => (await it.events()).length >= expected.length, 'the events').catch(() => {});
  assert.deepEqual(await it.events(), expected);
}

test('a harmless panel comes through whole', async (t) => {
  const { frame } = await panel(t, walkthrough);
  await frame.waitForSelector('.x-diagram img');
  assert.equal(await frame.title(), 'Walkthrough');
  const found = await frame.evaluate(() => ({
    text: document.body.innerText.replace(/\s+/g, ' '),
    file: document.querySelector('a.c-file').getAttribute('data-file'),
    line: document.querySelector('a.c-file').getAttribute('data-line'),
    href: document.querySelector('a[href]').getAttribute('href'),
    badges: [...document.querySelectorAll('.c-badge')].map((it) => it.className),
    keywords: [...document.querySelectorAll('.c-code .t-key')].map((it) => it.textContent),
    code: document.querySelector('.c-code').textContent,
    changes: [...document.querySelectorAll('.c-diff ins, .c-diff del')].map((it) => it.textContent.trim()),
    cells: [...document.querySelectorAll('th, td')].map((it) => it.textContent),
    widgets: [...document.querySelectorAll('[data-widget]')].map((it) => it.getAttribute('data-widget')),
    options: [...document.querySelectorAll('option')].map((it) => it.value),
    images: [...document.querySelectorAll('img')].map((it) => [it.alt, it.naturalWidth > 0]),
    placeholder: document.querySelector('.x-image').textContent,
    sends: document.querySelectorAll('.x-send').length,
  }));
  assert.match(found.text, /^How a request finds its way A message passes every proxy/);
  assert.deepEqual([found.file, found.line, found.href], ['src/router.rs', '41', 'https://example.com/docs']);
  assert.deepEqual(found.badges, ['c-badge c-ok', 'c-badge c-warn', 'c-badge c-err', 'c-badge']);
  assert.deepEqual(found.keywords.slice(0, 2), ['pub', 'fn']);
  assert.match(found.code, /pub fn route\(&mut self, request: Request\) -> Result<Seat, Error> \{\n/);
  assert.deepEqual(found.changes, ['-    self.send(Hello);', '+    self.send(Hello { version: 1 });', '+    self.flush();']);
  assert.deepEqual(found.cells, ['Component', 'Kind', 'brief', 'proxy']);
  assert.deepEqual(found.widgets, ['more', 'level', 'lang', 'ask', 'note', 'next', 'skip']);
  assert.deepEqual(found.options, ['rs', 'ts']);
  assert.deepEqual(found.images, [['Diagram: flowchart LR', true], ['Dot', true]]);
  assert.equal(found.placeholder, 'Image: Logo (not loaded: https://example.com/pixel.png)');
  assert.equal(found.sends, 2);
});

test('each widget sends its event when it is clicked', async (t) => {
  const it = await panel(t, walkthrough);
  const { frame } = it;
  const expected = [];
  const step = async (act, event) => {
    await act();
    expected.push(event);
    await told(it, expected);
  };
  await step(() => frame.click('a.c-file'), { path: 'src/router.rs', line: 41 });
  await step(() => frame.click('text=the notes'), { href: 'https://example.com/docs' });
  await step(() => frame.click('summary:has-text("What happens")'), { widget: 'more', event: 'toggle', value: true });
  await step(() => frame.click('summary:has-text("What happens")'), { widget: 'more', event: 'toggle', value: false });
  await step(() => frame.click('text=More detail'), { widget: 'level', event: 'choice', value: 'deep' });
  await frame.fill('input.c-input', 'Why?');
  await step(() => frame.click('input.c-input + .x-send'), { widget: 'ask', event: 'input', value: 'Why?' });
  assert.equal(await frame.textContent('.x-entry .x-note'), 'Sent');
  await step(() => frame.click('text=Next step'), { widget: 'next', event: 'click', value: '4' });
  await step(() => frame.click('text=Skip'), { widget: 'skip', event: 'click', value: null });
  assert.deepEqual(await frame.$$eval('.c-choice button', (all) => all.map((one) => one.getAttribute('aria-pressed'))), ['false', 'true']);
});

test('each widget can be used with the keyboard only', async (t) => {
  const it = await panel(t, walkthrough);
  const { page, frame } = it;
  await frame.waitForSelector('.x-diagram img');
  await page.focus('.panel-frame');
  const expected = [];
  const press = async (key, event) => {
    await page.keyboard.press(key);
    if (event) expected.push(event);
    await told(it, expected);
  };
  /** Tab to the element; the order of the way is the order of the HTML. */
  const way = [];
  const to = async (selector) => {
    for (let steps = 0; steps < 40; steps++) {
      await page.keyboard.press('Tab');
      const at = await frame.evaluate(() => document.activeElement?.outerHTML.slice(0, 60));
      way.push(at);
      if (await frame.evaluate((its) => document.activeElement?.matches(its), selector)) return;
    }
    assert.fail(`${selector} is not reached by Tab: ${way.join('\n')}`);
  };
  await to('a.c-file');
  await press('Enter', { path: 'src/router.rs', line: 41 });
  await to('a[href]');
  await press('Enter', { href: 'https://example.com/docs' });
  await to('pre.c-code');
  await to('.x-picture');
  await to('details.c-collapsible > summary');
  await press('Enter', { widget: 'more', event: 'toggle', value: true });
  await press('Space', { widget: 'more', event: 'toggle', value: false });
  await to('button[data-value="short"]');
  await press('Space', { widget: 'level', event: 'choice', value: 'short' });
  await to('select');
  await press('ArrowDown', { widget: 'lang', event: 'choice', value: 'ts' });
  await to('input.c-input');
  await page.keyboard.type('Why?');
  await press('Enter', { widget: 'ask', event: 'input', value: 'Why?' });
  await to('textarea.c-input');
  await page.keyboard.type('One');
  await press('Enter');
  await page.keyboard.type('Two');
  await press('Control+Enter', { widget: 'note', event: 'input', value: 'One\nTwo' });
  await to('button[data-widget="next"]');
  await press('Enter', { widget: 'next', event: 'click', value: '4' });
  await press('F6', { key: 'F6', shift: false });
  await press('Shift+F6', { key: 'F6', shift: true });
  await press('Escape', { key: 'Escape', shift: false });
});

test('what the user did stays when the component changes its panel', async (t) => {
  const { page, frame } = await panel(t, walkthrough);
  await frame.fill('textarea', 'Not sent yet');
  await frame.click('summary:has-text("What happens")');
  await frame.focus('textarea');
  await page.evaluate((html) => window.panelTest.show(html), walkthrough.replace('3 steps', '4 steps').replace('<h1>', '<p>New</p><h1>'));
  await frame.waitForSelector('text=4 steps');
  assert.equal(await frame.inputValue('textarea'), 'Not sent yet');
  assert.equal(await frame.evaluate(() => document.querySelector('details.c-collapsible').open), true);
  assert.equal(await frame.evaluate(() => document.activeElement?.localName), 'textarea');
});

test('many changes in a short time end with the last one', async (t) => {
  const { page, frame } = await panel(t, '<p>0</p>');
  await page.evaluate(() => {
    for (let i = 1; i <= 200; i++) setTimeout(() => window.panelTest.show(`<p>${i}</p>`), i);
  });
  await frame.waitForSelector('text=/^200$/');
  assert.equal(await page.locator('.panel-text').count(), 0, 'the frame is not stopped');
});

test('a key that is held down does not stop the panel', async (t) => {
  const it = await panel(t, '<button class="c-button" data-widget="a">A</button><button class="c-button" data-widget="b">B</button>');
  await it.frame.focus('button');
  for (let i = 0; i < 60; i++) await it.page.keyboard.down('Enter');
  await it.page.keyboard.up('Enter');
  await until(async () => (await it.events()).length >= 10, 'ten events');
  assert.equal(await it.page.locator('.panel-text').count(), 0, 'the frame is not stopped');
});

test('a button with data-submit sends what is written in the inputs', async (t) => {
  const it = await panel(t, `<input class="c-input" data-widget="a"><textarea class="c-input" data-widget="b"></textarea>
    <input class="c-input" data-widget="c"><button class="c-button" data-widget="done" data-submit>Done</button>
    <button class="c-button" data-widget="skip">Skip</button>`);
  await it.frame.fill('[data-widget=a]', 'Why?');
  await it.frame.fill('[data-widget=b]', 'Two\nlines');
  await it.frame.fill('[data-widget=c]', '  ');
  await it.frame.click('text=Skip');
  await it.frame.click('text=Done');
  const expected = [
    { widget: 'skip', event: 'click', value: null },
    { widget: 'done', event: 'click', value: null, inputs: { a: 'Why?', b: 'Two\nlines' } },
  ];
  await told(it, expected);
  assert.deepEqual(await it.frame.$$eval('.x-note', (all) => all.map((one) => one.textContent)), ['Sent', 'Sent', '']);
  await it.frame.fill('[data-widget=c]', 'x'.repeat(15_001));
  await it.frame.click('text=Done');
  assert.equal(await it.frame.textContent('[data-widget=c] ~ .x-note'), 'Too long');
  await it.frame.fill('[data-widget=c]', 'x'.repeat(15_000));
  await it.frame.click('text=Done');
  await told(it, [...expected, { widget: 'done', event: 'click', value: null, inputs: { a: 'Why?', b: 'Two\nlines', c: 'x'.repeat(15_000) } }]);
  assert.equal(await it.page.locator('.panel-text').count(), 0, 'the frame is not stopped');
});

test('a click with a value that is too long does nothing, and does not stop the panel', async (t) => {
  const long = 'x'.repeat(17 * 1024);
  const it = await panel(t, `<button class="c-button" data-widget="a" data-value="${long}">Long value</button>
    <button class="c-button" data-widget="${long}">Long name</button><a class="c-file" data-file="${long}">Long path</a>
    <button class="c-button" data-widget="b">Short</button>`);
  for (const text of ['Long value', 'Long name', 'Long path', 'Short']) await it.frame.click(`text=${text}`);
  await told(it, [{ widget: 'b', event: 'click', value: null }]);
  assert.equal(await it.page.locator('.panel-text').count(), 0, 'the frame is not stopped');
});

test('scripts in the frame cannot play the user', async (t) => {
  const it = await panel(t, '<button class="c-button" data-widget="a">A</button><a class="c-file" data-file="x.rs">x</a>');
  await it.frame.evaluate(() => {
    document.querySelector('button').click();
    document.querySelector('a').click();
    document.querySelector('button').dispatchEvent(new MouseEvent('click', { bubbles: true }));
  });
  await it.frame.click('button');
  await told(it, [{ widget: 'a', event: 'click', value: null }]);
});

test('a second init is ignored', async (t) => {
  const { page, frame } = await panel(t, '<p>first</p>');
  // After the listener of the frame, which is older.
  await frame.evaluate(() => addEventListener('message', () => { window.received = true; }));
  await page.evaluate(() => {
    const target = document.querySelector('.panel-frame').contentWindow;
    const channel = new MessageChannel();
    window.answers = 0;
    channel.port1.onmessage = () => { window.answers += 1; };
    target.postMessage({ kind: 'init', v: 1, panel: 'forged' }, '*', [channel.port2]);
    channel.port1.postMessage({ t: 'html', seq: 1, html: '<p>forged</p>' });
  });
  await frame.waitForFunction(() => window.received);
  await page.evaluate(() => window.panelTest.show('<p>second</p>'));
  await frame.waitForSelector('text=second');
  // What the frame has posted before this has come.
  await settle(page);
  assert.equal(await page.evaluate(() => window.answers), 0);
  assert.equal(await frame.locator('text=forged').count(), 0);
  assert.equal(await frame.title(), 'Walkthrough');
});

test('panels that are too large are shown as text', async (t) => {
  const page = await open(`${server.origin}/panel-test`, { t });
  await page.evaluate(() => window.panelTest.fresh(`<p>${'x'.repeat(1 << 20)}</p>`));
  await page.waitForSelector('.panel-text');
  assert.match(await page.textContent('.panel-text > p'), /larger than 1 MB/);
  assert.equal(await page.locator('iframe').count(), 0);
  for (const html of ['<b>x</b>'.repeat(20_001), '<i>'.repeat(200_000)]) {
    await page.evaluate((it) => window.panelTest.fresh(it), html);
    await page.waitForSelector('.panel-frame[data-shown="true"]');
    const frame = await (await page.waitForSelector('.panel-frame')).contentFrame();
    assert.match(await frame.textContent('.x-problem'), /more than 20,000 elements/);
    assert.equal(await frame.locator('main b, main i').count(), 0);
  }
  await page.evaluate(() => window.panelTest.fresh(`<div>${'<b>x</b>'.repeat(19_990)}</div>`));
  await page.waitForSelector('.panel-frame[data-shown="true"]');
  const frame = await (await page.waitForSelector('.panel-frame')).contentFrame();
  assert.equal(await frame.locator('main b').count(), 19_990);
});

const kinds = {
  flowchart: 'graph TD; A-->B', sequence: 'sequenceDiagram\n A->>B: hi', class: 'classDiagram\n A <|-- B',
  state: 'stateDiagram-v2\n [*] --> A', er: 'erDiagram\n A ||--o{ B : has', gantt: 'gantt\n dateFormat X\n section a\n b :0, 2',
  titled: '---\ntitle: T\n---\ngraph TD; A-->B',
};

test('six kinds of diagrams are drawn, other texts say why they are not', async (t) => {
  const bad = ['pie\n "a": 1', '%%{init: {"securityLevel": "loose"}}%%\ngraph TD; A-->B', '---\nconfig:\n  theme: dark\n---\ngraph TD; A-->B', 'graph TD; A--', ''];
  const html = [...Object.values(kinds), ...bad].map((text) => `<pre class="c-mermaid"><code>${text.replaceAll('>', '&gt;').replaceAll('<', '&lt;')}</code></pre>`).join('');
  const { frame, page } = await panel(t, html);
  await until(async () => (await frame.locator('.x-diagram img, .x-problem').count()) === 12, 'all diagrams');
  assert.equal(await frame.locator('.x-diagram img').count(), 7);
  assert.equal(await frame.locator('.x-problem').count(), 5);
  const sizes = await frame.$$eval('.x-diagram img', (all) => Promise.all(all.map(async (it) => (await it.decode(), it.naturalWidth))));
  assert.ok(sizes.every((width) => width > 40), String(sizes));
  const before = await frame.getAttribute('.x-diagram img', 'src');
  await page.evaluate(() => window.panelTest.setTheme('dark'));
  await until(async () => (await frame.getAttribute('.x-diagram img', 'src')) !== before, 'the diagram in dark colours');
});

test('a diagram that would keep the page busy is not drawn, in a panel and in a message', async (t) => {
  const slow = ['gantt\nexcludes 2020-01-05\na :2020-01-01, 90000000d', `classDiagram\n${Array.from({ length: 400 }, (_, i) => `A${i} -- B`).join('\n')}`];
  const texts = [...slow, kinds.flowchart];
  const block = (text) => `<pre class="c-mermaid"><code>${text.replaceAll('>', '&gt;')}</code></pre>`;
  const { frame, page } = await panel(t, texts.map(block).join(''));
  await until(async () => (await frame.locator('.x-diagram img, .x-problem').count()) === 3, 'all diagrams of the panel');
  assert.deepEqual(await frame.locator('.x-problem').count(), 2);
  const fenced = [...texts, ...Array(20).fill(kinds.flowchart)].map((text) => `- \`\`\`mermaid\n${text.replaceAll(/^/gm, '  ')}\n  \`\`\``);
  await page.evaluate((it) => window.panelTest.markdown(it, false), fenced.join('\n'));
  await until(async () => (await page.locator('.md .diagram img, .md .diagram-problem').count()) === 23, 'all diagrams of the message');
  const problems = await page.locator('.md .diagram-problem').allTextContents();
  assert.deepEqual(problems.map((text) => text.slice(0, 20)), ['With excludes, a cha', 'The diagram has more', ...Array(3).fill('A text can show 20 d')]);
});

for (const colorScheme of ['light', 'dark']) {
  for (const width of [480, 400]) {
    test(`a panel is accessible and fits, ${colorScheme}, ${width} px`, async (t) => {
      const { page, frame } = await panel(t, walkthrough, { colorScheme, width });
      await frame.waitForSelector('.x-diagram img');
      await frame.waitForSelector('.t-key');
      await axe(page, { frame });
      await axe(page);
      const wide = await frame.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wide <= 0, `the panel is ${wide} px too wide`);
      const colour = await frame.evaluate(() => getComputedStyle(document.body).backgroundColor);
      assert.equal(colour, colorScheme === 'dark' ? 'rgb(21, 24, 29)' : 'rgb(255, 255, 255)');
      await page.setViewportSize({ width, height: 1900 });
      await picture(page, `panel-${colorScheme}-${width}`);
    });
  }
}

test('a panel without headings, and one with wild headings, is accessible', async (t) => {
  const { page, frame } = await panel(t, '<p>Only text.</p><input class="c-input" data-widget="a"><progress value="1" max="3"></progress>');
  await axe(page, { frame });
  await page.evaluate(() => window.panelTest.show('<h4>Deep</h4><h2>Up</h2><h6>Far</h6><h1>Late</h1><table><tr><td>1</td></tr></table>'));
  await frame.waitForSelector('text=Late');
  await axe(page, { frame });
});

test('the frame by itself is accessible', async (t) => {
  const page = await open(`${server.origin}/panel/frame.html`, { t, allow });
  await page.evaluate((html) => new Promise((done) => {
    const channel = new MessageChannel();
    channel.port1.onmessage = ({ data }) => {
      if (data.t === 'ready') channel.port1.postMessage({ t: 'html', seq: 1, html });
      if (data.t === 'shown') done();
    };
    window.postMessage({ kind: 'init', v: 1, panel: 'Walkthrough' }, '*', [channel.port2]);
  }), walkthrough);
  await axe(page);
});

test('Markdown is accessible and fits', async (t) => {
  const text = ['# Title', 'Text with `code`, src/a.rs:12, [a link](https://example.com/x) and ![image](https://example.com/i.png).', '#### Deep', '- [x] done', '- [ ] open',
    '  1. nested', '', '> quote', '', '```rust', `fn main() { let x = "${'long '.repeat(40)}"; }`, '```', '', '| a | b |', '|---|--:|', '| 1 | 2 |', '', '<b>html</b>', '', '```mermaid', kinds.flowchart, '```', '', '---'].join('\n');
  for (const colorScheme of ['light', 'dark']) {
    const page = await open(`${server.origin}/panel-test`, { t, width: 400, colorScheme });
    await page.evaluate((it) => window.panelTest.markdown(it, false), text);
    await page.waitForSelector('.md .t-key');
    await page.waitForSelector('.md .diagram img');
    await axe(page);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'the text fits');
    await page.click('.md-file');
    assert.deepEqual(await page.evaluate(() => window.panelTest.events), [{ path: 'src/a.rs', line: 12 }]);
    assert.match(await page.textContent('.md'), /<b>html<\/b>/);
    await picture(page, `markdown-${colorScheme}`);
  }
});

test('the work that a panel causes in the page is limited, and not done again', async (t) => {
  const diagram = '<pre class="c-mermaid"><code>graph TD; A--&gt;B</code></pre>';
  const code = (text) => `<pre class="c-code" data-language="rust"><code>${text}</code></pre>`;
  const many = Array.from({ length: 22 }, (_, i) => diagram.replace('A', `A${i}`)).join('');
  const { page, frame } = await panel(t, `${many}${code(`fn small() {}\n`)}${code('fn large() {}\n'.repeat(10_000))}`);
  await until(async () => (await frame.locator('.x-diagram img, .x-problem').count()) === 22, 'all diagrams');
  assert.equal(await frame.locator('.x-diagram img').count(), 20);
  assert.match(await frame.textContent('.x-problem'), /can show 20 diagrams/);
  assert.deepEqual(await frame.$$eval('.c-code', (all) => all.map((it) => it.querySelector('.t-key') !== null)), [true, false]);
  // The same diagram in new HTML is there at once, as the same picture.
  await page.evaluate((html) => window.panelTest.fresh(html), diagram);
  const other = await (await page.waitForSelector('.panel-frame[data-shown="true"]')).contentFrame();
  await other.waitForSelector('.x-diagram img');
  await other.evaluate(() => {
    window.seen = [];
    new MutationObserver(() => window.seen.push(document.querySelector('.x-diagram img') !== null))
      .observe(document.querySelector('main'), { childList: true });
  });
  await page.evaluate((html) => window.panelTest.show(html), `<p>Second</p>${diagram}`);
  await other.waitForSelector('text=Second');
  assert.deepEqual(await other.evaluate(() => window.seen), [true]);
});
