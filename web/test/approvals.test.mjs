// What a person approves is what happens: words of components break nothing, hidden characters are marked, commands and
// their folders are shown as they run, and nothing is answered by a click that was meant for something else.
import assert from 'node:assert/strict';
import { tmpdir } from 'node:os';
import test from 'node:test';
import { chat, composer, idle, scripted, send } from './chat-help.mjs';
import { axe, fits, until } from './harness.mjs';

const words = ['constructor', 'toString', '__proto__'];
const asked = (page) => page.locator('[data-permission]');

/** Asks for a permission. */
async function question(agent, toolCall, options) {
  const { sessionId } = await agent.heard('session/prompt');
  return agent.request('session/request_permission', {
    sessionId, toolCall: { toolCallId: 't', title: 'Do it', ...toolCall },
    options: options ?? [{ optionId: 'y', name: 'Yes', kind: 'allow_once' }, { optionId: 'n', name: 'No', kind: 'reject_once' }],
  });
}

test('words that are names in every object are shown as any unknown word', async (t) => {
  const { agent, page, update } = await scripted(t);
  await send(page, 'go');
  for (const word of words) {
    await update({ sessionUpdate: 'tool_call', toolCallId: word, title: `Tool ${word}`, kind: word, status: word });
    await update({ sessionUpdate: 'plan', entries: [{ content: `Step ${word}`, status: word, priority: word }] });
    agent.notify('_scp/log', { level: word, message: `log ${word}` });
    const answer = question(agent, { toolCallId: word, title: `Ask ${word}`, kind: word }, [
      { optionId: 'x', name: `Choose ${word}`, kind: word }, { optionId: 'n', name: 'No', kind: 'reject_once' }]);
    await asked(page).getByText(`Ask ${word}`).first().waitFor();
    await asked(page).getByRole('button', { name: `Choose ${word}` }).click();
    assert.equal((await answer).outcome.optionId, 'x');
  }
  await page.getByRole('tab', { name: 'Log' }).click();
  await page.locator('.log-line', { hasText: 'log __proto__' }).waitFor();
  assert.equal(await page.locator('[data-failed]').count(), 0);
  await composer(page).fill('still here');
  await axe(page);
});

test('an entry that cannot be shown leaves the others alone', async (t) => {
  const { agent, page, update, write } = await scripted(t);
  // A fault of the page: nothing that an agent sends is known to cause one.
  await page.evaluate(() => {
    const real = Object.hasOwn;
    Object.hasOwn = (table, word) => {
      if (['fault', 'reject_once'].includes(word)) throw new Error('a fault');
      return real(table, word);
    };
  });
  await send(page, 'go');
  await update({ sessionUpdate: 'tool_call', toolCallId: 'a', title: 'A', kind: 'fault' });
  await page.locator('[data-failed]', { hasText: 'This entry cannot be shown.' }).waitFor();
  await write('The next one is there.');
  await page.locator('.message.agent', { hasText: 'The next one is there.' }).waitFor();
  const answer = question(agent, {});
  await page.getByText('The agent asks something that this page cannot show.').waitFor();
  await page.getByRole('button', { name: 'Reject' }).click();
  assert.equal((await answer).outcome.optionId, 'n');
});

