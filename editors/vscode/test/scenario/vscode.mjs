// VS Code as an editor that scenarios are played in: what the person does is done in a real window.
import { DEADLINE, openWindow, server, until } from '../harness.mjs';

/** The events of a conversation. The others are about VS Code itself. */
const KINDS = new Set([
  'chain', 'log', 'prompt', 'message', 'thought', 'tool', 'plan', 'question', 'answer', 'note', 'error', 'turn', 'panel',
  'panel gone', 'comment', 'comment gone', 'reply', 'edit',
]);

/** Starts VS Code with a chain. Resolves when a person can write the first message. */
export async function start({ chain, folder, env, emit }) {
  const settings = { 'conductor.chain': chain, 'conductor.environment': env };
  const window = await openWindow(await server(), { folder, settings });
  let known = 0;
  const follow = () => {
    const events = window.events();
    for (const event of events.slice(known)) {
      known += 1;
      if (KINDS.has(event.event)) emit(event);
    }
  };
  const following = setInterval(follow, 20);
  const stop = async () => {
    clearInterval(following);
    await window.close();
  };
  try {
    await window.startChat();
  } catch (error) {
    await window.explain('scenario');
    await stop();
    throw error;
  }
  return new Person(window, stop);
}

class Person {
  constructor(window, stop) {
    this.window = window;
    this.stop = stop;
  }

  async say(text) {
    await this.window.send(text);
  }

  async answer(question, choice) {
    const row = this.window.chat().locator('[data-permission][data-ready="true"]');
    await row.getByRole('button', { name: choice, exact: false }).first().click();
  }

  async reply(comment, text) {
    await this.window.openFile(comment.path);
    const words = comment.text.replaceAll(/[*_`#]/g, '').split('\n').find((line) => line.trim());
    const thread = this.window.thread(words?.trim() ?? '').first();
    await this.window.reply(thread, text);
  }

  async use(panel, { widget, kind, value }) {
    const frame = await this.panel(panel);
    const part = frame.locator(`[data-widget="${widget}"]`);
    if (kind === 'toggle') await part.locator('summary').click();
    else if (kind === 'input') await typeInto(part, value);
    else if (kind === 'click') await part.and(frame.locator(`[data-value="${value}"]`)).or(part).first().click();
    else await choose(part, value);
  }

  async closePanel(panel) {
    await this.panel(panel);
    await this.window.closeTab(panel.label);
  }

  async answerEdit(_edit, accept) {
    await this.window.page.locator('.monaco-diff-editor').first().waitFor();
    await this.window.command(`Conductor: ${accept ? 'Accept' : 'Reject'} Edit`);
  }

  /** The frame of a panel, which is brought to the front. */
  async panel({ label }) {
    await this.window.tab(label).first().click();
    const frame = this.window.panel().locator('.panel-frame').contentFrame();
    await frame.locator('body').waitFor({ timeout: DEADLINE });
    return frame;
  }
}

async function typeInto(part, value) {
  const field = part.locator('input, textarea').or(part).first();
  await field.fill(value);
  const several = await field.evaluate((it) => it.tagName === 'TEXTAREA');
  await field.press(several ? 'Control+Enter' : 'Enter');
}

async function choose(part, value) {
  await until(async () => {
    if (await part.evaluate((it) => it.tagName === 'SELECT')) await part.selectOption(value);
    else await part.locator(`[data-value="${value}"], [value="${value}"]`).first().click();
    return true;
  }, `the choice ${value}`);
}
