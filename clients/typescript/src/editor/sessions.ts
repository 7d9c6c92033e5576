// Opens, lists, loads and closes sessions.
import { titleOf } from '../content';
import { at, list, text } from '../json';
import type { Session } from '../link/types';
import type { Outcome, RpcErrorObject } from '../rpc-error';
import { settingsOf } from '../settings';
import type { Core } from './core';
import type { Requests } from './requests';
import { SessionState } from './session';
import type { Turns } from './turns';
import { applyUpdate } from './updates';

/** How many earlier sessions of a folder are listed. */
const mostListed = 200;
/** The most sessions that are open at a time. */
const mostSessions = 50;
/** The most updates that are kept before the id of their session is known. */
const mostEarly = 1000;

const ended = (): Error => new Error('the chain has ended');
const newTitle = 'New session';

/** How a session is opened. A new one may take over the conversation of one that the agent cannot open, and says why. */
type Opening =
  | { method: 'session/new'; cwd: string; takes: { session: SessionState; why: string } | null }
  | { method: 'session/load' | 'session/resume'; session: SessionState };

/** The code of the error that says that something does not exist. */
const notFound = -32002;

/** Gets the id of an opened session. */
interface Answer { resolve: (id: string) => void; reject: (why: Error) => void }

export class Sessions {
  /** Updates that arrived before the id of their session. */
  private early: Array<{ session: string; update: unknown }> = [];
  /** The new ids of conversations that a new session took over. */
  private readonly moved = new Map<string, string>();
  /** How many new sessions are being opened. */
  private opening = 0;
  /** Whether the first session is being opened. */
  private opensFirst = false;
  /** Who waits for the first session. */
  private waiting: Answer[] = [];

  constructor(
    private readonly core: Core,
    private readonly requests: Requests,
    private readonly turns: Turns,
    private readonly folder: string,
    /** The turns of restored sessions so far. */
    private readonly lastTurns: Map<string, number>,
    /** The other folders of the project. */
    private readonly otherFolders: () => readonly string[],
  ) {}

  /** Opens the session that the editor begins with, and lists the earlier ones. */
  begin(restored: string | undefined): void {
    const hasFailed = this.core.sessions.get(restored ?? '')?.activity === 'failed';
    if (restored !== undefined && (hasFailed || this.isSaved(restored))) {
      this.openSaved(restored).catch(() => {});
      for (const answer of this.waiting.splice(0)) this.openNew(this.folder, answer);
    } else if (![...this.core.sessions.values()].some((it) => it.activity !== 'failed') || this.waiting.length > 0) {
      this.opensFirst = true;
      const finish = (act: (answer: Answer) => void) => {
        this.opensFirst = false;
        this.waiting.splice(0).forEach(act);
      };
      this.openNew(this.folder, {
        resolve: (id) => finish((answer) => answer.resolve(id)),
        reject: (why) => finish((answer) => answer.reject(why)),
      });
    }
    if (this.core.can('list')) void this.list().catch(() => {});
  }

  /** Opens a new session, or waits for the first one if that is being opened anyway. */
  open(cwd: string): Promise<string> {
    return new Promise((resolve, reject) => {
      const answer = { resolve, reject };
      const { state } = this.core.chain;
      if (state === 'ended') return reject(ended());
      const isOther = cwd !== this.folder;
      if (!isOther && (state === 'starting' || this.opensFirst)) return void this.waiting.push(answer);
      return this.core.onceGreeted(() => this.openNew(cwd, answer), () => reject(ended()));
    });
  }

  /** The chain has ended. */
  end(why: Error): void {
    for (const answer of this.waiting.splice(0)) answer.reject(why);
    for (const session of this.core.sessions.values()) {
      session.undoReplay();
      this.turns.fail(session, why.message);
    }
  }

  /** Whether a session is shown that is not open at the agent. */
  isSaved(id: string): boolean {
    const shown = this.core.topics.get('sessions', id);
    return shown?.kind === 'session' && shown.state === 'saved';
  }

