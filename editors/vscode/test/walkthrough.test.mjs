// The story of SCP in VS Code: a person asks for a walkthrough, the agent calls the tool through the chain, a panel appears,
// comments stand on the right lines, answers and replies reach the agent, and VS Code answers an operation.
import assert from 'node:assert/strict';
import { openWindow, startServer, test, until } from './harness.mjs';

const files = {
  'README.md': '# Greeter\n\nSays hello.\n',
  'src/main.rs': 'fn main() {\n    println!("Hello");\n}\n',
};

let started;
const withTypeScript = () => (started ??= startServer({ builtIn: ['typescript-language-features'] }));

test('a walkthrough: panel, comments, reply and answers', async (t) => {
  const window = await openWindow(await withTypeScript(), {
    t, files, settings: { 'conductor.chain': ['walkthrough', 'ide', 'demo-agent --pace 0'] } });
  const chat = await window.startChat();
  await window.send('walkthrough', chat);
  await window.event('panel tab');
  const frame = window.panel().locator('.panel-frame').contentFrame();
  await frame.getByText('Was this helpful?').waitFor();
  await window.picture('walkthrough-panel');
  await frame.getByRole('link', { name: /README\.md/ }).first().click();
  await window.tab('README.md').waitFor();
  const thread = window.page.locator('.review-widget').first();
  await thread.waitFor();
  const { range } = await window.event('comment thread', (it) => it.file.endsWith('README.md'));
  assert.deepEqual([range[0], range[2]], [0, 2], 'the comment is about the lines 1 to 3');
  await window.reply(thread, 'It is still true.');
  await thread.locator('.review-comment', { hasText: 'It is still true.' }).waitFor();
  await window.picture('walkthrough');
  await window.page.locator('.tab', { hasText: /tour/i }).first().click();
  await frame.getByText('Yes', { exact: true }).click();
  await frame.locator('input, textarea').first().fill('More tests');
  await frame.locator('input, textarea').first().press('Enter');
  await window.event('turn');
  await window.told(/Yes[^]*More tests[^]*README\.md:1-3[^]*It is still true\./, chat);
  await window.picture('walkthrough-end');
});

test('the agent finds all references through VS Code', async (t) => {
  const window = await openWindow(await withTypeScript(), {
    t,
    files: {
      'math.js': 'export function add(a, b) {\n  return a + b;\n}\n',
      'use.js': "import { add } from './math.js';\nconsole.log(add(1, 2));\n",
      'jsconfig.json': '{ "compilerOptions": { "module": "esnext", "moduleResolution": "bundler" } }\n',
    },
    settings: { 'conductor.chain': ['ide', 'demo-agent --pace 0'] },
  });
  const chat = await window.startChat();
  await window.ask('tools', chat);
  assert.ok(window.events('message').some((it) => it.text.includes('find_all_references')), 'the tool is listed');
  await until(async () => {
    await window.ask('use find_all_references {"path":"math.js","line":1,"column":17}', chat);
    return window.events('operation done').some((it) => it.name === 'find-all-references' && it.result.locations.length === 3);
  }, 'three references');
  assert.match(window.events('message').at(-1).text, /math\.js:1: export function add/);
});
