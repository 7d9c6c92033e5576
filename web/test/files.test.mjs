// The files of the studio, with the real program: tree, viewer, comments, edits, and paths that must not be shown.

import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { axe, fits, openStudio, picture, project, startStudio, until } from './harness.mjs';
import { scriptedAgent } from './scripted.mjs';

const source = `//! Greets people.

/// Says hello to a person.
pub fn greet(name: &str) -> String {
    let text = format!("Hello, {name}!");
    text
}

fn main() {
    println!("{}", greet("you"));
}
`;
const hostile = '<img src=x onerror=alert(1)>.txt';
const files = {
  'src/main.rs': source,
  'src/deep/er/inner.ts': 'export const inner = 1;\n',
  'README.md': '# A project\n\nText.\n',
  'empty.txt': '',
  'picture.bin': Buffer.from([0, 159, 146, 150]),
  'long.txt': Array.from({ length: 30_000 }, (_, i) => `line number ${i + 1}`).join('\n'),
  [hostile]: '<script>alert(1)</script>\n',
  'out.txt': { link: '/etc/passwd' },
  'out': { link: '/etc' },
};

/** A studio with a scripted agent, and a page that shows its files. */
async function start(t, options = {}) {
  const agent = await scriptedAgent({ t });
  const cwd = await project({ t, files });
  const studio = await startStudio({ t, cwd, chain: agent.chain });
  const page = await openStudio(studio, { t, ...options });
  if (options.width <= 480) await page.getByRole('button', { name: /^Files/ }).or(page.getByRole('tab', { name: /^Files/ })).first().click();
  await page.waitForSelector('[role=treeitem]');
  await idle(page);
  return { agent, cwd, studio, page };
}

const idle = (page) => page.evaluate(() => window.__idle());
const row = (page, path) => page.locator(`[role=treeitem][data-path=${JSON.stringify(path)}]`);
const focused = (page) => page.evaluate(() => document.activeElement?.getAttribute('data-path') ?? document.activeElement?.getAttribute('data-thread'));
const comment = (id, line, more = {}) => ({ id, url: 'src/main.rs', start: { line }, can_reply: true, contents: `Comment **${id}**`, ...more });

test('the tree is used with the keyboard alone', async (t) => {
  const { page } = await start(t);
  await row(page, 'out').focus();
  await page.keyboard.press('Home');
  assert.equal(await focused(page), 'out');
  await page.keyboard.press('ArrowDown');
  assert.equal(await focused(page), 'src');
  assert.equal(await row(page, 'src').getAttribute('aria-expanded'), 'false');
  await page.keyboard.press('ArrowRight');
  await row(page, 'src/main.rs').waitFor();
  assert.equal(await row(page, 'src').getAttribute('aria-expanded'), 'true');
  await page.keyboard.press('ArrowRight');
  assert.equal(await focused(page), 'src/deep');
  await page.keyboard.press('ArrowRight');
  await row(page, 'src/deep/er').waitFor();
  await page.keyboard.press('ArrowLeft');
  await page.keyboard.press('ArrowLeft');
  assert.equal(await focused(page), 'src');
  await page.keyboard.press('m');
  assert.equal(await focused(page), 'src/main.rs');
  assert.equal(await page.locator('[role=treeitem][tabindex="0"]').count(), 1);
  await page.keyboard.press('Enter');
  await page.locator('[data-row="4"]').waitFor();
  assert.equal(await row(page, 'src/main.rs').count(), 0, 'at this width, the text takes the place of the tree');
  assert.equal(await page.getByRole('tab', { name: 'main.rs' }).getAttribute('aria-selected'), 'true');
});