  /** Loads or resumes an earlier session, if it is not open. The id of a conversation that moves changes. */
  openSaved(id: string): Promise<string> {
    const known = this.core.sessions.get(id);
    if (known && known.activity !== 'failed') return known.opened ?? Promise.resolve(id);
    const shown = this.core.topics.get('sessions', id);
    const isRestored = this.core.topics.entries(`session/${id}`).length > 0;
    if (this.core.greeting !== undefined && !isRestored && !this.core.canLoad && !this.core.canResume) {
      return Promise.reject(new Error('the agent cannot load earlier sessions'));
    }
    if (this.core.sessions.size >= mostSessions && !known) {
      return Promise.reject(new Error('too many sessions are open; close one of them'));
    }
    const { title, cwd, time } = shown?.kind === 'session' ? shown : { title: id, cwd: '', time: Date.now() };
    const session = new SessionState(this.core.topics, id, title, cwd || this.folder, 'loading', time);
    session.turn = known?.turn ?? this.lastTurns.get(id) ?? 0;
    session.queue = known?.queue ?? [];
    this.core.sessions.set(id, session);
    session.opened = new Promise<string>((resolve, reject) => {
      this.core.onceGreeted(() => this.reopen(session, { resolve, reject }), () => reject(ended()));
    }).finally(() => {
      session.opened = null;
    });
    return session.opened;
  }

  /** The id that a conversation has now: it changes if a new session takes over. */
  idOf(id: string): string {
    return this.moved.get(id) ?? id;
  }

  private reopen(session: SessionState, answer: Answer): void {
    const { canLoad, canResume } = this.core;
    if (canLoad) {
      session.beforeReplay = [...this.core.topics.entries(session.topic)];
      this.request({ method: 'session/load', session }, answer);
    } else if (canResume) {
      this.request({ method: 'session/resume', session }, answer);
    } else {
      const takes = { session, why: 'The agent cannot open earlier sessions.' };
      this.request({ method: 'session/new', cwd: session.cwd, takes }, answer);
    }
  }

  private openNew(cwd: string, answer: Answer): void {
    if (this.core.sessions.size >= mostSessions) {
      return answer.reject(new Error('too many sessions are open; close one of them'));
    }
    this.request({ method: 'session/new', cwd, takes: null }, answer);
  }

  private request(opening: Opening, answer: Answer): void {
    const { method } = opening;
    const isNew = method === 'session/new';
    const cwd = isNew ? opening.cwd : opening.session.cwd;
    if (cwd !== this.folder) this.core.project.add(cwd);
    const params = { cwd, mcpServers: this.core.mcpServers, ...(isNew ? {} : { sessionId: opening.session.id }) };
    this.opening += isNew ? 1 : 0;
    this.core.ask(method, params, (outcome) => {
      this.opening -= isNew ? 1 : 0;
      const next = 'error' in outcome ? this.otherWay(opening, outcome.error) : null;
      if (next) return this.request(next, answer);
      try {
        answer.resolve(this.onOpened(opening, outcome));
      } catch (error) {
        answer.reject(error instanceof Error ? error : new Error(String(error)));
      }
    }, () => answer.reject(ended()));
  }

  /**
   * How a kept conversation goes on if the agent could not open its session: by resuming it instead of loading it, or else in
   * a new session. Many agents have no special error for a session that they do not know. Null if there is no other way.
   */
  private otherWay(opening: Opening, error: RpcErrorObject): Opening | null {
    if (opening.method === 'session/new') return null;
    const { method, session } = opening;
    const { text: reason, login } = this.core.describe(error, method);
    if (this.core.sessions.get(session.id) !== session || login || !session.wasKept) return null;
    session.undoReplay();
    if (method === 'session/load' && this.core.canResume) return { method: 'session/resume', session };
    const why = error.code === notFound ? 'The agent does not have this session any more.'
      : `The agent could not open this session: ${(reason.split('\n')[0] ?? '').replace(/[.\s]+$/, '')}.`;
    return { method: 'session/new', cwd: session.cwd, takes: { session, why } };
  }

