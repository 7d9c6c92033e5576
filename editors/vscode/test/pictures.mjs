// Writes the pictures of the extension: `cargo xtask vscode --pictures`. A person looks at them.
//
// It drives a real VS Code with a scripted agent, and fails as a test does.

import { rename } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { drawn, openWindow, project, root, startServer, test } from './harness.mjs';
import { scriptedAgent } from '../../../web/test/scripted.mjs';

const images = join(root, 'editors/vscode/images');
const docs = join(root, 'docs/pictures');

const files = {
  'src/main.rs': `mod greeting;

use greeting::greet;

fn main() {
    let name = std::env::args().nth(1);
    println!("{}", greet(name.as_deref().unwrap_or("world")));
}
`,
  'src/greeting.rs': `//! Greets people.

/// Says hello to a person.
pub fn greet(name: &str) -> String {
    let name = name.trim();
    format!("Hello, {name}!")
}

#[cfg(test)]
mod tests {
    use super::greet;

    #[test]
    fn the_name_is_in_the_greeting() {
        assert_eq!(greet(" you "), "Hello, you!");
    }
}
`,
  'Cargo.toml': '[package]\nname = "greeter"\nversion = "0.1.0"\nedition = "2024"\n',
  'README.md': '# Greeter\n\nSays hello.\n',
};

const answer = `\`greet\` in src/greeting.rs:4 builds the text, and \`main\` prints it.

1. The name is the first argument. Without one it is \`world\`.
2. \`trim\` removes the blanks around the name.

I have put a comment on that line. You can reply to it there.`;

const tour = `<h1>How the greeting is made</h1>
<p>The name goes through two functions. <a class="c-file" data-file="src/main.rs" data-line="6">main</a> reads it, and
<a class="c-file" data-file="src/greeting.rs" data-line="4">greet</a> puts it into the text.</p>
<pre class="c-mermaid"><code>graph TD
  A[argument] --> B[main]
  B --> C[greet]
  C --> D[standard output]</code></pre>
<div class="c-card"><p><strong>Was this helpful?</strong></p>
<div class="c-choice" data-widget="q1"><button data-value="yes">Yes</button><button data-value="no">No</button></div></div>`;

/** VS Code on the project `greeter`, and an agent that has told its story. */
async function story(t, { settings = {}, width = 1280, height = 800 } = {}) {
  const agent = await scriptedAgent({ t, hold: true });
  const made = await project({ t, files });
  const folder = join(dirname(made), 'greeter');
  await rename(made, folder);
  t.after(() => rename(folder, made));
  const server = await startServer({ t, settings: { 'conductor.chain': agent.chain, 'conductor.comments.ask': false, ...settings } });
  const window = await openWindow(server, { t, folder, width, height });
  const chat = await window.startChat();
  const url = (name) => pathToFileURL(join(folder, name)).href;
  const update = async (value) => {
    const { sessionId } = await agent.heard('session/prompt');
    agent.notify('session/update', { sessionId, update: value });
  };
  const comment = (id, name, line, end, contents) => agent.request('_scp/file_comment/show', {
    id, url: url(name), start: { line }, end: { line: end }, can_reply: true, contents });
  return { agent, window, chat, url, update, comment };
}

/** The agent answers a question about the project. */
async function answered({ agent, window, chat, update }) {
  await window.send('How is the greeting made?', chat);
  await update({ sessionUpdate: 'tool_call', toolCallId: 't1', title: 'Read src/greeting.rs', kind: 'read', status: 'completed',
    locations: [{ path: 'src/greeting.rs', line: 4 }] });
  await update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: answer } });
  await chat.getByText('You can reply to it there.').waitFor();
  await agent.answer('session/prompt', { stopReason: 'end_turn' });
  await window.event('turn');
}

/** Writes a picture into a folder. */
async function write(window, folder, name) {
  process.env.CONDUCTOR_PICTURES = folder;
  await window.picture(name);
}

for (const [suffix, theme] of [['', 'Default Light Modern'], ['-dark', 'Default Dark Modern']]) {
  test(`a walkthrough: panel, comments and the chat (${theme})`, async (t) => {
    const it = await story(t, { settings: { 'workbench.colorTheme': theme } });
    await answered(it);
    await it.comment('trim', 'src/greeting.rs', 5, 5, 'Blanks around the name are **removed** here.');
    await it.window.event('comment thread');
    await it.window.openFile('greeting.rs');
    await it.window.thread('Blanks around').waitFor();
    await it.agent.request('_scp/html_panel/show', { id: 'tour', label: 'How the greeting is made', contents: tour });
    const frame = it.window.panel().locator('.panel-frame').contentFrame();
    await frame.getByText('Was this helpful?').waitFor();
    await drawn(frame);
    await write(it.window, images, `walkthrough${suffix}`);
    if (!suffix) await write(it.window, docs, 'walkthrough');
  });
}

test('an edit as a diff', async (t) => {
  const it = await story(t, { settings: { 'workbench.colorTheme': 'Default Light Modern' } });
  await answered(it);
  const asked = it.agent.request('_scp/ide_operation/apply-edit', { label: 'Greet in the language of the user', edits: [
    { url: it.url('src/greeting.rs'), start: { line: 4, column: 20 }, end: { line: 4, column: 24 }, new_text: '&str, word: &str' },
    { url: it.url('src/greeting.rs'), start: { line: 6, column: 14 }, end: { line: 6, column: 19 }, new_text: '{word}' },
  ] });
  await it.window.page.locator('.monaco-diff-editor .line-insert').first().waitFor();
  await write(it.window, images, 'edit');
  await it.window.command('Conductor: Reject Edit');
  await asked;
});
