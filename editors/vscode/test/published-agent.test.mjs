// The story of SCP in VS Code with a published agent: a person asks for a walkthrough, the agent calls the tools of the chain,
// VS Code finds the references, a panel appears, comments stand on the right lines, and a reply reaches the model.
import assert from 'node:assert/strict';
import { drawn, openWindow, startServer, test } from './harness.mjs';
import { scriptedModel } from './model.mjs';

/** The program of the agent goose, which `cargo xtask` has installed. */
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
  'jsconfig.json': '{ "compilerOptions": { "module": "esnext", "moduleResolution": "bundler" } }\n',
};

const walkthrough = {
  title: 'How the greeting is made',
  sections: [
    { heading: 'The text', markdown: '`greet` builds the text, and `main.js` prints it.' },
    { mermaid: 'graph TD\n  A[argument] --> B[greet]\n  B --> C[standard output]' },
    { code: [
      { path: 'greeting.js', line: 5, end_line: 6, comment: 'Blanks around the name are **removed** here.' },
      { path: 'main.js', line: 3, comment: 'Without an argument, it is `world`.' },
    ] },
    { question: { text: 'Shall I add a test?', choices: ['Yes', 'No'] } },
  ],
};

test('a published agent shows a walkthrough, and gets the reply and the answer', async (t) => {
  if (!agent && process.arch !== 'x64') return t.skip('goose is not published for this processor');
  assert.ok(agent, 'CONDUCTOR_GOOSE is not set: run the tests by `cargo xtask vscode --test`');
  const model = await scriptedModel({ t, script: ({ results, tool }) => {
    const last = results.at(-1) ?? '';
    if (/It is still true/.test(last)) return { say: 'Thank you. I keep the line, and add a test.' };
    if (/greeting\.js:4/.test(last) && /main\.js:3/.test(last)) return { call: tool('present_walkthrough'), args: walkthrough };
    // The language server may still be reading the project.
    return { call: tool('find_all_references'), args: { path: 'greeting.js', line: 4, column: 17 } };
  } });
  const server = await startServer({ t, builtIn: ['typescript-language-features'] });
  const environment = {
    GOOSE_PROVIDER: 'openai', GOOSE_MODEL: 'scripted', OPENAI_HOST: model.url, OPENAI_API_KEY: 'none', GOOSE_MODE: 'auto',
    GOOSE_DISABLE_KEYRING: '1', GOOSE_TELEMETRY_ENABLED: 'false',
  };
  const chain = ['walkthrough', 'ide', `${agent} acp`];
  const window = await openWindow(server, { t, files, settings: {
    'conductor.chain': chain, 'conductor.environment': environment, 'conductor.comments.ask': false,
  } });
  const chat = await window.startChat();
  await window.openFile('greeting.js');
  await window.send('Walk me through the greeting, please.', chat);

  // VS Code itself has answered the operation.
  const isWhole = (it) => it.name === 'find-all-references' && it.result.locations.length === 3;
  const { result } = await window.event('operation done', isWhole);
  assert.deepEqual(result.locations.map((it) => `${it.url.split('/').at(-1)}:${it.start.line}`).sort(),
    ['greeting.js:4', 'main.js:1', 'main.js:3']);

  const { title } = await window.event('panel tab');
  assert.equal(title, walkthrough.title);
  const frame = window.panel().locator('.panel-frame').contentFrame();
  await frame.getByText('Shall I add a test?').waitFor();
  await drawn(frame);
  const range = async (file) => (await window.event('comment thread', (it) => it.file === file)).range;
  assert.deepEqual([(await range('greeting.js'))[0], (await range('greeting.js'))[2]], [4, 5], 'lines 5 to 6');
  assert.deepEqual([(await range('main.js'))[0], (await range('main.js'))[2]], [2, 2], 'line 3');
  const thread = window.thread('Blanks around the name are removed here.');
  await thread.waitFor();
  await window.picture('published-agent-panel');
  await window.reply(thread, 'It is still true.');
  await thread.locator('.review-comment', { hasText: 'It is still true.' }).waitFor();
  await frame.getByText('Yes', { exact: true }).click();

  const { ended } = await window.event('turn');
  assert.equal(ended, 'end_turn');
  await window.told(/Thank you\. I keep the line, and add a test\./, chat);
  const heard = JSON.stringify(model.requests.at(-1).messages.at(-1));
  assert.match(heard, /It is still true\./);
  assert.match(heard, /Shall I add a test\?[^]*Yes/);
  assert.deepEqual(model.problems, []);
  await window.picture('published-agent');
});
