// The chat of the VS Code extension in a played VS Code: looks, what survives, what it posts, and what it takes.
import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { axe, picture, until } from './harness.mjs';
import { openPage, startVsCode } from './vscode-server.mjs';
import { themes } from './vscode-themes.mjs';

let server;
before(async () => {
  server = await startVsCode();
});
after(() => server?.close());

const chat = (t, options) => openPage(server, 'chat', { t, width: 300, height: 720, state: 'done', ...options });

/** A state, and what shows that it is there. */
const states = {
  done: '.message.note', empty: '.examples', none: '.examples', streaming: '.queued', permission: '[data-permission]',
  suspicious: '.suspicious', error: '.error-card', starting: '[data-bar="starting"]', ended: '[data-bar="ended"]',
  login: '.logins',
};

/** Nothing is wider than the window, and no button is cut by its edge. */
async function fits(frame) {
  const wide = await frame.evaluate(() => {
    const inside = (element) => element.closest('.code, .ansi, .diff-lines, .md-table, .diagram-picture, .hidden-text, .skip') === null;
    const shown = [...document.querySelectorAll('button, p, h1, h2, input, textarea, .column')].filter(inside)
      .filter((element) => element.getClientRects().length > 0);
    return shown.filter((element) => element.getBoundingClientRect().right > innerWidth + 0.5 || element.getBoundingClientRect().left < -0.5)
      .map((element) => `${element.tagName} ${element.className} ${element.textContent.slice(0, 40)}`);
  });
  assert.deepEqual(wide, [], 'these parts do not fit');
}

/** The page has drawn what it knows, and has put the caret where it belongs. */
const drawn = (frame) => frame.evaluate(() => new Promise((done) => { requestAnimationFrame(() => requestAnimationFrame(done)); }));

for (const theme of Object.keys(themes)) {
  test(`every state is accessible and fits, ${theme}`, async (t) => {
    for (const width of [300, 900]) {
      const shown = Object.entries(states).filter(([state]) => width === 300 || theme === 'dark' || state === 'permission');
      // One window for all states. Each has a page of its own in it.
      const { page, host, show } = await chat(t, { state: shown[0][0], theme, width, place: width === 300 ? 'sidebar' : 'editor' });
      for (const [state, sign] of shown) {
        await host('forget');
        await host('begin', state);
        const frame = await show();
        await frame.waitForSelector(sign);
        await axe(page, { frame });
        await fits(frame);
        if (process.env.CONDUCTOR_PICTURES) await picture(page, `vscode-${state}-${width}-${theme.replace(' ', '-')}`);
      }
      await page.check();
    }
  });
}

test('the list of sessions, the menus, the keys and the edits are accessible and fit', async (t) => {
  const { page, frame } = await chat(t, { state: 'permission', theme: 'light' });
  const check = async (name) => {
    await axe(page, { frame });
    await fits(frame);
    if (process.env.CONDUCTOR_PICTURES) await picture(page, `vscode-${name}`);
  };
  await frame.getByRole('button', { name: 'Sessions, 1 with a question' }).click();
  await frame.waitForSelector('.sessions.drawer:not([hidden])');
  await check('sessions');
  await page.keyboard.press('Escape');
  await frame.waitForSelector('.sessions.drawer', { state: 'hidden' });
  await frame.getByRole('button', { name: 'More' }).click();
  await frame.waitForSelector('[role="menu"]');
  await check('menu');
  await frame.getByRole('menuitem', { name: 'Keys' }).click();
  await frame.waitForSelector('dialog.help');
  assert.ok(!(await frame.textContent('dialog.help')).includes('Ctrl+K'), 'keys of VS Code are not listed');
  await check('keys');
  await page.keyboard.press('Escape');
  await frame.getByRole('button', { name: 'Mode: Ask first' }).click();
  await frame.waitForSelector('[role="menu"]');
  await check('mode');
  await page.keyboard.press('Escape');
  await frame.getByRole('button', { name: '1 edit to review' }).click();
  await frame.waitForSelector('dialog.edits');
  await check('edits');
  await page.keyboard.press('Escape');
  await frame.locator('#composer').fill('@r');
  await frame.waitForSelector('[role="listbox"]');
  await check('files');
});