test('a file has numbers and colours, and a selection is known to components', async (t) => {
  const { page, agent } = await start(t);
  assert.equal(await agent.request('_scp/ide_operation/get-selection', {}), null);
  await page.getByRole('combobox', { name: 'Find a file' }).fill('main');
  await page.getByRole('option', { name: 'main.rs' }).click();
  await page.locator('[data-row="4"]').waitFor();
  assert.equal(await page.locator('.code-view code').evaluateAll((all) => all.map((it) => it.textContent).join('')), source);
  assert.equal(await page.locator('[data-row="4"] .t-key').first().textContent(), 'pub');
  assert.equal(await page.locator('[data-row="5"] .t-str').first().textContent(), '"Hello, {name}!"');
  await page.locator('[data-row="4"] .line-number').click();
  await page.locator('[data-row="5"] .line-number').click({ modifiers: ['Shift'] });
  const selected = await until(async () => {
    const it = await agent.request('_scp/ide_operation/get-selection', {});
    return it?.end.line === 5 && it;
  }, 'the selection of two lines');
  assert.equal(selected.text, source.split('\n').slice(3, 5).join('\n'));
  assert.deepEqual([selected.start.line, selected.start.column, selected.end.line], [4, 1, 5]);
  const { files: opened } = await agent.request('_scp/ide_operation/list-open-files', {});
  assert.equal(opened.length, 1);
  assert.equal(opened[0].active, true);
  assert.match(opened[0].url, /src\/main\.rs$/);
});

test('a file that is written is shown anew, and a component opens a file at a line', async (t) => {
  const { page, agent, cwd } = await start(t);
  await agent.request('_scp/ide_operation/open-file', { url: `file://${cwd}/src/main.rs`, line: 9 });
  await page.locator('[data-row="9"].target').waitFor();
  // The agent writes by the editor, so the editor knows of it.
  const session = (await agent.heard('session/new')) && 's1';
  await agent.request('fs/write_text_file', { sessionId: session, path: join(cwd, 'src/main.rs'), content: source.replace('greet', 'welcome') });
  await page.locator('[data-row="4"]', { hasText: 'welcome' }).waitFor();
  await agent.request('fs/write_text_file', { sessionId: session, path: join(cwd, 'src/new.rs'), content: 'fn new() {}\n' });
  await page.getByRole('button', { name: 'Show the tree of files' }).click();
  await row(page, 'src/new.rs').waitFor();
  assert.equal(await readFile(join(cwd, 'src/new.rs'), 'utf8'), 'fn new() {}\n');
});

test('comments stand below their lines, and a reply reaches the component', async (t) => {
  const { page, agent } = await start(t);
  await agent.request('_scp/file_comment/show', comment('one', 4, { end: { line: 6 } }));
  await agent.request('_scp/file_comment/show', comment('two', 10, { start: { line: 10, column: 5 }, end: { line: 10, column: 13 } }));
  await agent.request('_scp/file_comment/show', comment('gone', 400, { can_reply: false }));
  await agent.request('_scp/file_comment/show', { ...comment('other', 1), url: 'README.md' });
  await row(page, 'src').locator('.badge', { hasText: '3' }).waitFor();
  await row(page, 'src').click();
  await row(page, 'src/main.rs').locator('.badge', { hasText: '3' }).waitFor();
  await row(page, 'src/main.rs').click();
  const one = page.locator('[data-thread=one]');
  await one.waitFor();
  assert.equal(await one.locator('strong').textContent(), 'one');
  // Below the last line of its range, and above the next one.
  const [six, card, seven] = await Promise.all([page.locator('[data-row="6"]'), one, page.locator('[data-row="7"]')].map((it) => it.boundingBox()));
  assert.ok(six.y < card.y && card.y + card.height <= seven.y + 1);
  assert.equal(await page.locator('.line.in-range.whole').count(), 3);
  assert.equal(await page.locator('[data-row="10"] .range').evaluateAll((all) => all.map((it) => it.textContent).join('')), 'println!');
  assert.match(await page.locator('[data-thread=gone]').textContent(), /does not have line 400 any more/);

  // By the keyboard: next, reply, send, previous, and to another file.
  await page.locator('.code-view').focus();
  await page.keyboard.press('n');
  await until(async () => (await focused(page)) === 'one', 'the first thread');
  await page.keyboard.press('r');
  await page.locator('[data-thread=one] textarea:focus').waitFor();
  await page.keyboard.type('nr? <b>Really</b> `so`');
  await page.keyboard.press('Control+Enter');
  const reply = await agent.heard('_scp/file_comment/reply');
  assert.equal(reply.id, 'one');
  assert.equal(reply.contents, 'nr? <b>Really</b> `so`');
  await one.locator('.thread-reply').waitFor();
  assert.match(await one.locator('.thread-reply').textContent(), /You \d\d:\d\d\s*nr\? <b>Really<\/b> so/);
  assert.equal(await one.locator('.thread-reply b', { hasText: 'Really' }).count(), 0);
  await page.keyboard.press('n');
  await until(async () => (await focused(page)) === 'two', 'the second thread');
  await page.keyboard.press('p');
  await until(async () => (await focused(page)) === 'one', 'the first thread again');
  for (const next of ['two', 'gone', 'other', 'one']) {
    await page.keyboard.press('n');
    await until(async () => (await focused(page)) === next, next);
  }

  // The component answers by changing its comment. The reply stays.
  await agent.request('_scp/file_comment/show', comment('one', 4, { end: { line: 6 }, contents: 'Now another text.' }));
  await one.getByText('Now another text.').waitFor();
  assert.equal(await one.locator('.thread-reply').count(), 1);
  await page.getByRole('button', { name: '3 comments' }).click();
  assert.equal(await page.getByRole('list', { name: 'Comments in this file' }).getByRole('button').count(), 3);
  await agent.request('_scp/file_comment/clear', { id: 'one' });
  await one.waitFor({ state: 'detached' });
});

