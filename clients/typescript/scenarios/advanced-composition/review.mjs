// A proxy that shows each change to a second agent, the reviewer, and its opinion to the person. She decides what happens.
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { Editor } from 'acp-conductor-client';
import { mockProxy } from 'acp-conductor-client/scenario/proxy';

const folder = process.cwd();
const reviewer = new Editor({
  program: { command: process.execPath, args: [fileURLToPath(new URL('reviewer.mjs', import.meta.url))], cwd: folder },
  folder,
  components: ['reviewer'],
  client: { name: 'review', title: 'Review', version: '1' },
  host: {},
});
reviewer.start();

/** Called with the choice of the person. */
let decide = () => {};

async function opinion() {
  const session = await reviewer.newSession();
  await reviewer.prompt(session, `Review this:\n${await readFile(`${folder}/src/divide.js`, 'utf8')}`);
  const said = reviewer.topics.entries(`session/${session}`).filter(([, entry]) => entry.kind === 'agent');
  return said.map(([, entry]) => entry.text).join('');
}

mockProxy({
  async prompt(prompt, proxy) {
    const answer = await proxy.toAgent('session/prompt', prompt);
    const text = await opinion();
    proxy.log('info', `the reviewer says: ${text}`);
    if (!text.includes('line 2')) return answer;
    await proxy.toEditor('_scp/file_comment/show', {
      id: 'review', url: `${folder}/src/divide.js`, start: { line: 2 }, can_reply: false, contents: text,
    });
    const choice = new Promise((resolve) => { decide = resolve; });
    await proxy.toEditor('_scp/html_panel/show', {
      id: 'review', label: 'Review',
      contents: `<p>${text}</p><div class="c-choice" data-widget="what"><button data-value="fix">Fix it</button><button data-value="keep">Keep it</button></div>`,
    });
    if (await choice !== 'fix') return answer;
    await proxy.toEditor('_scp/html_panel/clear', { id: 'review' });
    await proxy.toEditor('_scp/file_comment/clear', { id: 'review' });
    const again = await proxy.toAgent('session/prompt', { ...prompt, prompt: [{ type: 'text', text }] });
    proxy.log('info', `the reviewer says: ${await opinion()}`);
    return again;
  },
  event(method, params) {
    if (method === '_scp/html_panel/event') decide(params.value);
    if (method === '_scp/html_panel/closed') decide('keep');
  },
});