  private onOpened(opening: Opening, outcome: Outcome): string {
    const placeholder = opening.method === 'session/new' ? opening.takes?.session ?? null : opening.session;
    if ('error' in outcome) throw this.onFailed(opening, placeholder, outcome.error);
    const id = opening.method === 'session/new' ? text(at(outcome.ok, 'sessionId')) ?? '' : opening.session.id;
    if (!id) {
      const why = 'the agent has answered session/new without a sessionId';
      this.core.showChain({ error: why });
      if (placeholder) this.turns.fail(placeholder, why);
      throw new Error(why);
    }
    if (placeholder && this.core.sessions.get(placeholder.id) !== placeholder) throw new Error('the session was closed');
    const session = this.opened(opening, placeholder, id);
    session.activity = 'idle';
    session.settings = settingsOf(outcome.ok);
    session.endText();
    session.forgetReplay();
    session.showSettings();
    session.showTurn();
    if (this.core.chain.error !== null || this.core.chain.state === 'login') {
      this.core.showChain({ error: null, state: 'running' });
    }
    this.applyEarly();
    // Prompts that were written while the session was opened.
    this.turns.advance(session);
    return session.id;
  }

  private opened(opening: Opening, placeholder: SessionState | null, id: string): SessionState {
    const { sessions, topics } = this.core;
    if (opening.method === 'session/new' && placeholder?.id !== id) this.moveAside(id);
    if (!placeholder) {
      const cwd = opening.method === 'session/new' ? opening.cwd : this.folder;
      const session = sessions.get(id) ?? new SessionState(topics, id, newTitle, cwd, 'idle');
      sessions.set(id, session);
      return session;
    }
    if (opening.method === 'session/new') {
      sessions.delete(placeholder.id);
      this.moved.set(placeholder.id, id);
      placeholder.rename(id);
      sessions.set(id, placeholder);
      placeholder.put(this.core.nextId('n'), {
        kind: 'note',
        text: `${opening.takes?.why ?? ''} This is a new session: the agent does not know what was said before.`.trim(),
      });
    }
    return placeholder;
  }

  /** Many agents number their sessions. A kept conversation with the id of a new session gets another id. */
  private moveAside(id: string): void {
    const { sessions, topics } = this.core;
    const shown = topics.get('sessions', id);
    const entries = topics.entries(`session/${id}`);
    const hasWords = entries.some(([, { kind }]) => kind === 'user' || kind === 'agent');
    if (sessions.has(id) || shown?.kind !== 'session' || !hasWords) return;
    let count = 1;
    while (topics.get('sessions', `${id}~${count}`)) count += 1;
    const other = `${id}~${count}`;
    this.lastTurns.set(other, this.lastTurns.get(id) ?? 0);
    for (const [entry, value] of entries) topics.put(`session/${other}`, entry, value);
    topics.put('sessions', other, shown);
    topics.clear(`session/${id}`);
  }

  private onFailed(opening: Opening, placeholder: SessionState | null, error: RpcErrorObject): Error {
    const { text: why, login } = this.core.describe(error, opening.method);
    const isUnusable = [...this.core.sessions.values()].every((it) => it === placeholder);
    if (login) this.core.showChain({ state: 'login', error: why });
    else if (isUnusable && !placeholder) this.core.showChain({ error: why });
    if (placeholder && this.core.sessions.get(placeholder.id) === placeholder) {
      placeholder.undoReplay();
      this.turns.addError(placeholder, why, error, null);
      this.turns.fail(placeholder, why);
    }
    return new Error(why);
  }

  /** Shows an update, or keeps it if its session may be known soon: some agents send updates before the answer. */
  onUpdate(params: unknown): void {
    const id = text(at(params, 'sessionId')) ?? '';
    const update = at(params, 'update');
    const session = this.core.sessions.get(id);
    if (session) return applyUpdate(this.core, session, update);
    if (this.opening > 0 && this.early.length < mostEarly) this.early.push({ session: id, update });
  }