/** Keeps the answers of the program to replies back. Each call of the function gives one of them to the page. */
async function holdReplies(page) {
  const replies = new Set();
  const held = [];
  await page.routeWebSocket(/\/api\/link$/, (socket) => {
    const server = socket.connectToServer();
    socket.onMessage((text) => {
      const { t, id, action } = JSON.parse(text);
      if (t === 'do' && action.op === 'reply') replies.add(id);
      server.send(text);
    });
    server.onMessage((text) => {
      const messages = [JSON.parse(text)].flat();
      const isHeld = (it) => it.t === 'done' && replies.has(it.id);
      for (const it of messages.filter(isHeld)) held.push((outcome) => socket.send(JSON.stringify({ ...it, ...outcome })));
      const others = messages.filter((it) => !isHeld(it));
      if (others.length > 0) socket.send(JSON.stringify(others));
    });
  });
  await page.reload();
  await page.waitForSelector('[data-state="live"]', { state: 'attached' });
  // A file is opened in the page that is there at that time.
  await page.waitForSelector('[role=treeitem]');
  await idle(page);
  return async (outcome) => (await until(() => held.shift(), 'the answer to a reply'))(outcome);
}

test('while a reply is sent, the next key is for the comments, and the end of the reply does not take the focus', async (t) => {
  const { page, agent } = await start(t);
  const answer = await holdReplies(page);
  for (const [id, line] of [['one', 4], ['two', 10]]) await agent.request('_scp/file_comment/show', comment(id, line));
  await agent.request('_scp/ide_operation/open-file', { url: 'src/main.rs' });
  const [one, two] = ['one', 'two'].map((id) => page.locator(`[data-thread=${id}]`));
  await two.waitFor();
  const reply = async (text) => {
    await one.getByRole('button', { name: 'Reply' }).click();
    await one.locator('textarea:focus').waitFor();
    await page.keyboard.type(text);
    await page.keyboard.press('Control+Enter');
    await one.getByText('Sending…').waitFor();
  };
  await reply('Yes.');
  await page.keyboard.press('n');
  await until(async () => (await focused(page)) === 'two', 'the second thread');
  await answer();
  await one.locator('textarea').waitFor({ state: 'detached' });
  assert.equal(await focused(page), 'two');

  // A reply that was not sent is still there. It has the focus again if the person waits for it.
  await reply('No.');
  await answer({ error: 'the component is gone' });
  await one.getByText('The reply was not sent: the component is gone').waitFor();
  await one.locator('textarea:focus').waitFor();
  assert.equal(await one.locator('textarea').inputValue(), 'No.');
});

