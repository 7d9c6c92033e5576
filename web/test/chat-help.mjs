// Helpers of the chat tests.
import { rm } from 'node:fs/promises';
import { openStudio, project, startStudio } from './harness.mjs';
import { scriptedAgent } from './scripted.mjs';

const files = {
  'src/router.rs': 'fn main() {\n    println!("hi");\n}\n', 'src/seat.rs': 'pub struct Seat;\n', 'README.md': '# Project\n',
  'notes.txt': 'first\nsecond\n',
};

/**
 * The studio with the demo agent, and a page that shows it. `another` opens one more page. The pages are closed before
 * the program ends: otherwise they would complain that it is gone.
 */
export async function chat(t, { chain = ['demo-agent --pace 0'], page: options = {}, files: more = {}, starts = true } = {}) {
  const cwd = await project({ files: { ...files, ...more } });
  const pages = [];
  const closing = [];
  t.after(async () => {
    for (const page of pages) await page.check();
    for (const close of closing) await close();
  });
  const studio = await startStudio({ cwd, chain });
  closing.push(studio.stop, () => rm(cwd, { recursive: true, force: true }));
  const another = async (more = options) => {
    const page = await openStudio(studio, more);
    pages.push(page);
    return page;
  };
  const page = await another();
  if (starts) await page.waitForSelector('[data-chain-state="running"], [data-chain-state="login"]');
  return { cwd, studio, page, another };
}

export const composer = (page) => page.getByLabel('Message', { exact: true });

/** Writes a message and sends it. */
export async function send(page, text) {
  await composer(page).fill(text);
  await composer(page).press('Enter');
}

/** Waits until the agent has ended its turn, and the page shows it. */
export async function idle(page) {
  await page.waitForSelector('.stop', { state: 'detached' });
  await page.evaluate(() => window.__idle());
}

/** Sends a message and waits for the end of the answer. */
export async function ask(page, text) {
  const users = await page.locator('.message.user').count();
  await send(page, text);
  await page.waitForFunction((n) => document.querySelectorAll('.message.user').length > n, users);
  await page.waitForSelector('.session.current[data-session-state="idle"]', { state: 'attached' });
  await idle(page);
}

/** The studio with an agent that does what the test says. */
export async function scripted(t, { hold = true, ...options } = {}) {
  const agent = await scriptedAgent({ t, hold });
  const { page, cwd, another } = await chat(t, { chain: agent.chain, ...options });
  const update = async (value) => {
    const { sessionId } = await agent.heard('session/prompt');
    agent.notify('session/update', { sessionId, update: value });
  };
  const write = (text) => update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text } });
  return { agent, page, cwd, another, update, write };
}
