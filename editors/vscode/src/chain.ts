// The chain of this window: whether it can run, its start and its end. One `Editor` of the library for each start.
import * as vscode from 'vscode';
import type { Editor, LinkHost } from 'acp-conductor-client';
import { followEvents, describeEvent } from 'acp-conductor-client/events';
import type { Action, Chain, Change, Entry } from 'acp-conductor-client/link';
import {
  agentCommand, chainWords, chosenChain, loginCommand, loginVariables, namesOf, type ChainSpec,
} from './chains';
import { Comments } from './comments';
import { noConfiguration, type Configuration } from './configuration';
import type { Documents } from './documents';
import { Edits } from './edits';
import { Elsewhere } from './elsewhere';
import type { Log } from './events';
import { fileHost } from './files';
import { Keeper } from './keep';
import { messages } from './messages';
import { openFile } from './open';
import { operations } from './operations';
import { onPageRequest } from './page-requests';
import { Panels } from './panels';
import { foldersByUse, pathOf, shownPath, shownWorkspace, usualFolder, workspaceFolders } from './places';
import { allNamed } from './offers';
import { configurationIn, findConductor, type Found } from './program';
import { settings } from './settings';
import { errorLine } from './stderr';
import { setContext, why } from './small';
import { conversationFolders } from './storage';
import { remember, takeOver } from './take-over';

/** Why no chain runs, or that one does. */
export type Situation =
  | { is: 'untrusted' | 'noFolder' | 'noChain' | 'stopped' | 'starting' | 'idle' | 'on' }
  | { is: 'noProgram' | 'wrongChain'; problem: string };

/** What belongs to one run of a chain. */
export interface Run {
  spec: ChainSpec;
  folder: string;
  /** The session of before that goes on. */
  continues: string | null;
  /** Sessions that other windows of the workspace show. */
  elsewhere: Elsewhere;
  editor: Editor;
  link: LinkHost;
  edits: Edits;
  panels: Panels;
  comments: Comments;
  keeper: Keeper | null;
  unfollow: (() => void)[];
}

export class ChainControl {
  situation: Situation = { is: 'idle' };
  run: Run | null = null;
  /** The session that the person looks at. */
  session: string | null = null;

  private readonly changes = new vscode.EventEmitter<void>();
  readonly onDidChange = this.changes.event;
  private readonly chainChanges = new vscode.EventEmitter<Chain>();
  /** The state of the chain has changed: it runs, needs a log-in, or has ended. */
  readonly onDidChangeChain = this.chainChanges.event;
  private readonly askChanges = new vscode.EventEmitter<void>();
  /** A session has another state: it works, asks, or is idle. */
  readonly onDidChangeSessions = this.askChanges.event;
  /** The setting of the chain changes because the person has just chosen it. */
  choosing = false;
  /** Whether a person has sent a message since the chain was started. */
  wasUsed = false;
  private starting: Promise<void> | null = null;
  private restarting = false;
  private found: Found | null = null;

  constructor(private readonly context: vscode.ExtensionContext, readonly log: Log, readonly documents: Documents) {}

  /** The state of the chain, if there is one. */
  get chain(): Chain | null {
    const entry = this.run?.editor.topics.get('chain', 'chain');
    return entry?.kind === 'chain' ? entry : null;
  }

  get isAlive(): boolean {
    return this.run !== null && this.chain?.state !== 'ended';
  }

  /** Starts the chain if nothing keeps it from running, and if the person has not ended it. */
  async ensure(): Promise<void> {
    if (this.run || this.situation.is === 'stopped') return;
    await this.start();
  }

  /** Starts the chain. Two starts at a time are one. */
  start(): Promise<void> {
    this.starting ??= this.tryStart().catch((error: unknown) => this.cannotStart(error)).finally(() => {
      this.starting = null;
      this.changes.fire();
    });
    return this.starting;
  }

  /** Says what has kept the chain from starting. What was started of it ends. */
  private async cannotStart(error: unknown): Promise<void> {
    this.log.write('error', error instanceof Error ? error.stack ?? error.message : String(error));
    await this.end().catch((another: unknown) => this.log.write('error', why(another)));
    const remedy = 'Correct the settings of Conductor if they are the cause, and start the chain again. The log has the details.';
    this.become({ is: 'wrongChain', problem: `The chain could not be started: ${why(error)}\n\n${remedy}` });
  }

  /** Whether the chain is being started. */
  get isStarting(): boolean {
    return this.starting !== null || this.restarting;
  }

  /** Resolves when no start is under way. */
  async settled(): Promise<void> {
    await this.starting;
  }

  async restart(): Promise<void> {
    await this.starting;
    this.restarting = true;
    try {
      await this.end().catch((error: unknown) => this.log.write('error', why(error)));
      const start = this.start();
      this.restarting = false;
      await start;
    } finally {
      this.restarting = false;
    }
  }