test('characters that hide what a change does are marked in the change and in its path', async (t) => {
  for (const width of [1440, 400]) {
    const { agent, page, cwd } = await scripted(t, { page: { width } });
    await send(page, 'go');
    const answer = question(agent, { kind: 'edit', title: 'Edit a file', content: [{
      type: 'diff', path: `${cwd}/src/\u202egnp.sr`, oldText: 'one\nПривет – мир 👩‍💻 ½\r\n',
      newText: 'if (user != "admin\u202e \u2066// check\u2069 \u2066") {\nconst аdmin = 1;\nПривет – мир 👩‍💻 ½\r\nta\u200bb\n' }],
      locations: [{ path: `${cwd}/src/s\u0435at.rs`, line: 1 }] });
    const row = asked(page);
    await row.waitFor();
    const marks = await row.locator('.diff .marked').evaluateAll((all) => all.map((it) => it.dataset.why));
    assert.deepEqual(marks, [
      'U+202E right-to-left override', 'U+2066 left-to-right isolate', 'U+2069 end of isolate', 'U+2066 left-to-right isolate',
      'U+0430, not the letter a', 'U+200B zero width space']);
    await row.locator('.diff').getByText('6 characters are marked.').waitFor();
    assert.equal(await row.locator('.file-link .marked[data-why^="U+202E"]').count(), 1);
    assert.equal(await row.locator('.file-link .marked[data-why^="U+0435"]').count(), 1);
    await row.getByText('2 characters are marked.').waitFor();
    // The text itself is not changed: what is after the override is drawn after it.
    const order = await row.locator('.diff-ins').first().evaluate((line) => {
      const [mark] = line.querySelectorAll('.marked');
      const after = [...line.querySelectorAll('.marked')].at(-1);
      return mark.getBoundingClientRect().left < after.getBoundingClientRect().left;
    });
    assert.equal(order, true);
    await axe(page);
    await fits(page);
    await row.getByRole('button', { name: 'No', exact: true }).click();
    await answer;
  }
});

test('characters that hide what a file contains are marked in the tree, the tabs and the viewer', async (t) => {
  const { page } = await chat(t, { files: { 'a\u202egnp.txt': 'x\u200by\nplain\n' } });
  const entry = page.locator('[role=treeitem]', { hasText: 'gnp.txt' });
  await entry.locator('.marked[data-why^="U+202E"]').waitFor();
  await axe(page);
  await entry.click();
  await page.locator('.code-view').getByText('One character is marked.').waitFor();
  assert.equal(await page.locator('[data-row="1"] .marked[data-why^="U+200B"]').count(), 1);
  for (const place of ['.file-tab', '.file-head']) {
    assert.equal(await page.locator(`${place} .marked[data-why^="U+202E"]`).count(), 1, place);
  }
  await axe(page);
});

test('a command is shown as it runs, with its variables and its folder', async (t) => {
  const { agent, page } = await scripted(t);
  await send(page, 'go');
  const answer = question(agent, { kind: 'execute', rawInput: {
    command: ['rm', '-rf', 'a b', 'it\'s'], env: { A: 'x y' }, cwd: '/etc' } });
  await asked(page).getByText(`A='x y' rm -rf 'a b' 'it'\\''s'`).waitFor();
  await asked(page).locator('.command-folder', { hasText: '/etc' }).waitFor();
  await axe(page);
  await asked(page).getByRole('button', { name: 'No', exact: true }).click();
  await answer;
});

test('a terminal in a folder outside of the project is asked for, and its end is shown', async (t) => {
  const { agent, page, update } = await scripted(t);
  await send(page, 'go');
  const { sessionId } = await agent.heard('session/prompt');
  const create = (command, args, cwd) => agent.request('terminal/create', { sessionId, command, args, ...(cwd ? { cwd } : {}) });
  const refused = create('touch', ['a file'], tmpdir());
  refused.catch(() => {});
  await asked(page).getByText('which is outside of the folder of the project').waitFor();
  await asked(page).getByText("touch 'a file'").waitFor();
  await axe(page);
  await asked(page).getByRole('button', { name: 'Reject' }).click();
  await assert.rejects(refused, /permission denied/);

  const allowed = create('pwd', [], '/');
  await asked(page).getByRole('button', { name: 'Allow once' }).click();
  const outside = await allowed;
  const inside = await create('sh', ['-c', 'exit 3']);
  const killed = await create('sh', ['-c', 'kill -9 $$']);
  const terminals = [outside, inside, killed];
  await update({ sessionUpdate: 'tool_call', toolCallId: 'run', title: 'Run', kind: 'execute',
    content: terminals.map(({ terminalId }) => ({ type: 'terminal', terminalId })) });
  const heads = page.locator('.terminal-head');
  await heads.nth(0).getByText('exit 0').waitFor();
  assert.equal(await heads.nth(0).locator('.is-err').count(), 0);
  await heads.nth(0).locator('.command-folder').getByText('/', { exact: true }).waitFor();
  assert.equal(await page.locator('.terminal .ansi').first().innerText().then((it) => it.trim()), '/');
  await heads.nth(1).locator('.is-err', { hasText: 'exit 3' }).waitFor();
  await heads.nth(2).locator('.is-err', { hasText: 'killed by SIGKILL' }).waitFor();
  await axe(page);
});

