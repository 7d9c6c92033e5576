// Writes the pictures of the studio for the guide: `cargo xtask web --pictures`. A person looks at them.
//
// It drives the real program with a scripted agent, and fails as a browser test does.

import { rename } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { openStudio, picture, project, startStudio } from './test/harness.mjs';
import { scriptedAgent } from './test/scripted.mjs';

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

I have put comments on the two places. Reply to them there.`;

async function studio(t, options) {
  const agent = await scriptedAgent({ t, hold: true });
  const folder = await project({ t, files });
  const cwd = join(dirname(folder), 'greeter');
  await rename(folder, cwd);
  t.after(() => rename(cwd, folder));
  const started = await startStudio({ t, cwd, chain: agent.chain });
  const page = await openStudio(started, { t, ...options });
  await page.evaluate(() => window.__idle());
  return { agent, cwd, page };
}

/** One turn of a conversation, with comments on two files. */
async function turn({ agent, cwd, page }) {
  await page.getByRole('textbox', { name: /message/i }).fill('Give me a walkthrough of this project');
  await page.keyboard.press('Enter');
  const { sessionId } = await agent.heard('session/prompt');
  const update = (it) => agent.notify('session/update', { sessionId, update: it });
  update({ sessionUpdate: 'agent_thought_chunk', content: { type: 'text', text: 'The project has two files. I read both.' } });
  for (const name of ['src/main.rs', 'src/greeting.rs']) {
    update({ sessionUpdate: 'tool_call', toolCallId: name, title: `Read ${name}`, kind: 'read', status: 'completed', locations: [{ path: join(cwd, name) }] });
  }
  await agent.request('_scp/file_comment/show', { id: 'trim', url: 'src/greeting.rs', start: { line: 4 }, end: { line: 6 }, can_reply: true,
    contents: 'This is where the text is made. `trim` is why the test has blanks around the name.' });
  await agent.request('_scp/file_comment/show', { id: 'main', url: 'src/main.rs', start: { line: 6 }, end: { line: 7 }, can_reply: true,
    contents: 'The name comes from the command line.' });
  await agent.request('_scp/ide_operation/open-file', { url: 'src/greeting.rs', line: 4 });
  update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: answer } });
  await page.getByText('Reply to them there.').waitFor({ state: 'attached' });
  await agent.answer('session/prompt', { stopReason: 'end_turn' });
  await page.evaluate(() => window.__idle());
}

const edit = (cwd) => ({ label: 'Greet in the language of the user', edits: [
  { url: `file://${cwd}/src/greeting.rs`, start: { line: 4, column: 20 }, end: { line: 4, column: 24 }, new_text: '&str, word: &str' },
  { url: `file://${cwd}/src/greeting.rs`, start: { line: 6, column: 14 }, end: { line: 6, column: 19 }, new_text: '{word}' },
] });

test('the studio with a walkthrough', async (t) => {
  const it = await studio(t, { width: 1440, height: 900 });
  await turn(it);
  await it.page.locator('[data-thread=trim]').waitFor();
  await picture(it.page, 'studio');
});

test('the studio with an edit to review, dark', async (t) => {
  const it = await studio(t, { width: 1440, height: 900, colorScheme: 'dark' });
  await turn(it);
  const asked = it.agent.request('_scp/ide_operation/apply-edit', edit(it.cwd));
  await it.page.getByRole('button', { name: 'Accept' }).waitFor();
  await it.page.evaluate(() => window.__idle());
  await picture(it.page, 'studio-edit-dark');
  await it.page.getByRole('button', { name: 'Reject' }).click();
  await asked;
});

test('a question before a command runs', async (t) => {
  const it = await studio(t, { width: 900, height: 420 });
  await it.page.getByRole('textbox', { name: /message/i }).fill('Do the tests of the crate pass?');
  await it.page.keyboard.press('Enter');
  const { sessionId } = await it.agent.heard('session/prompt');
  const asked = it.agent.request('session/request_permission', { sessionId,
    toolCall: { toolCallId: 'test', title: 'Run the tests', kind: 'execute',
      rawInput: { command: ['cargo', 'test', '--', 'the name'], env: { RUST_BACKTRACE: '1' }, cwd: join(it.cwd, 'src') } },
    options: [
      { optionId: 'once', name: 'Allow once', kind: 'allow_once' }, { optionId: 'always', name: 'Always allow', kind: 'allow_always' },
      { optionId: 'no', name: 'Reject', kind: 'reject_once' }] });
  await it.page.waitForSelector('[data-permission][data-ready="true"]');
  await it.page.evaluate(() => window.__idle());
  await picture(it.page, 'studio-question');
  await it.page.getByRole('button', { name: /^Reject/ }).click();
  await asked;
  await it.agent.answer('session/prompt', { stopReason: 'end_turn' });
  await it.page.getByRole('button', { name: 'Send' }).waitFor();
});

test('the studio on a narrow window', async (t) => {
  const it = await studio(t, { width: 400, height: 820 });
  await turn(it);
  await it.page.locator('[data-thread=trim]').waitFor();
  await picture(it.page, 'studio-narrow-files');
});

/** The tour of the demo agent, with a reply to a comment. */
test('a walkthrough', async (t) => {
  const folder = await project({ t, files });
  const cwd = join(dirname(folder), 'greeter');
  await rename(folder, cwd);
  t.after(() => rename(cwd, folder));
  const started = await startStudio({ t, cwd, chain: ['walkthrough', 'demo-agent --pace 0'] });
  const page = await openStudio(started, { t, width: 1440, height: 900 });
  await page.getByRole('textbox', { name: /message/i }).fill('walkthrough');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.panel-frame[data-shown="true"]');
  const frame = await (await page.$('.panel-frame')).contentFrame();
  await frame.getByText('Was this helpful?').waitFor();
  await page.evaluate(() => window.__idle());
  await picture(page, 'walkthrough');
  await frame.getByRole('button', { name: 'Done' }).click();
  await page.getByRole('button', { name: 'Send' }).waitFor();
});