  /** Uses another chain from now on: the value of the setting. */
  async choose(value: string | string[]): Promise<void> {
    this.choosing = true;
    try {
      await settings.setChain(value);
    } finally {
      this.choosing = false;
    }
    await this.restart();
  }

  /** Ends the chain because the person wants it. */
  async stop(): Promise<void> {
    await this.starting;
    if (!this.run) return;
    await this.end();
    this.become({ is: 'stopped' });
  }

  /** Ends the chain and its processes. What was said is kept first. */
  async end(): Promise<void> {
    const { run } = this;
    if (!run) return;
    run.keeper?.end();
    this.run = null;
    for (const unfollow of run.unfollow) unfollow();
    run.panels.dispose();
    run.comments.dispose();
    run.edits.dispose();
    await run.editor.stop();
    this.log.own({ event: 'stop' });
    this.changes.fire();
  }

  /** Looks for the program. */
  async program(): Promise<Found> {
    const found = await findConductor(settings.path());
    if ('path' in found) {
      const known = this.found && 'path' in this.found && this.found.path === found.path;
      if (!known) this.log.own({ event: 'program', ...found });
    } else this.log.own({ event: 'no program', problem: found.problem });
    this.found = found;
    setContext('hasProgram', 'path' in found);
    return found;
  }

  /**
   * Conductor's own configuration in the folder. It is read anew: a file may have changed. A folder that is not trusted has
   * none, because no program runs there.
   */
  async configuration(): Promise<Configuration> {
    const folder = usualFolder();
    if (!vscode.workspace.isTrusted || !folder) return noConfiguration;
    const found = await this.program();
    if (!('path' in found)) return noConfiguration;
    const place = { folder: folder.uri.fsPath, env: settings.environment() };
    const configuration = await configurationIn(found.path, place);
    for (const problem of configuration.problems) this.log.write('warn', problem);
    return configuration;
  }

  /** Does what the person does in the chat, a panel or a comment. */
  async act(action: Action): Promise<unknown> {
    const { run } = this;
    if (!run) throw new Error('No chain runs.');
    switch (action.op) {
      case 'newSession': return this.newSession(run);
      case 'answerEdit': return run.edits.answer(action.edit, action.accept);
      case 'logIn': {
        const login = this.chain?.logins.find(({ id }) => id === action.login);
        if (!login?.command) return run.editor.do(action);
        const variables = loginVariables(login.command);
        return variables ? this.logInByVariables(variables) : this.logInByTerminal(run, login.name, login.command);
      }
      default: return run.editor.do(action);
    }
  }

  /** The session that the person looks at, or the newest one that can be used. */
  currentSession(): string | null {
    const sessions = this.run?.editor.topics.entries('sessions') ?? [];
    if (sessions.some(([id]) => id === this.session)) return this.session;
    return sessions.filter(([, entry]) => entry.kind === 'session' && entry.state !== 'saved').at(-1)?.[0] ?? null;
  }

  /** The person looks at a session. `isReady`: the page was ready before, so it does not only remember the session. */
  showSession(id: string, isReady: boolean): void {
    if (this.run?.elsewhere.show(id, isReady)) this.run.keeper?.show(id);
    if (this.session === id) return;
    this.session = id;
    this.log.own({ event: 'session shown', session: id });
  }

  /** A session of this window: the newest one that is open, or a new one. */
  async ownSession({ editor, folder }: Run): Promise<string> {
    const open = editor.topics.entries('sessions').filter(([, entry]) => entry.kind === 'session' && entry.state !== 'saved');
    return open.at(-1)?.[0] ?? editor.newSession(folder);
  }

  /** Sends a prompt to the session that the person looks at. */
  async prompt(text: string): Promise<void> {
    await this.ensure();
    const session = this.currentSession();
    if (session === null) throw new Error('There is no session yet.');
    await this.act({ op: 'prompt', session, text, attachments: [] });
  }

  /** Writes what is wrong with settings into the output. */
  noteSettings(): void {
    for (const note of settings.notes()) this.log.write('warn', note);
  }

  private become(situation: Situation): void {
    this.situation = situation;
    if (situation.is !== 'on' && situation.is !== 'starting') {
      this.log.own({ event: 'off', why: 'problem' in situation ? situation.problem : situation.is });
    }
    this.changes.fire();
  }