test('a new edit waits while another one is reviewed, and no edit is accepted in the moment in which it appears', async (t) => {
  const { agent, page, cwd } = await scripted(t);
  const propose = (label) => agent.request('_scp/ide_operation/apply-edit', { label, edits: [
    { url: `file://${cwd}/notes.txt`, start: { line: 1 }, end: { line: 1 }, new_text: label }] });
  // Clicked as soon as it is in the page.
  await page.evaluate(() => {
    window.clicked = 0;
    new MutationObserver(() => {
      const accept = document.querySelector('.edit-foot .button.main');
      if (!accept || window.clicked) return;
      window.clicked += 1;
      accept.click();
    }).observe(document.body, { childList: true, subtree: true });
  });
  const first = propose('First');
  await page.getByRole('region', { name: 'Edit: First' }).waitFor();
  assert.equal(await page.evaluate(() => window.clicked), 1);
  await page.waitForSelector('.edit[data-ready="true"]');
  const second = propose('Second');
  await page.getByRole('group', { name: 'Edit to review' }).getByText('Second').waitFor();
  assert.equal(await page.getByRole('region', { name: 'Edit: First' }).count(), 1, 'the first one stays');
  await page.getByRole('button', { name: 'Accept' }).click();
  assert.equal((await first).applied, true);
  await page.getByRole('button', { name: 'Review', exact: true }).click();
  await page.getByRole('region', { name: 'Edit: Second' }).getByRole('button', { name: 'Reject' }).click();
  assert.equal((await second).applied, false);
});

test('attachments come back with a queued message, and are sent again with one that failed', async (t) => {
  const { agent, page } = await scripted(t);
  await send(page, 'begin');
  await page.waitForSelector('.stop');
  await page.locator('[data-attach]').setInputFiles([
    { name: 'a.txt', mimeType: 'text/plain', buffer: Buffer.from('the text') }]);
  await page.getByRole('button', { name: 'Remove a.txt' }).waitFor();
  // The blank ends the name: without it, Enter chooses a file of the list.
  await send(page, 'look at @src/router.rs ');
  await page.locator('.queued', { hasText: 'look at' }).locator('.chip', { hasText: '2' }).waitFor();
  await page.getByRole('button', { name: /^Edit “look at/ }).click();
  await page.getByRole('button', { name: 'Remove a.txt' }).waitFor();
  await until(async () => (await composer(page).inputValue()) === 'look at @src/router.rs', 'the text is back');
  assert.equal(await page.locator('.composer-chips .chip').count(), 1, 'a mentioned file is attached by its name');
  await composer(page).press('End');
  await composer(page).press('Space');
  await composer(page).press('Enter');
  await page.locator('.queued', { hasText: 'look at' }).waitFor();
  await agent.answer('session/prompt', { stopReason: 'end_turn' });
  const blocks = (await agent.heard('session/prompt', 1)).prompt;
  assert.match(JSON.stringify(blocks), /the text.*router\.rs/);
  await agent.fail('session/prompt', 'no network');
  const card = page.locator('.error-card');
  await card.getByText('a.txt').waitFor();
  await axe(page);
  await card.getByRole('button', { name: 'Try again' }).click();
  assert.deepEqual((await agent.heard('session/prompt', 2)).prompt, blocks);
  await agent.answer('session/prompt', { stopReason: 'end_turn' });
  await idle(page);
});