  private applyEarly(): void {
    const early = this.early.splice(0);
    for (const { session: id, update } of early) {
      const session = this.core.sessions.get(id);
      if (session) applyUpdate(this.core, session, update);
      // It may belong to another session that is being opened.
      else if (this.opening > 0) this.early.push({ session: id, update });
    }
  }

  /** Asks the agent for its earlier sessions in all folders. An error about one folder does not hide the others. */
  async list(): Promise<null> {
    if (!this.core.can('list')) return null;
    const errors: unknown[] = [];
    for (const folder of new Set([this.folder, ...this.otherFolders()])) {
      await this.listFolder(folder).catch((error: unknown) => errors.push(error));
    }
    if (errors.length > 0) throw errors[0];
    return null;
  }

  /** The earlier sessions in a folder, page by page. */
  private async listFolder(folder: string): Promise<void> {
    const found: unknown[] = [];
    let cursor: string | undefined;
    do {
      const answer = await this.page(folder, cursor);
      const page = list(at(answer, 'sessions'));
      found.push(...page);
      cursor = page.length > 0 ? text(at(answer, 'nextCursor')) : undefined;
    } while (cursor !== undefined && found.length < mostListed);
    for (const listed of found.slice(0, mostListed)) this.showListed(listed, folder);
  }

  private page(cwd: string, cursor: string | undefined): Promise<unknown> {
    const params = { cwd, ...(cursor === undefined ? {} : { cursor }) };
    return new Promise((resolve, reject) => {
      this.core.ask('session/list', params, (outcome) => {
        if ('ok' in outcome) resolve(outcome.ok);
        else reject(new Error(this.core.describe(outcome.error, 'session/list').text));
      }, () => reject(ended()));
    });
  }

  private showListed(listed: unknown, folder: string): void {
    const id = text(at(listed, 'sessionId'));
    if (id === undefined) return;
    const title = titleOf(text(at(listed, 'title')) ?? '');
    const open = this.core.sessions.get(id);
    if (open) {
      if (title) open.title = title;
      return open.showInList();
    }
    const before = this.core.topics.get('sessions', id);
    const known: Session | null = before?.kind === 'session' ? before : null;
    const time = Date.parse(text(at(listed, 'updatedAt')) ?? '');
    const usual = folder === this.folder ? '' : folder;
    this.core.topics.put('sessions', id, {
      kind: 'session', title: title || known?.title || id, cwd: text(at(listed, 'cwd')) ?? known?.cwd ?? usual,
      state: 'saved', time: Math.max(0, time || 0, known?.time ?? 0),
    });
  }

  /** Closes a session: at the agent, if it can do that, and in the view. */
  async close(id: string): Promise<null> {
    const session = this.core.sessions.get(id);
    if (session) {
      this.turns.cancel(session);
      this.requests.questions.cancel(id);
      this.requests.endSession(id);
      this.turns.forget(session, 'the session was closed');
      this.core.sessions.delete(id);
    } else if (this.core.topics.entries(`session/${id}`).length === 0) {
      return null;
    }
    this.core.topics.clear(`session/${id}`);
    this.core.topics.remove('sessions', id);
    const isRunning = this.core.chain.state === 'running';
    const closed = session && isRunning && this.core.can('close') ? this.closeAtAgent(id) : Promise.resolve(null);
    // The agent may keep it.
    if (isRunning) this.list().catch(() => {});
    return closed;
  }

  private closeAtAgent(sessionId: string): Promise<null> {
    return new Promise((resolve, reject) => {
      this.core.ask('session/close', { sessionId }, (outcome) => {
        if ('ok' in outcome) resolve(null);
        else reject(new Error(this.core.describe(outcome.error, 'session/close').text));
      }, () => reject(ended()));
    });
  }
}