test('a message is sent, and the answer is shown while it grows', async (t) => {
  const { page, frame, host, asked } = await chat(t, { state: 'empty' });
  await frame.locator('#composer').fill('Explain the router');
  await page.keyboard.press('Enter');
  await until(async () => (await asked('prompt')).length === 1, 'the prompt');
  assert.deepEqual(await asked('prompt'), [{ op: 'prompt', session: 's1', text: 'Explain the router', attachments: [] }]);
  await host('put', 'session/s1', 'u1', { kind: 'user', text: 'Explain the router', attachments: [], queued: false, time: 1 });
  await host('put', 'session/s1', 'a1', { kind: 'agent', text: 'It', open: true, time: 1, blocks: [] });
  await frame.waitForSelector('.md-open');
  await host('append', 'session/s1', 'a1', ' keeps **one table**.');
  await frame.waitForSelector('.md strong');
  assert.equal(await frame.textContent('.message.agent .md'), 'It keeps one table.');
});

test('the shown session, drafts and the reading place survive when the page is thrown away', async (t) => {
  const it = await chat(t, {
    state: 'long', height: 500,
    begin: (host) => host('setTheme', themes.light),
  });
  await it.host('put', 'session/s3', 'u1', { kind: 'user', text: 'The other one', attachments: [], queued: false, time: 1 });
  await it.frame.waitForSelector('.message');
  await it.frame.locator('#composer').fill('Half a sen');
  // Up to a row in the middle, with a part of it out of view.
  await it.frame.locator('.earlier button').click();
  await it.frame.locator('article[data-id="e250"]').evaluate((row) => {
    const box = row.closest('.conversation');
    box.scrollTop += row.getBoundingClientRect().top - box.getBoundingClientRect().top + 7;
  });
  const place = () => it.frame.evaluate(() => {
    const box = document.querySelector('.conversation');
    const top = box.getBoundingClientRect().top;
    const row = [...box.querySelectorAll('article')].find((one) => one.getBoundingClientRect().bottom > top + 1);
    return { row: row.dataset.id, below: Math.round(row.getBoundingClientRect().top - top) };
  });
  // The rows around get their heights now, which moves the view. What is kept is what is seen in the end.
  let before;
  await until(async () => {
    before = await place();
    await drawn(it.frame);
    return isDeepStrictEqual(before, await place()) && isDeepStrictEqual((await it.host('state'))?.places?.s1, before);
  }, 'the kept place');
  await until(async () => (await it.host('state'))?.drafts?.s1?.text === 'Half a sen', 'the kept draft');

  it.frame = await it.show();
  await it.frame.waitForSelector(`article[data-id="${before.row}"]`);
  await until(async () => isDeepStrictEqual(await place(), before), 'the same place')
    .catch(async () => assert.deepEqual(await place(), before));
  assert.equal(await it.frame.locator('#composer').inputValue(), 'Half a sen');
  assert.equal(await it.frame.getAttribute('.conversation', 'data-following'), 'false');

  // Another session is shown, then the page is made again.
  await it.host('send', { command: 'showSession', session: 's3' });
  await it.frame.waitForSelector('text=The other one');
  await until(async () => (await it.host('state'))?.session === 's3', 'the kept session');
  it.frame = await it.show();
  await it.frame.waitForSelector('text=The other one');
  assert.equal(await it.frame.textContent('h1'), 'Rename Seat to Place');
  assert.equal(await it.frame.locator('#composer').inputValue(), '');
  assert.equal(await it.frame.getAttribute('.conversation', 'data-following'), 'true');
});

test('attachments and mentions of a draft survive, and what was sent does not come back', async (t) => {
  const it = await chat(t);
  await it.frame.waitForSelector('.message');
  await it.frame.locator('[data-attach]').setInputFiles({ name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from('some notes') });
  await it.frame.waitForSelector('.composer-chips');
  await it.host('send', { command: 'insert', path: 'src/my file.rs' });
  await until(async () => (await it.host('state'))?.drafts?.s1?.mentioned?.length === 1, 'the kept mention');
  it.frame = await it.show();
  await it.frame.waitForSelector('.composer-chips');
  await until(async () => (await it.frame.locator('#composer').inputValue()) === '@src/my file.rs ', 'the draft');
  await it.frame.locator('#composer').press('Enter');
  await until(async () => (await it.asked('prompt')).length === 1, 'the prompt');
  assert.deepEqual((await it.asked('prompt'))[0].attachments, [
    { attach: 'text', name: 'notes.txt', text: 'some notes' }, { attach: 'file', path: 'src/my file.rs' },
  ]);
  await until(async () => (await it.host('state'))?.drafts?.s1 === undefined, 'no draft');
  it.frame = await it.show();
  await it.frame.waitForSelector('.message');
  assert.equal(await it.frame.locator('#composer').inputValue(), '');
});