const rename = (cwd) => ({ label: 'Rename greet', edits: [
  { url: `file://${cwd}/src/main.rs`, start: { line: 4, column: 8 }, end: { line: 4, column: 13 }, new_text: 'welcome' },
  { url: `file://${cwd}/README.md`, start: { line: 3 }, end: { line: 3 }, new_text: 'Other text.' },
] });

test('an edit is shown as a difference, and changes the files only if it is accepted', async (t) => {
  const { page, agent, cwd } = await start(t);
  const refused = agent.request('_scp/ide_operation/apply-edit', rename(cwd));
  await page.getByRole('button', { name: 'Reject' }).click();
  assert.equal((await refused).applied, false);
  await page.getByText('Rejected. The files are as before.').waitFor();
  assert.equal(await readFile(join(cwd, 'src/main.rs'), 'utf8'), source);

  await page.getByRole('button', { name: 'Close the edit' }).click();
  const accepted = agent.request('_scp/ide_operation/apply-edit', { ...rename(cwd), label: 'Rename it now' });
  const edit = page.getByRole('region', { name: 'Edit: Rename it now' });
  await edit.waitFor();
  assert.equal(await edit.getByRole('article').count(), 2);
  assert.match(await edit.getByRole('article', { name: 'src/main.rs' }).locator('.diff-ins').textContent(), /pub fn welcome/);
  assert.equal(await readFile(join(cwd, 'src/main.rs'), 'utf8'), source, 'nothing is changed before the answer');
  await edit.getByRole('button', { name: 'Accept' }).click();
  assert.equal((await accepted).applied, true);
  await page.getByText('Accepted. The files are changed.').waitFor();
  assert.equal(await readFile(join(cwd, 'src/main.rs'), 'utf8'), source.replace('greet', 'welcome'));
  assert.equal(await readFile(join(cwd, 'README.md'), 'utf8'), '# A project\n\nOther text.\n');
});

test('an edit of a file that has changed meanwhile is not applied', async (t) => {
  const { page, agent, cwd } = await start(t);
  const asked = agent.request('_scp/ide_operation/apply-edit', rename(cwd));
  await page.getByRole('button', { name: 'Accept' }).waitFor();
  await writeFile(join(cwd, 'src/main.rs'), '// Somebody else was here.\n');
  await page.getByRole('button', { name: 'Accept' }).click();
  assert.equal((await asked).applied, false);
  await page.locator('.edit-foot [role=status].is-err').waitFor();
  assert.equal(await readFile(join(cwd, 'src/main.rs'), 'utf8'), '// Somebody else was here.\n');
  assert.equal(await readFile(join(cwd, 'README.md'), 'utf8'), '# A project\n\nText.\n', 'all files or none');
});

test('nothing outside of the project is shown', async (t) => {
  const { page, agent } = await start(t);
  for (const path of ['out.txt']) {
    await row(page, path).click();
    await page.getByText(/The file cannot be shown: .*outside/).waitFor();
    await page.getByRole('button', { name: `Close ${path}` }).click();
  }
  await row(page, 'out').click();
  await page.locator('.tree-note', { hasText: 'outside' }).waitFor();
  for (const url of ['/etc/passwd', 'file:///etc/passwd', '../x', 'out.txt', 'out/passwd']) {
    await assert.rejects(agent.request('_scp/ide_operation/open-file', { url }), /outside/, url);
    await assert.rejects(agent.request('_scp/file_comment/show', comment('c', 1, { url })), /outside/, url);
    const edit = { edits: [{ url, start: { line: 1 }, end: { line: 1 }, new_text: 'x' }] };
    await agent.request('_scp/ide_operation/apply-edit', edit).then((it) => assert.equal(it.applied, false), (error) => assert.match(error.message, /outside/));
  }
  assert.doesNotMatch(await page.content(), /root:/);
});

