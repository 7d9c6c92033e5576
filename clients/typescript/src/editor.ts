// The editor's side of ACP: sessions, prompts, updates and questions, as topics that a view shows.
import { capabilitiesOf } from './capabilities';
import { Connection } from './connection';
import { Core, type LogLine } from './editor/core';
import { Requests } from './editor/requests';
import { type Conversation, conversationsOf, showConversations } from './editor/restored';
import type { SessionState, TurnEnd } from './editor/session';
import { Sessions } from './editor/sessions';
import { Turns } from './editor/turns';
import type { Host } from './host';
import type { Action, FoundFile } from './link/types';
import { Topics } from './link/topics';
import type { Program } from './program';
import { Project } from './project';
import type { Outcome } from './rpc-error';
import { Surface } from './surface';

export type { Conversation, LogLine };

export interface EditorOptions {
  program: Program;
  /** The folder of the project. */
  folder: string;
  /** The other folders of the project: earlier sessions in them are listed, too. */
  otherFolders?: () => readonly string[];
  /** The names of the components, the agent last. */
  components: string[];
  client: { name: string; title: string; version: string };
  host: Host;
  /** Conversations of an earlier run. They are shown at once. */
  restored?: Conversation[];
  /** The id of the restored session to open first, instead of a new one. */
  continue?: string;
  /** Gets the log messages of components: `_scp/log` and `_proxy/log`. */
  log?: (line: LogLine) => void;
  /** Gets the lines that the program writes to its error output. */
  stderr?: (line: string) => void;
  /** Gets every message, as it is on the wire. */
  trace?: (direction: 'in' | 'out', message: unknown) => void;
  /** The MCP servers of new sessions. */
  mcpServers?: unknown[];
}

/** A function of the caller whose errors do not stop the editor: they are thrown where nobody waits. */
function guarded<Words extends unknown[]>(call: ((...words: Words) => void) | undefined): (...words: Words) => void {
  return (...words) => {
    try {
      call?.(...words);
    } catch (error) {
      queueMicrotask(() => {
        throw error;
      });
    }
  };
}

const needsChain = ['openSession', 'listSessions', 'prompt', 'tryAgain', 'select', 'logIn'];

export class Editor {
  /** `chain`, `sessions`, `session/ID`, `panels`, `comments`, `edits` and `files`. */
  readonly topics = new Topics();
  private readonly core: Core;
  private readonly requests: Requests;
  private readonly turns: Turns;
  private readonly sessions: Sessions;

  constructor(private readonly options: EditorOptions) {
    const { folder, host, program } = options;
    const project = new Project(folder, host.isInside?.bind(host));
    const surface = new Surface(this.topics, project, host, (method, params) => {
      if (this.core.isEnded) throw new Error('the chain has ended');
      this.core.connection?.notify(method, params);
    }, (session) => this.folderOf(session));
    const log = guarded(options.log);
    this.core = new Core(this.topics, project, surface, host, options.components, options.mcpServers ?? [], log);
    const last = showConversations(this.topics, options.restored ?? []);
    this.core.skipIds(last.entry);
    this.requests = new Requests(this.core, program.env ?? process.env, last.terminal);
    this.turns = new Turns(this.core, this.requests);
    this.sessions = new Sessions(this.core, this.requests, this.turns, folder, last.turns, () => options.otherFolders?.() ?? []);
  }

  /** Starts the program, greets it, and opens the first session. */
  start(): void {
    if (this.core.connection) throw new Error('the editor was started already; make a new one');
    this.core.connection = new Connection(this.options.program, {
      request: (method, params, signal) => this.requests.handle(method, params, signal),
      notification: (method, params) => this.onNotification(method, params),
      ended: (why) => this.onEnd(why),
      stderr: guarded(this.options.stderr),
      trace: guarded(this.options.trace),
    });
    const params = {
      protocolVersion: 1, clientCapabilities: capabilitiesOf(this.options.host), clientInfo: this.options.client,
    };
    this.core.ask('initialize', params, (outcome) => this.onGreeting(outcome));
  }

  /** The folder of a session: relative paths belong to it. Of an unknown one, it is the folder of the editor. */
  folderOf(session: string | null): string {
    const entry = this.topics.get('sessions', this.sessions.idOf(session ?? ''));
    return entry?.kind === 'session' && entry.cwd ? entry.cwd : this.options.folder;
  }

  /** The folder that relative paths in a panel belong to. */
  folderOfPanel(id: string): string {
    return this.core.surface.folderOfPanel(id);
  }

  /**
   * For operations of the host: the path of a file that may be read. For one outside of the folder, the library asks the person in
   * the session. An error says that it may not be read.
   */
  allowed(path: string, session: string | null, signal: AbortSignal): Promise<string> {
    return this.requests.allowed(path, 'read', { sessionId: session }, signal);
  }