test('a state of another version, or of nobody, is not used', async (t) => {
  for (const state of ['{"v":2,"session":"s3"}', '{"v":1,"session":7,"drafts":{"s1":{"text":1},"s2":null},"places":{"s1":{"row":1}}}', '"x"', '[]']) {
    const { page, frame } = await chat(t, { begin: (_host, it) => it.evaluate((text) => window.playedPost('state', text), state) });
    await frame.waitForSelector('.message');
    assert.equal(await frame.textContent('h1'), 'Make errors of the router visible');
    await page.check();
  }
});

test('files, changes, panels and the log are opened by VS Code', async (t) => {
  const { frame, host, posted } = await chat(t, { width: 600 });
  await host('put', 'panels', 'p1', { kind: 'panel', label: 'Walkthrough', contents: '', front: 1 });
  await frame.waitForSelector('.message');
  await frame.locator('.md-file').first().click();
  await frame.locator('.tool-places .file-link').click();
  await frame.locator('.tool-diff .file-link').click();
  await frame.getByRole('button', { name: 'Show the changes of src/router.rs in the editor' }).click();
  await frame.getByRole('button', { name: 'Panels, 1' }).click();
  await frame.getByRole('menuitem', { name: 'Walkthrough' }).click();
  for (const name of ['Show the log', 'Restart the chain', 'Choose a chain']) {
    await frame.getByRole('button', { name: 'More' }).click();
    await frame.getByRole('menuitem', { name }).click();
  }
  await until(async () => (await posted()).length >= 8, 'all messages');
  const messages = await posted();
  const [diff] = messages.splice(3, 1);
  assert.deepEqual(messages, [
    { host: 'openFile', path: 'src/router.rs', line: 41 }, { host: 'openFile', path: 'src/router.rs', line: 41 },
    { host: 'openFile', path: 'src/router.rs' }, { host: 'openPanel', id: 'p1' }, { host: 'showLog' },
    { host: 'command', command: 'conductor.start' }, { host: 'command', command: 'conductor.chooseChain' },
  ]);
  assert.deepEqual(Object.keys(diff).sort(), ['host', 'new', 'old', 'path']);
  assert.equal(diff.host, 'openDiff');
  assert.match(diff.old, /^fn on_request\(&mut self, id: Id\) \{/);
  assert.match(diff.new, /Result<\(\), Error>/);
});

test('a chain that has ended says why, and can be started again', async (t) => {
  // A conversation stays readable.
  const one = await chat(t, { state: 'ended' });
  await one.frame.waitForSelector('.bar[data-bar="ended"]');
  assert.ok(await one.frame.locator('.message').count() > 0);
  // Without a conversation, the reason takes its place.
  const two = await chat(t, { state: 'starting' });
  await two.host('put', 'chain', 'chain', {
    kind: 'chain', state: 'ended', components: ['demo-agent'], agent: null, error: 'demo-agent was not found. Install it.',
    canLoad: false, images: false, logins: [],
  });
  await two.frame.waitForSelector('.screen[data-bar="ended"]');
  assert.match(await two.frame.textContent('.screen'), /demo-agent was not found\. Install it\./);
  await axe(two.page, { frame: two.frame });
  for (const it of [one, two]) {
    for (const name of ['Restart', 'Choose a chain', 'Show the log']) {
      await it.frame.locator('[data-bar="ended"]').getByRole('button', { name }).click();
    }
    await until(async () => (await it.posted()).length >= 3, 'all messages');
    assert.deepEqual(await it.posted(), [
      { host: 'command', command: 'conductor.start' }, { host: 'command', command: 'conductor.chooseChain' }, { host: 'showLog' },
    ]);
  }
});

test('before there is a link, the page says so; after a break it goes on', async (t) => {
  const it = await chat(t, { begin: (_host, page) => page.evaluate(() => { window.host.answering = false; }) });
  await it.frame.waitForSelector('text=Starting Conductor…');
  await axe(it.page, { frame: it.frame });
  await it.page.evaluate(() => { window.host.answering = true; });
  await it.host('cut');
  await it.frame.waitForSelector('[data-state="live"] .message');
  await it.frame.locator('#composer').fill('Not lost');
  // The program is started again: the chat stays readable until then, and then everything is new.
  await it.page.evaluate(() => { window.host.answering = false; });
  await it.host('cut');
  await it.frame.waitForSelector('[data-bar="lost"]:has-text("Conductor is starting…")');
  assert.ok(await it.frame.locator('.message').count() > 0);
  await axe(it.page, { frame: it.frame });
  await it.page.evaluate(() => { window.host.answering = true; });
  await it.host('begin', 'empty');
  await it.host('cut');
  await it.frame.waitForSelector('.examples');
  assert.equal(await it.frame.locator('#composer').inputValue(), 'Not lost');
});

test('a conversation that gets another id stays in view', async (t) => {
  const { frame, host } = await chat(t);
  await frame.waitForSelector('.message');
  await host('move', 's1', 'new-id');
  await until(async () => (await host('state'))?.session === 'new-id', 'the new id');
  await frame.waitForSelector('.message.note');
  assert.equal(await frame.textContent('h1'), 'Make errors of the router visible');
});

test('a session that is only kept is shown again without being opened', async (t) => {
  const it = await chat(t);
  await it.frame.waitForSelector('.message');
  await until(async () => (await it.host('state'))?.session === 's1', 'the kept session');
  await it.host('put', 'sessions', 's1', { kind: 'session', title: 'Kept', cwd: '/', state: 'saved', time: 1 });
  it.frame = await it.show();
  await it.frame.waitForSelector('.message.note');
  assert.equal(await it.frame.textContent('h1'), 'Kept');
  await it.frame.evaluate(() => window.__idle());
  assert.deepEqual(await it.asked('openSession'), []);
});

test('commands of the extension', async (t) => {
  const { page, frame, host, asked, handled } = await chat(t, { state: 'streaming' });
  const composer = frame.locator('#composer');
  await frame.waitForSelector('.queued');
  await host('send', { command: 'focus' });
  await until(() => composer.evaluate((area) => area === document.activeElement), 'the focus');
  await host('send', { command: 'insert', text: 'fn main() {}' });
  await until(async () => (await composer.inputValue()) === 'fn main() {} ', 'the text');
  await drawn(frame);
  await page.keyboard.press('Home');
  await host('send', { command: 'insert', path: 'src/router.rs', lines: [3, 9] });
  await until(async () => (await composer.inputValue()) === '@src/router.rs:3-9 fn main() {} ', 'the mention');
  await drawn(frame);
  await page.keyboard.type('and ');
  assert.equal(await composer.inputValue(), '@src/router.rs:3-9 and fn main() {} ');
  await page.keyboard.press('Enter');
  await until(async () => (await asked('prompt')).length === 1, 'the prompt');
  assert.deepEqual((await asked('prompt'))[0].attachments, [{ attach: 'file', path: 'src/router.rs' }]);
  await host('send', { command: 'cancel' });
  await until(async () => (await asked('cancel')).length === 1, 'the cancel');
  await host('send', { command: 'sessions' });
  await frame.waitForSelector('.sessions.drawer:not([hidden])');
  await host('send', { command: 'newSession' });
  await until(async () => (await asked('newSession')).length === 1, 'the new session');
  await frame.waitForSelector('.sessions.drawer', { state: 'hidden' });
  await host('send', { command: 'showSession', session: 's4' });
  await until(async () => (await asked('openSession')).length === 1, 'the earlier session');
  // What is not a command is nothing.
  const nothing = [{ command: 'insert' }, { command: 'insert', path: 7 }, { command: 'showSession' }, { command: 'eval' }, 'x', null, [1]];
  await handled(nothing.length, async () => {
    for (const message of nothing) await host('send', message);
  });
  assert.equal((await asked('newSession')).length, 1);
  assert.equal((await asked('openSession')).length, 1);
});

test('a text that is inserted before the chat is there is not lost', async (t) => {
  const it = await chat(t, { begin: (_host, page) => page.evaluate(() => { window.host.answering = false; }) });
  await it.frame.waitForSelector('text=Starting Conductor…');
  await it.host('send', { command: 'insert', path: 'README.md' });
  await it.page.evaluate(() => { window.host.answering = true; });
  await it.host('cut');
  await it.frame.waitForSelector('.message');
  await until(async () => (await it.frame.locator('#composer').inputValue()) === '@README.md ', 'the text');
});

test('an edit is reviewed in the chat, too', async (t) => {
  const { frame, host, asked, posted } = await chat(t, { state: 'permission' });
  await frame.getByRole('button', { name: '1 edit to review' }).click();
  await frame.locator('dialog.edits .edit-path').click();
  await until(async () => (await posted()).length > 0, 'the message');
  assert.deepEqual(await posted(), [{ host: 'openDiff', path: 'src/a.rs', old: 'a\n', new: 'b\n' }]);
  await frame.getByRole('button', { name: 'Accept' }).click();
  await until(async () => (await asked('answerEdit')).length === 1, 'the answer');
  assert.deepEqual(await asked('answerEdit'), [{ op: 'answerEdit', edit: 'e1', accept: true }]);
  await host('remove', 'edits', 'e1');
  await frame.waitForSelector('dialog.edits', { state: 'detached' });
});

test('keys of VS Code are left to VS Code', async (t) => {
  const { page, frame } = await chat(t);
  await frame.waitForSelector('.message');
  await frame.evaluate(() => {
    window.keys = [];
    window.addEventListener('keydown', (event) => window.keys.push([event.key, event.defaultPrevented]));
  });
  for (const place of ['#composer', '.conversation', '.header button']) {
    await frame.locator(place).first().focus();
    for (const key of ['F1', 'Control+p', 'Control+Shift+P', 'Control+b', 'Control+j', 'Control+k', 'Control+Shift+F', 'F6', 'Shift+F6', 'Alt+1', 'Alt+m', 'F5', 'F12', 'Control+n']) {
      await page.keyboard.press(key);
    }
  }
  assert.deepEqual(await frame.evaluate(() => window.keys.filter(([, used]) => used)), []);
  assert.equal(await frame.locator('dialog').count(), 0);
});

test('nobody else can play the extension', async (t) => {
  const { page, frame, asked, handled } = await chat(t);
  await frame.waitForSelector('.message');
  const answered = await handled(4, () => page.evaluate(() => new Promise((done) => {
    // A frame without an origin, as ours are, that knows the window of the chat.
    const other = document.createElement('iframe');
    other.sandbox = 'allow-scripts';
    other.srcdoc = `<script>
      const chat = parent.frames[0];
      for (const message of [{ command: 'newSession' }, { command: 'insert', text: 'forged' }, { closed: true }, { frame: '[]' }]) chat.postMessage(message, '*');
      parent.postMessage('sent', '*');
    </script>`;
    addEventListener('message', (event) => { if (event.data === 'sent') done(true); });
    document.body.append(other);
  })));
  assert.ok(answered);
  await drawn(frame);
  assert.deepEqual(await asked('newSession'), []);
  assert.equal(await frame.locator('#composer').inputValue(), '');
  assert.equal(await frame.getAttribute('.page', 'data-state'), 'live');
  const second = await frame.evaluate(() => {
    try { return typeof acquireVsCodeApi(); } catch (error) { return error.message; }
  });
  assert.match(second, /acquired before/);
});

test('a diagram is drawn in the colours of the theme, and its library is loaded when it is needed', async (t) => {
  const it = await chat(t, { width: 500 });
  const loaded = [];
  it.page.on('request', (request) => loaded.push(new URL(request.url()).pathname));
  await it.frame.waitForSelector('.message');
  assert.ok(!loaded.includes('/mermaid.js'));
  await it.host('put', 'session/s1', 'm', { kind: 'agent', text: '```mermaid\ngraph LR; A-->B\n```', open: false, time: 1, blocks: [] });
  await it.frame.waitForSelector('figure.diagram img');
  assert.deepEqual(loaded.filter((path) => path === '/mermaid.js'), ['/mermaid.js']);
  const image = () => it.frame.getAttribute('figure.diagram img', 'src');
  const dark = await image();
  assert.ok(await it.frame.locator('figure.diagram img').evaluate((img) => img.decode().then(() => img.naturalWidth > 40)));
  await it.host('setTheme', themes.light);
  await until(async () => (await image()) !== dark, 'the diagram in light colours');
  assert.equal(await it.frame.getAttribute('html', 'data-theme'), 'light');
  assert.equal(await it.frame.evaluate(() => getComputedStyle(document.body).backgroundColor), 'rgb(248, 248, 248)');
  // Another theme of the same kind has other colours.
  const light = await image();
  await it.host('setTheme', { kind: 'vscode-light', colours: { ...themes.light.colours, foreground: '#663300' } });
  await until(async () => (await image()) !== light, 'the diagram in other light colours');
});