test('names and texts that are HTML are shown as text', async (t) => {
  const { page, agent } = await start(t);
  await agent.request('_scp/file_comment/show', { ...comment('<b>id</b>', 1), url: hostile, contents: '<img src=x onerror=alert(1)> <script>alert(2)</script>' });
  await row(page, hostile).click();
  await page.locator('[data-row="1"]', { hasText: '<script>alert(1)</script>' }).waitFor();
  await page.getByRole('tab', { name: hostile }).waitFor();
  assert.match(await page.locator('.thread').textContent(), /<img src=x onerror=alert\(1\)> <script>alert\(2\)<\/script>/);
  assert.equal(await page.locator('img').count(), 0);
  await page.keyboard.press('Escape');
  await page.getByRole('combobox', { name: 'Find a file' }).fill('onerror');
  assert.equal(await page.getByRole('option').locator('.cut').first().textContent(), hostile);
});

test('of a long file, only the lines that are near are in the page', async (t) => {
  const { page, agent } = await start(t);
  await agent.request('_scp/ide_operation/open-file', { url: 'long.txt', line: 20_000 });
  await page.locator('[data-row="20000"]').waitFor();
  await until(() => page.locator('[data-row="20000"]').evaluate((it) => {
    const [line, view] = [it.getBoundingClientRect(), it.closest('.code-view').getBoundingClientRect()];
    return line.top >= view.top && line.bottom <= view.bottom;
  }), 'the line in view');
  // The lines at the beginning may be there until the view has moved.
  await page.locator('[data-row="1"]').waitFor({ state: 'detached' });
  assert.ok(await page.evaluate(() => document.querySelectorAll('*').length) < 3000);
});

test('empty files, files that are not text and missing files say so', async (t) => {
  const { page, cwd } = await start(t);
  await row(page, 'empty.txt').click();
  await page.getByText('The file is empty.').waitFor();
  await page.getByRole('button', { name: 'Show the tree of files' }).click();
  await row(page, 'picture.bin').click();
  await page.getByText('The file is not text.').waitFor();
  await page.getByRole('button', { name: 'Show the tree of files' }).click();
  await (await import('node:fs/promises')).rm(join(cwd, 'README.md'));
  await row(page, 'README.md').click();
  await page.getByRole('alert').getByText('The file cannot be shown').waitFor();
  await writeFile(join(cwd, 'README.md'), 'Back again.\n');
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.locator('[data-row="1"]', { hasText: 'Back again.' }).waitFor();
  assert.equal(await page.getByRole('tab', { name: /empty|picture|README/ }).count(), 3);
  await page.getByRole('tab', { name: 'README.md' }).focus();
  await page.keyboard.press('Delete');
  await page.keyboard.press('Delete');
  await until(async () => (await page.getByRole('tab', { name: /empty|picture|README/ }).count()) === 1, 'one tab');
});

for (const colorScheme of ['light', 'dark']) {
  for (const width of [1440, 400]) {
    test(`the states are accessible and fit: ${colorScheme}, ${width} px`, async (t) => {
      const { page, agent, cwd } = await start(t, { width, colorScheme });
      const check = async (name) => {
        await idle(page);
        await axe(page);
        await fits(page);
        await picture(page, `files-${name}-${colorScheme}-${width}`);
      };
      await agent.request('_scp/file_comment/show', comment('one', 4, { end: { line: 6 }, contents: 'The name is put into the text. See `greet` at src/main.rs:10.\n\n- first\n- second' }));
      await agent.request('_scp/file_comment/show', comment('gone', 400, { can_reply: false }));
      await row(page, 'src').click();
      await row(page, 'src/main.rs').waitFor();
      await check('tree');
      await row(page, 'src/main.rs').click();
      await page.locator('[data-thread=one]').getByRole('button', { name: 'Reply' }).click();
      await page.keyboard.type('Why is it a `String`?');
      assert.equal(await page.locator('[data-thread=one] textarea').inputValue(), 'Why is it a `String`?');
      await page.getByRole('button', { name: '2 comments' }).click();
      await check('thread');
      void agent.request('_scp/ide_operation/apply-edit', rename(cwd)).catch(() => {});
      await page.getByRole('button', { name: 'Accept' }).waitFor();
      await check('edit');
    });
  }
}
