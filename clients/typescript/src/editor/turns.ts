// Prompts and their turns: the queue, cancelling, settings, drafts and errors.
import { titleOf } from '../content';
import { at, text } from '../json';
import type { Action, Attachment, Unqueued } from '../link/types';
import type { Outcome, RpcErrorObject } from '../rpc-error';
import { selectId, settingRequest, valueId } from '../settings';
import { immediateContent, isImmediate, type PromptContent, promptContent } from './attachments';
import type { Core } from './core';
import type { Requests } from './requests';
import type { Queued, SessionState, TurnEnd } from './session';
import { setOptions } from './updates';

/** The most prompts that wait in a session. */
const mostQueue = 100;
/** The longest text of a prompt or draft, in bytes. */
const mostPrompt = 4 * 1024 * 1024;

function checkLength(whole: string): void {
  if (whole.length * 3 > mostPrompt && Buffer.byteLength(whole) > mostPrompt) {
    throw new Error('the message is larger than 4 MiB');
  }
}

export class Turns {
  constructor(private readonly core: Core, private readonly requests: Requests) {}

  /** Shows a prompt, and sends it when its turn has come. `done` is told how the turn has ended. */
  async prompt(
    session: SessionState, raw: string, attachments: readonly Attachment[], done: (end: TurnEnd) => void = () => {},
  ): Promise<null> {
    const whole = raw.trim();
    checkLength(whole);
    const knows = this.core.greeting !== undefined || attachments.length === 0;
    // An earlier prompt may still read its files.
    const before = session.lastPrompt;
    if (knows && isImmediate(attachments) && session.reading === 0) {
      this.queue(session, whole, attachments, immediateContent(this.core, whole, attachments), done);
      return null;
    }
    session.reading += 1;
    const queued = before.then(async () => {
      try {
        await new Promise<void>((resolve, reject) => {
          this.core.onceGreeted(resolve, () => reject(new Error('the chain has ended')));
        });
        this.queue(session, whole, attachments, await promptContent(this.core, whole, attachments), done);
      } finally {
        session.reading -= 1;
      }
    });
    session.lastPrompt = queued.catch(() => {});
    await queued;
    return null;
  }

  private queue(
    session: SessionState, whole: string, attachments: readonly Attachment[], content: PromptContent,
    done: (end: TurnEnd) => void,
  ): void {
    if (this.core.sessions.get(session.id) !== session) throw new Error('the session is not open');
    if (session.queue.length >= mostQueue) throw new Error('too many messages wait; remove some of them');
    if (session.activity === 'failed') throw new Error('the session has failed; open a new one');
    const entry = this.core.nextId('m');
    const { blocks, names } = content;
    session.endText();
    session.put(entry, {
      kind: 'user', text: whole, attachments: names, queued: session.activity !== 'idle', time: Date.now(),
    });
    session.remove('draft');
    if (session.title === 'New session') session.title = titleOf(whole || 'Attachment');
    session.time = Date.now();
    session.queue.push({ entry, text: whole, blocks, names, attachments, done });
    session.showInList();
    this.advance(session);
  }

  /** Sends the next prompt, if the session is idle. */
  advance(session: SessionState): void {
    if (session.activity !== 'idle') return;
    const next = session.queue.shift();
    if (!next) return;
    const { entry, text: whole, blocks, names } = next;
    const before = session.get(entry);
    // It was written while the agent worked. Its place is here.
    if (before?.kind === 'user' && before.queued) session.remove(entry);
    session.put(entry, { kind: 'user', text: whole, attachments: names, queued: false, time: Date.now() });
    session.prompt = next;
    session.toolCalls.clear();
    session.toolTimes.clear();
    session.turn += 1;
    session.activity = 'running';
    session.showTurn();
    this.core.ask('session/prompt', { sessionId: session.id, prompt: blocks }, (outcome) => this.onEnd(session, outcome));
  }

  unqueue(session: SessionState | undefined, entry: string): Unqueued {
    const place = session?.queue.findIndex((it) => it.entry === entry) ?? -1;
    const [queued] = place < 0 ? [] : session?.queue.splice(place, 1) ?? [];
    if (!queued) throw new Error('the message was sent already');
    session?.remove(entry);
    queued.done({ error: 'the message was removed' });
    return { text: queued.text, attachments: [...queued.attachments] };
  }