  /** Does what a person asks for. The results are those of `Action`. An error has a text for people. */
  async do(asked: Action): Promise<unknown> {
    const { core, sessions, turns } = this;
    const action = 'session' in asked ? { ...asked, session: sessions.idOf(asked.session) } : asked;
    if (core.isEnded && needsChain.includes(action.op)) throw new Error('the chain has ended');
    const session = 'session' in action ? core.sessions.get(action.session) : undefined;
    switch (action.op) {
      case 'newSession': return this.newSession();
      case 'openSession': return sessions.openSaved(action.session);
      case 'listSessions': return sessions.list();
      case 'closeSession': return sessions.close(action.session);
      case 'prompt': return turns.prompt(this.openSession(action.session), action.text, action.attachments);
      case 'unqueue': return turns.unqueue(session, action.entry);
      case 'tryAgain': return turns.tryAgain(session, action.entry);
      case 'sendNow': return turns.sendNow(session, action.entry);
      case 'cancel': return turns.cancel(session);
      case 'killTerminal': return this.requests.killTerminal(action.terminal);
      case 'answer': return this.requests.questions.answer(action.entry, action.choice);
      case 'select': return turns.select(session, action);
      case 'logIn': return this.logIn(action.login);
      case 'draft': {
        if (!session && !sessions.isSaved(action.session)) throw new Error('the session is not open');
        return turns.draft(`session/${action.session}`, action.text);
      }
      // What a view shows is of interest only to operations, and those belong to the host.
      case 'viewing': return null;
      default: return this.act(action);
    }
  }

  /** Panels, comments, edits and files. */
  private async act(action: Action): Promise<unknown> {
    const { host } = this.options;
    const unknown = () => Promise.reject(new Error('this program does not know the action'));
    switch (action.op) {
      case 'listFiles': return host.listFiles?.(action.path) ?? unknown();
      case 'readFile': return host.readFile?.(action.path) ?? unknown();
      case 'findFiles': {
        const found = await (host.findFiles?.(action.text) ?? unknown());
        return found.slice(0, 50).map((path): FoundFile => ({ path }));
      }
      default: return this.core.surface.act(action) ?? unknown();
    }
  }

  /** The conversations, to keep them. */
  conversations(): Conversation[] {
    return conversationsOf(this.topics, (id) => this.core.sessions.get(id)?.replaced ?? null);
  }

  /** Opens a new session in this folder. Returns its id. While the first session is being opened, that one is meant. */
  newSession(cwd: string = this.options.folder): Promise<string> {
    return this.sessions.open(cwd);
  }

  /** Sends a prompt, and waits for the end of its turn. */
  prompt(session: string, text: string): Promise<{ stopReason: string }> {
    return new Promise((resolve, reject) => {
      const done = (end: TurnEnd) => ('error' in end ? reject(new Error(end.error)) : resolve(end));
      if (this.core.isEnded) return reject(new Error('the chain has ended'));
      this.turns.prompt(this.openSession(this.sessions.idOf(session)), text, [], done).catch(reject);
    });
  }

  /** Ends the program and all of its processes. Open questions are cancelled. */
  async stop(): Promise<void> {
    // At once: the chain may take seconds to end, and the caller may not have them.
    const commands = this.requests.end();
    if (this.core.connection) await this.core.connection.stop();
    else this.onEnd(null);
    await commands;
    await this.requests.end();
  }

  /** The session, which is opened at the agent if it is only saved. Throws an error if there is none. */
  private openSession(id: string): SessionState {
    if (!this.core.sessions.has(id) && this.sessions.isSaved(id)) this.sessions.openSaved(id).catch(() => {});
    const session = this.core.sessions.get(id);
    if (!session) throw new Error('the session is not open');
    return session;
  }

  private logIn(methodId: string): Promise<null> {
    return new Promise((resolve, reject) => {
      this.core.ask('authenticate', { methodId }, (outcome) => {
        if ('error' in outcome) {
          const why = this.core.describe(outcome.error, 'authenticate').text;
          return reject(new Error(`the log-in '${methodId}' failed: ${why}`));
        }
        this.core.showChain({ state: 'running', error: null });
        const isUsable = [...this.core.sessions.values()].some((it) => it.activity !== 'failed');
        if (!isUsable) this.sessions.begin(this.options.continue);
        resolve(null);
      }, () => reject(new Error('the chain has ended')));
    });
  }

  private onNotification(method: string, params: unknown): void {
    switch (method) {
      case 'session/update': return this.sessions.onUpdate(params);
      case '_scp/log': case '_proxy/log': return this.core.onLog(params);
      default:
        // A component that does not wait for the answer.
        if (this.core.surface.knows(method)) {
          this.core.surface.handle(method, params, new AbortController().signal).catch(() => {});
        }
    }
  }

  private onGreeting(outcome: Outcome): void {
    if ('error' in outcome) {
      const { text: why } = this.core.describe(outcome.error, 'initialize');
      this.core.end(why);
      this.sessions.end(new Error(why));
      // The program is of no use.
      void this.stop();
      return;
    }
    this.core.onGreeting(outcome.ok);
    this.sessions.begin(this.options.continue);
  }

  private onEnd(why: string | null): void {
    this.core.end(why);
    this.requests.questions.cancel(null);
    void this.requests.end();
    this.core.surface.end();
    this.sessions.end(new Error(this.core.chain.error ?? 'the chain has ended'));
  }
}
