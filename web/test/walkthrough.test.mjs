// The story of SCP: a person asks for a walkthrough, the agent calls the tool through the chain, a panel appears,
// comments stand on the right lines, and answers and replies reach the agent. In the studio, and under another editor.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import test from 'node:test';
import { ask, composer } from './chat-help.mjs';
import { axe, open, openStudio, picture, program, project, startStudio } from './harness.mjs';

const files = {
  'README.md': '# Greeter\n\nSays hello.\n',
  'src/main.rs': 'fn main() {\n    println!("Hello");\n}\n',
};
/** axe reads style sheets by itself, and the policy of the frame stops it. */
const allow = [/connect-src \S*\/panel\/frame\.css/, /^console: Connecting to '\S*\/panel\/frame\.css'/];

/** The frame of the panel, when its HTML is shown. */
async function panel(page) {
  await page.waitForSelector('.panel-frame[data-shown="true"]');
  return (await page.$('.panel-frame')).contentFrame();
}

/** Follows a link of the panel, replies to the comment there, and answers both questions. */
async function answer(page, frame) {
  await frame.getByRole('link', { name: /README\.md/ }).click();
  const thread = page.locator('[data-thread]').first();
  await thread.waitFor();
  assert.match(await thread.getAttribute('aria-label'), /lines 1 to 3/);
  await thread.getByRole('button', { name: 'Reply', exact: true }).click();
  await page.keyboard.type('It is still true.');
  await page.keyboard.press('Control+Enter');
  await thread.getByText('It is still true.').waitFor();
}

async function answerQuestions(frame) {
  await frame.getByText('Yes', { exact: true }).click();
  await frame.locator('input, textarea').first().fill('More tests');
  await frame.locator('input, textarea').first().press('Enter');
}

test('a walkthrough in the studio: panel, comments, reply and answers', async (t) => {
  const cwd = await project({ t, files });
  const studio = await startStudio({ t, cwd, chain: ['walkthrough', 'demo-agent --pace 0'] });
  const page = await openStudio(studio, { t, allow });
  await composer(page).fill('walkthrough');
  await page.keyboard.press('Enter');
  const frame = await panel(page);
  await frame.getByText('Was this helpful?').waitFor();
  await picture(page, 'walkthrough');
  await answer(page, frame);
  await axe(page);
  await picture(page, 'walkthrough-comment');
  await page.getByRole('tab', { name: /Panels/ }).click();
  await answerQuestions(frame);
  const log = page.getByRole('log');
  await log.getByText('It is still true.').first().waitFor();
  const said = await log.innerText();
  assert.match(said, /Yes/);
  assert.match(said, /More tests/);
  assert.match(said, /README\.md:1-3/);
  // The next turn is an ordinary one.
  await ask(page, 'hello');
});

test('a walkthrough under another editor, with companion', async (t) => {
  const cwd = await project({ t, files });
  const args = ['try', '--plain', '--no-history', '--cwd', cwd, '--prompt', 'walkthrough', '--'];
  const editor = spawn(program(), [...args, 'companion', 'walkthrough', 'demo-agent --pace 0'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.after(() => editor.kill());
  let text = '';
  const ended = new Promise((resolve) => editor.on('close', resolve));
  const url = await new Promise((resolve, reject) => {
    ended.then((code) => reject(new Error(`the program ended (${code}) before it printed an address:\n${text}`)));
    editor.stdout.on('data', (data) => {
      text += data;
      const found = text.match(/http:\/\/127\.0\.0\.1:\d+\/studio#key=[0-9a-f]{64}/);
      if (found) resolve(found[0]);
    });
  });
  // The program ends with the last answer. The page tries to connect again.
  const page = await open(url, { t, allow: [...allow, /WebSocket|ERR_|Failed to load/] });
  const frame = await panel(page);
  await frame.getByText('Was this helpful?').waitFor();
  assert.match(await page.getByRole('banner').innerText(), /connected/);
  assert.equal(await composer(page).count(), 0, 'the chat is in the editor');
  await answer(page, frame);
  await axe(page);
  await picture(page, 'companion');
  await answerQuestions(frame);
  assert.equal(await ended, 0);
  assert.match(text, /More tests/);
  assert.match(text, /It is still true\./);
  assert.equal(text.match(/Panels and comments of this session/g).length, 1);
});
