// The story of SCP with a published agent: a person asks for a walkthrough, the agent calls the tool of the chain, a panel
// appears, comments stand on the right lines, and a reply and an answer reach the model. In the studio, and under another
// editor with `companion`. The agent is goose, and its model is a script on the loopback address.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import test from 'node:test';
import { scriptedModel } from '../../editors/vscode/test/model.mjs';
import { idle, send } from './chat-help.mjs';
import { atEnd, axe, leftOver, open, openStudio, picture, program, project, startStudio } from './harness.mjs';

/** The program of the agent, which `cargo xtask` has installed. */
const agent = process.env.CONDUCTOR_GOOSE;

const files = {
  'greeting.js': `// Greets people.

/** Says hello to a person. */
export function greet(name) {
  const trimmed = name.trim();
  return \`Hello, \${trimmed}!\`;
}
`,
  'main.js': "import { greet } from './greeting.js';\n\nconsole.log(greet(process.argv[2] ?? 'world'));\n",
};

const walkthrough = {
  title: 'How the greeting is made',
  sections: [
    { heading: 'The text', markdown: '`greet` builds the text, and `main.js` prints it.' },
    { code: [
      { path: 'greeting.js', line: 5, end_line: 6, comment: 'Blanks around the name are **removed** here.' },
      { path: 'main.js', line: 3, comment: 'Without an argument, it is `world`.' },
    ] },
    { question: { text: 'Shall I add a test?', choices: ['Yes', 'No'] } },
  ],
};

const asked = 'Walk me through the greeting, please.';
const thanks = 'Thank you. I keep the line, and add a test.';
/** axe reads style sheets by itself, and the policy of the frame stops it. */
const allow = [/connect-src \S*\/panel\/frame\.css/, /^console: Connecting to '\S*\/panel\/frame\.css'/];

/** The agent with a model that does what the test says. `null` if there is no such agent for this processor. */
async function publishedAgent(t) {
  if (!agent && process.arch !== 'x64') {
    t.skip('goose is not published for this processor');
    return null;
  }
  assert.ok(agent, 'CONDUCTOR_GOOSE is not set: run the tests by `cargo xtask web --test`');
  const model = await scriptedModel({ t, script: ({ results, tool }) => (
    results.length > 0 ? { say: thanks } : { call: tool('present_walkthrough'), args: walkthrough }) });
  const home = await project({ t });
  const env = {
    HOME: home, XDG_CONFIG_HOME: `${home}/config`, XDG_DATA_HOME: `${home}/data`, XDG_STATE_HOME: `${home}/state`,
    GOOSE_PROVIDER: 'openai', GOOSE_MODEL: 'scripted', OPENAI_HOST: model.url, OPENAI_API_KEY: 'none', GOOSE_MODE: 'auto',
    GOOSE_DISABLE_KEYRING: '1', GOOSE_TELEMETRY_ENABLED: 'false',
  };
  return { model, env, chain: ['walkthrough', `${agent} acp`] };
}

/** The title of the file in front. */
const openFile = (page) => page.locator('.file-tab[aria-selected="true"]').getAttribute('title');

/** The page beside another editor shows them all the time. */
async function showPanels(page) {
  const tab = page.getByRole('tab', { name: /^Panels/ });
  if (await tab.count() > 0) await tab.click();
}

/** Opens both comments from the panel, replies to the first one, and answers the question. */
async function answer(page) {
  await page.waitForSelector('.panel-frame[data-shown="true"]');
  const frame = await (await page.$('.panel-frame')).contentFrame();
  await frame.getByText('Shall I add a test?').waitFor();
  await frame.getByRole('link', { name: 'main.js:3' }).click();
  const second = page.locator('[data-thread]', { hasText: 'Without an argument, it is world.' });
  await second.waitFor();
  assert.equal(await second.getAttribute('aria-label'), 'Comment on line 3');
  assert.match(await openFile(page), /main\.js/);
  await showPanels(page);
  await frame.getByRole('link', { name: 'greeting.js:5-6' }).click();
  const first = page.locator('[data-thread]', { hasText: 'Blanks around the name are removed here.' });
  await first.waitFor();
  assert.equal(await first.getAttribute('aria-label'), 'Comment on lines 5 to 6');
  assert.match(await openFile(page), /greeting\.js/);
  await first.getByRole('button', { name: 'Reply', exact: true }).click();
  await page.keyboard.type('It is still true.');
  await page.keyboard.press('Control+Enter');
  await first.getByText('It is still true.').waitFor();
  return frame;
}

/** The model has the reply and the answer, in the result of its tool. */
function heard(model) {
  const last = JSON.stringify(model.requests.filter((it) => it.tools?.length > 0).at(-1).messages.at(-1));
  assert.match(last, /greeting\.js:5-6: It is still true\./);
  assert.match(last, /Shall I add a test\?[^]*Yes/);
  assert.deepEqual(model.problems, []);
}

test('a published agent shows a walkthrough in the studio, and gets the reply and the answer', async (t) => {
  const published = await publishedAgent(t);
  if (!published) return;
  const cwd = await project({ t, files });
  const studio = await startStudio({ t, cwd, chain: published.chain, env: published.env });
  const page = await openStudio(studio, { t, allow });
  await send(page, asked);
  const frame = await answer(page);
  await axe(page);
  await picture(page, 'published-agent');
  await showPanels(page);
  await frame.getByText('Yes', { exact: true }).click();
  await page.getByRole('log').getByText(thanks).first().waitFor();
  await idle(page);
  heard(published.model);
});

test('a published agent shows a walkthrough under another editor, with companion', async (t) => {
  const published = await publishedAgent(t);
  if (!published) return;
  const cwd = await project({ t, files });
  const mark = `conductor-test-${cwd.split('-').at(-1)}`;
  const words = ['try', '--plain', '--no-history', '--cwd', cwd, '--prompt', asked, '--', 'companion', ...published.chain];
  const env = { ...process.env, ...published.env, CONDUCTOR_TEST_MARK: mark };
  const editor = spawn(program(), words, { stdio: ['ignore', 'pipe', 'inherit'], env });
  atEnd(t, async () => {
    editor.kill();
    assert.deepEqual(await leftOver(mark), []);
  });
  let text = '';
  const ended = new Promise((resolve) => editor.on('close', resolve));
  const url = await new Promise((resolve, reject) => {
    void ended.then((code) => reject(new Error(`the program ended (${code}) before it printed an address:\n${text}`)));
    editor.stdout.on('data', (data) => {
      text += data;
      const found = text.match(/http:\/\/127\.0\.0\.1:\d+\/studio#key=[0-9a-f]{64}/);
      if (found) resolve(found[0]);
    });
  });
  // The program ends with the last answer. The page tries to connect again.
  const page = await open(url, { t, allow: [...allow, /WebSocket|ERR_|Failed to load/] });
  const frame = await answer(page);
  await picture(page, 'published-agent-companion');
  await frame.getByText('Yes', { exact: true }).click();
  assert.equal(await ended, 0);
  assert.ok(text.includes(thanks), text);
  heard(published.model);
});