  /** Sends a prompt that failed again. */
  async tryAgain(session: SessionState | undefined, error: string): Promise<null> {
    const entry = session?.get(error);
    if (!session || entry?.kind !== 'error' || entry.prompt === null) throw new Error('there is no message to send again');
    const attachments = session.failedAttachments(error) ?? (entry.attachments.length === 0 ? [] : undefined);
    if (attachments) return this.prompt(session, entry.prompt, attachments);
    const names = entry.attachments.join(', ');
    throw new Error(`what was attached (${names}) is not kept any more; write the message again`);
  }

  sendNow(session: SessionState | undefined, entry: string): null {
    const place = session?.queue.findIndex((it) => it.entry === entry) ?? -1;
    if (!session || place < 0) throw new Error('the message was sent already');
    session.queue.unshift(...session.queue.splice(place, 1));
    this.cancel(session);
    this.advance(session);
    return null;
  }

  /** Cancels the turn. The agent ends it. */
  cancel(session: SessionState | undefined): null {
    if (session?.activity !== 'running') return null;
    session.activity = 'cancelling';
    session.showTurn();
    this.core.connection?.notify('session/cancel', { sessionId: session.id });
    this.requests.questions.cancel(session.id);
    return null;
  }

  /** The agent has answered a prompt. */
  private onEnd(session: SessionState, outcome: Outcome): void {
    this.requests.questions.cancel(session.id);
    this.requests.showTerminals();
    const { prompt } = session;
    session.prompt = null;
    // It was closed.
    if (this.core.sessions.get(session.id) !== session) return;
    session.endText();
    session.activity = 'idle';
    session.time = Date.now();
    if ('ok' in outcome) {
      const stopReason = text(at(outcome.ok, 'stopReason')) ?? 'end_turn';
      session.showTurn(stopReason);
      prompt?.done({ stopReason });
    } else {
      session.showTurn('error');
      const { text: why, login } = this.core.describe(outcome.error, 'session/prompt');
      if (login) this.core.showChain({ state: 'login', error: why });
      this.addError(session, why, outcome.error, prompt);
      prompt?.done({ error: why });
    }
    this.advance(session);
  }

  /** Shows an error in a session. */
  addError(session: SessionState, why: string, error: RpcErrorObject, prompt: Queued | null): void {
    session.endText();
    const entry = this.core.nextId('e');
    if (prompt?.attachments.length) session.keepFailed(entry, prompt.attachments);
    session.put(entry, {
      kind: 'error', text: why, details: JSON.stringify(error, null, 2), prompt: prompt?.text ?? null,
      attachments: prompt?.names ?? [],
    });
  }

  /** The session cannot be used any more. */
  fail(session: SessionState, why: string): void {
    session.endText();
    session.questions = 0;
    session.activity = 'failed';
    session.showTurn();
    this.forget(session, why);
  }

  /** Nobody waits for the prompts of a session any more. */
  forget(session: SessionState, why: string): void {
    for (const queued of [session.prompt, ...session.queue]) queued?.done({ error: why });
    session.prompt = null;
  }

  /** Chooses a value of a setting. */
  select(session: SessionState | undefined, { select, value: wanted }: Extract<Action, { op: 'select' }>): Promise<null> {
    const setting = session?.setting(select);
    const found = setting?.values.find((it) => valueId(it.value) === wanted);
    if (!session || !setting || !found) throw new Error('the agent does not offer this value any more');
    const { value } = found;
    const [method, params] = settingRequest(setting, session.id, value);
    return new Promise((resolve, reject) => {
      this.core.ask(method, params, (outcome) => {
        if ('error' in outcome) return reject(new Error(this.core.describe(outcome.error, 'session/set').text));
        const now = session.settings.find((it) => selectId(it) === select);
        if (now) now.current = value;
        session.showSettings();
        setOptions(session, at(outcome.ok, 'configOptions'));
        resolve(null);
      }, () => reject(new Error('the chain has ended')));
    });
  }

  /** Keeps what the person has written and not sent. */
  draft(topic: string, whole: string): null {
    checkLength(whole);
    if (whole) this.core.topics.put(topic, 'draft', { kind: 'draft', text: whole });
    else this.core.topics.remove(topic, 'draft');
    return null;
  }
}