  private async tryStart(): Promise<void> {
    if (this.run && this.isAlive) return;
    if (this.run) await this.end();
    if (!vscode.workspace.isTrusted) return this.become({ is: 'untrusted' });
    const folder = usualFolder();
    if (!folder) return this.become({ is: 'noFolder' });
    this.become({ is: 'starting' });
    this.noteSettings();
    const problems = settings.problems();
    if (problems.length) {
      const remedy = 'Correct the settings. The chain starts then.';
      return this.become({ is: 'wrongChain', problem: [...problems, remedy].join('\n\n') });
    }
    const found = await this.program();
    if (!('path' in found)) return this.become({ is: 'noProgram', problem: found.problem });
    const chosen = await this.chosen();
    if (chosen === null) return this.become({ is: 'noChain' });
    if ('problem' in chosen) return this.become({ is: 'wrongChain', problem: chosen.problem });
    await this.open(found.path, chosen.chain, folder.uri.fsPath);
    this.become({ is: 'on' });
  }

  /** The chain of the settings. The configuration is asked only for a name that they do not have. */
  private async chosen() {
    const setting = settings.chain();
    const first = chosenChain(setting, allNamed([]));
    if (first === null || ('chain' in first && first.chain.components.length > 1)) return first;
    const { chains, problems } = await this.configuration();
    const chosen = chosenChain(setting, allNamed(chains));
    if (chosen === null || 'chain' in chosen) return chosen;
    return { problem: [chosen.problem, ...settings.problemsOfChains(), ...problems].join('\n\n') };
  }

  private async open(program: string, spec: ChainSpec, folder: string): Promise<void> {
    // The library is large. It is read when it is first needed.
    const { Editor, LinkHost } = await import('acp-conductor-client');
    const { log } = this;
    const keeper = this.keeper();
    // The components of a chain of the configuration depend on the folder.
    const identity = spec.configured ? chainWords(spec) : spec.components;
    const kept = keeper?.load(identity) ?? { conversations: [], current: null, elsewhere: [] };
    const folderOf = (session: string | null) => editor.folderOf(session);
    // The operations need the topics of the editor, and the editor needs the operations.
    const later: { edits: Edits | null } = { edits: null };
    const edits = { propose: (...words: Parameters<Edits['propose']>) => {
      if (!later.edits) throw new Error('the editor has not started');
      return later.edits.propose(...words);
    } };
    const editor = new Editor({
      program: { command: program, args: this.words(spec), cwd: folder, env: settings.environment() },
      folder,
      otherFolders: () => workspaceFolders().map(({ uri }) => uri.fsPath),
      components: namesOf(spec),
      client: { name: 'conductor-vscode', title: 'Conductor for VS Code', version: this.version },
      host: {
        ...fileHost(folder, log), terminals: true, panels: true, comments: true,
        operations: operations({ log, edits, folderOf, allowed: (...words) => editor.allowed(...words) }),
      },
      restored: kept.conversations,
      ...(kept.current === null ? {} : { continue: kept.current }),
      log: (line) => log.component(line),
      stderr: (line) => {
        const { level, text } = errorLine(line);
        log.write(level, text);
      },
      ...(settings.logMessages() ? { trace: (direction, message) => log.trace(direction, message) } : {}),
    });
    later.edits = new Edits(editor.topics, folder, this.documents, log);
    const { topics } = editor;
    const act = (action: Action) => this.act(action);
    this.run = {
      spec, folder, editor, keeper, continues: kept.current, elsewhere: new Elsewhere(kept.elsewhere),
      link: new LinkHost(topics, () => ({ chat: true, title: spec.name, folder }), act),
      edits: later.edits,
      panels: new Panels(topics, {
        extension: this.context.extensionUri, log, act, request: (message, panel) => onPageRequest(this, message, panel),
      }),
      comments: new Comments(topics, folder, {
        log, act, ask: (text) => this.prompt(text),
        icon: vscode.Uri.joinPath(this.context.extensionUri, 'images/icon.png'),
        author: () => this.chain?.agent ?? namesOf(spec).at(-1) ?? 'Agent',
      }),
      unfollow: [
        followEvents(topics, (event) => {
          log.follow(event, describeEvent(event));
          if (event.event !== 'prompt') return;
          this.wasUsed = true;
          setContext('prompted', true);
        }),
        topics.follow((topic, change) => this.follow(topic, change)),
      ],
    };
    this.session = kept.current;
    this.wasUsed = false;
    log.own({
      event: 'start', chain: namesOf(spec), folder, restored: kept.conversations.length,
      continues: kept.current,
    });
    editor.start();
  }

  private get version(): string {
    const { version }: { version?: unknown } = this.context.extension.packageJSON;
    return typeof version === 'string' ? version : '0';
  }

  /** The words after `conductor`. */
  private words(spec: ChainSpec): string[] {
    const options = settings.options();
    const hasLevel = options.some((word) => word === '--log' || word.startsWith('--log='));
    const chosen = settings.logLevel();
    const level = hasLevel || chosen === null ? [] : ['--log', chosen];
    return ['agent', ...level, ...options, ...chainWords(spec)];
  }

  private keeper(): Keeper | null {
    const { storageUri, globalState } = this.context;
    if (!storageUri) return null;
    const places = conversationFolders(storageUri.fsPath);
    try {
      takeOver(places, shownWorkspace(), globalState);
    } catch (error) {
      this.log.write('warn', `conversations of before were not taken over: ${why(error)}`);
    }
    const conversations = () => this.run?.editor.conversations() ?? null;
    return new Keeper(places.own, places.others, settings.keptConversations, conversations, {
      problem: (text) => this.log.write('warn', text),
      kept: (count) => this.log.own({ event: 'kept', conversations: count }),
    });
  }

  /** The workspace has other folders now, and may be saved under another name later. */
  foldersChanged(): void {
    const { storageUri, globalState } = this.context;
    // The sessions of a new folder are listed.
    this.run?.editor.do({ op: 'listSessions' }).catch(() => {});
    if (this.run && storageUri) remember(conversationFolders(storageUri.fsPath), shownWorkspace(), globalState);
  }

  private follow(topic: string, change: Change | { c: 'clear' }): void {
    this.run?.keeper?.follow(topic, change);
    if (topic === 'sessions') this.askChanges.fire();
    else if (topic === 'chain' && change.c !== 'clear' && change.id === 'chain' && this.chain) {
      if (this.chain.state === 'ended') this.run?.edits.withdrawAll();
      this.chainChanges.fire(this.chain);
    }
  }

  /** A new session. Where there are several folders, the person chooses one. */
  private async newSession(run: Run): Promise<string> {
    const { topics } = run.editor;
    const isOpen = (entry: Entry) => entry.kind === 'session' && entry.state !== 'saved';
    const [first, second] = topics.entries('sessions').filter(([, entry]) => isOpen(entry));
    // A message that was written before the first session was shown belongs to that one.
    if (!first) return run.editor.newSession(run.folder);
    const isUsed = topics.entries(`session/${first[0]}`).some(([, { kind }]) => kind === 'user' || kind === 'agent');
    if (!second && !isUsed && this.session === null) return first[0];
    const folders = foldersByUse();
    if (folders.length < 2) return run.editor.newSession(folders[0]?.uri.fsPath ?? run.folder);
    const items = folders.map((folder) => ({ label: folder.name, description: folder.uri.fsPath, folder }));
    const picked = await vscode.window.showQuickPick(items, {
      // The chat gets the focus at the same time, and must not close the list.
      title: 'The folder of the new session', placeHolder: 'The agent works in this folder', ignoreFocusOut: true,
    });
    if (!picked) throw new Error('No folder was chosen.');
    return run.editor.newSession(picked.folder.uri.fsPath);
  }

  /** Opens a file that a panel or the chat names. A relative path belongs to the session, or is one that the chat has shown. */
  async openFile(path: string, line: number | null, panel: string | null): Promise<void> {
    const { run } = this;
    const own = panel === null ? run?.editor.folderOf(this.currentSession()) : run?.editor.folderOfPanel(panel);
    const folders = [own, run?.folder, usualFolder()?.uri.fsPath].filter((it) => it !== undefined);
    for (const folder of new Set(folders)) {
      try {
        return await openFile(pathOf(path, folder), line === null ? null : { line, column: 1 }, true);
      } catch {
        // It may be in the next folder.
      }
    }
    void messages.warn(`There is no file ${path}.`);
  }

  /** Shows a change that a page names. */
  async showDiff(path: string, old: string | null, text: string): Promise<void> {
    const file = pathOf(path, this.run?.folder ?? '/');
    await this.documents.showDiff(file, old, text, `${shownPath(file)} (${old === null ? 'new file' : 'change'})`);
  }

  /** A log-in that needs environment variables. The chain starts again when the setting has changed. */
  private async logInByVariables(names: string[]): Promise<null> {
    const open = 'Open Settings';
    const answer = await messages.info(
      `Set ${names.join(' and ') || 'the variables of the agent'} in the setting conductor.environment.`, open);
    if (answer === open) {
      await vscode.commands.executeCommand('workbench.action.openSettings', 'conductor.environment');
    }
    return null;
  }

  /** A log-in that needs a terminal: its command runs there. When it has ended, the chain is started again. */
  private async logInByTerminal(run: Run, name: string, command: string): Promise<null> {
    const env: Record<string, string | null> = {};
    for (const [name, value] of Object.entries(settings.environment())) env[name] = value ?? null;
    const terminal = vscode.window.createTerminal({ name, cwd: run.folder, env });
    terminal.show();
    terminal.sendText(loginCommand(command, agentCommand(run.spec)));
    const closed = vscode.window.onDidCloseTerminal((it) => {
      if (it !== terminal) return;
      closed.dispose();
      if (this.run === run && this.chain?.state === 'login') void this.restart();
    });
    const answer = await messages.info(
      'Complete the log-in in the terminal. Then start the chain again.', 'Restart Chain');
    if (answer && this.run === run) await this.restart();
    return null;
  }
}
