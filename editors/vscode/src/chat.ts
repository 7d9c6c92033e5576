// The chat: a view in the side bar and tabs of the editor. All of them show the state that the chain's `Editor` holds.
import * as vscode from 'vscode';
import type { ChainControl, Run } from './chain';
import { messages } from './messages';
import { completed, offers, type Offer } from './offers';
import { onPageRequest } from './page-requests';
import { mediaFolder, pageHtml, welcomeHtml, type PlaceOfPage, type Welcome, type WelcomeButton } from './html';
import { why } from './small';

export const viewId = 'conductor.chat';
export const tabType = 'conductor.chatTab';

/** The commands of web/src/vscode/commands.ts. */
export type PageCommand =
  | { command: 'newSession' | 'focus' | 'sessions' | 'cancel' }
  | { command: 'showSession'; session: string }
  | { command: 'insert'; text: string }
  | { command: 'insert'; path: string; lines?: [number, number] };

/** So many messages of a page wait for the start of the chain. */
const mostEarly = 200;

/** One page. */
class Page {
  private shows: 'chat' | 'welcome' | null = null;
  private connection: { receive(message: unknown): void; close(): void } | null = null;
  private linkedTo: Run | null = null;
  /** Whether the page has said hello since it was told that the link is closed. */
  private greeted = false;
  /** What the page has said while no chain ran, from its hello on. */
  private early: object[] = [];
  /** Whether the page takes commands. */
  private isReady = false;
  /** The run whose session the page was told. */
  private told: Run | null = null;
  private held: PageCommand[] = [];
  private choices: Offer[] = [];
  /** Counts the calls of `render`: an older one may end later. */
  private renders = 0;

  constructor(private readonly control: ChainControl, private readonly extension: vscode.Uri,
    readonly webview: vscode.Webview, readonly place: PlaceOfPage) {
    webview.options = { enableScripts: true, localResourceRoots: [mediaFolder(extension)] };
    webview.onDidReceiveMessage((message: unknown) => this.receive(message));
  }

  /** Shows the chat or, while there is none, why. */
  async render(): Promise<void> {
    const { control } = this;
    const mine = this.renders += 1;
    if (control.run && this.early.length > 0) {
      for (const message of this.early.splice(0)) this.receiveLink(message);
    } else if (this.linkedTo !== control.run) this.unlink();
    // A chat that is shown stays while its chain starts again.
    if (this.shows === 'chat' && (control.run || control.isStarting)) return;
    if (control.run) {
      this.shows = 'chat';
      this.greeted = false;
      this.early = [];
      this.webview.html = pageHtml(this.webview, this.extension, 'chat', this.place);
      return;
    }
    const { welcome, choices } = await welcomeOf(control);
    if (mine !== this.renders || control.run || (this.shows === 'chat' && control.isStarting)) return;
    this.shows = 'welcome';
    this.greeted = false;
    this.early = [];
    this.choices = choices;
    this.webview.html = welcomeHtml(welcome);
  }

  /** Sends a command, as soon as the page can take it. */
  post(command: PageCommand): void {
    if (this.isReady) void this.webview.postMessage(command);
    else this.held = [...this.held, command].slice(-20);
  }

  /** The page is gone or hidden, or its chain is another one now. It says hello again when it is there. */
  unlink(): void {
    this.connection?.close();
    this.connection = null;
    this.linkedTo = null;
    this.isReady = false;
    this.early = [];
    if (this.greeted) void this.webview.postMessage({ closed: true });
    this.greeted = false;
  }

  private receive(message: unknown): void {
    if (typeof message !== 'object' || message === null) return;
    if ('link' in message) this.receiveLink(message.link);
    else if ('welcome' in message && typeof message.welcome === 'string') {
      this.choose(message.welcome).catch((error: unknown) => void messages.warn(why(error)));
    }
    else if ('host' in message) onPageRequest(this.control, message);
  }

  private receiveLink(message: unknown): void {
    const { run, log } = this.control;
    if (typeof message !== 'object' || message === null || !('t' in message)) return;
    if (message.t === 'hello') this.greeted = true;
    if (!run) {
      if (message.t === 'hello') this.early = [message];
      else if (this.early.length > 0 && this.early.length < mostEarly) this.early.push(message);
      return;
    }
    if (message.t === 'hello') {
      this.connection?.close();
      this.connection = run.link.connect((frame) => void this.webview.postMessage({ frame }));
      this.linkedTo = run;
      this.isReady = false;
      log.own({ event: 'chat linked', place: this.place });
    }
    this.connection?.receive(message);
    for (const topic of wantedTopics(message)) {
      if (topic.startsWith('session/')) this.control.showSession(topic.slice('session/'.length), this.isReady);
    }
    // The first frame is the welcome. A page that has handled the next one shows the state, and takes commands.
    if (this.isReady || message.t !== 'ack' || !('frames' in message) || Number(message.frames) < 2) return;
    this.isReady = true;
    const { session } = this.control;
    // The conversation of before goes on. The page does not open a saved session by itself.
    if (this.told !== run && run.continues !== null && session === run.continues) {
      void this.webview.postMessage({ command: 'showSession', session } satisfies PageCommand);
    }
    // The page remembers what another window goes on with.
    if (run.elsewhere.has(session)) {
      const show = (own: string) => void this.webview.postMessage({ command: 'showSession', session: own } satisfies PageCommand);
      this.control.ownSession(run).then(show, () => {});
    }
    this.told = run;
    for (const command of this.held.splice(0)) void this.webview.postMessage(command);
  }

  /** A button of the page that is shown while there is no chat. */
  private async choose(id: string): Promise<void> {
    const [, index] = /^offer:(\d+)$/.exec(id) ?? [];
    if (index === undefined) {
      if (/^(conductor|workbench)\.[\w.]+$/.test(id)) await vscode.commands.executeCommand(id);
      return;
    }
    const offer = this.choices[Number(index)];
    const value = offer && await completed(offer);
    if (value) await this.control.choose(value);
  }
}

function wantedTopics(message: object): string[] {
  const topics: unknown[] = 't' in message && message.t === 'want' && 'topic' in message ? [message.topic] : [];
  return topics.filter((it): it is string => typeof it === 'string');
}

export class Chat implements vscode.WebviewViewProvider, vscode.WebviewPanelSerializer, vscode.Disposable {
  private view: { page: Page; view: vscode.WebviewView } | null = null;
  private tab: { page: Page; tab: vscode.WebviewPanel } | null = null;
  private readonly listeners: vscode.Disposable[];
  private last: Page | null = null;

  constructor(private readonly control: ChainControl, private readonly extension: vscode.Uri) {
    this.listeners = [
      control.onDidChange(() => this.pages.forEach((page) => void page.render())),
      control.onDidChangeSessions(() => this.showBadge()),
    ];
  }

  resolveWebviewView(view: vscode.WebviewView): void {
    const page = new Page(this.control, this.extension, view.webview, 'sidebar');
    const mine = { page, view };
    this.view = mine;
    this.last = page;
    view.onDidDispose(() => {
      page.unlink();
      if (this.view === mine) this.view = null;
    });
    view.onDidChangeVisibility(() => this.visibility(page, view.visible));
    this.begin(page);
  }

  /** Called for a tab of the window before. */
  async deserializeWebviewPanel(tab: vscode.WebviewPanel): Promise<void> {
    this.adopt(tab);
  }

  /** Opens the chat as a tab of the editor. */
  openTab(): void {
    if (this.tab) return this.tab.tab.reveal();
    const { Active } = vscode.ViewColumn;
    this.adopt(vscode.window.createWebviewPanel(tabType, 'Conductor', Active, { enableScripts: true }));
  }

  /** Shows the chat: the tab if it can be seen, and else the view. */
  async show(): Promise<void> {
    if (this.tab?.tab.visible) this.tab.tab.reveal();
    else await vscode.commands.executeCommand(`${viewId}.focus`);
    this.post({ command: 'focus' });
  }

  /** Shows the chat, and leaves the keyboard where it is. */
  async showBeside(): Promise<void> {
    if (this.tab?.tab.visible) return;
    if (this.view) this.view.view.show(true);
    else await vscode.commands.executeCommand(`${viewId}.focus`, { preserveFocus: true });
  }

  /** Sends a command to the chat that the person used last. */
  post(command: PageCommand): void {
    const page = this.pages.find((it) => it === this.last) ?? this.pages[0];
    page?.post(command);
  }

  dispose(): void {
    for (const listener of this.listeners) listener.dispose();
    for (const page of this.pages) page.unlink();
  }

  private get pages(): Page[] {
    return [this.view?.page, this.tab?.page].filter((page) => page !== undefined);
  }

  private adopt(tab: vscode.WebviewPanel): void {
    const page = new Page(this.control, this.extension, tab.webview, 'editor');
    const mine = { page, tab };
    this.tab = mine;
    this.last = page;
    tab.title = 'Conductor';
    tab.iconPath = vscode.Uri.joinPath(this.extension, 'images/icon.png');
    tab.onDidDispose(() => {
      page.unlink();
      if (this.tab === mine) this.tab = null;
    });
    tab.onDidChangeViewState(() => this.visibility(page, tab.visible));
    this.begin(page);
  }

  private begin(page: Page): void {
    this.control.log.own({ event: 'chat', place: page.place });
    void page.render().then(() => this.control.ensure());
  }

  private visibility(page: Page, visible: boolean): void {
    if (visible) {
      this.last = page;
      void this.control.ensure();
    } else page.unlink();
  }

  /** The number of sessions that wait for an answer of the person. */
  private showBadge(): void {
    if (!this.view) return;
    const sessions = this.control.run?.editor.topics.entries('sessions') ?? [];
    const value = sessions.filter(([, entry]) => entry.kind === 'session' && entry.state === 'asks').length;
    this.view.view.badge = value ? { value, tooltip: 'The agent asks you something' } : undefined;
  }
}

/** What is shown while no chain runs. */
async function welcomeOf(control: ChainControl): Promise<{ welcome: Welcome; choices: Offer[] }> {
  const { situation } = control;
  const only = (welcome: Welcome) => ({ welcome, choices: [] });
  const log: WelcomeButton = { id: 'conductor.showLog', title: 'Show log' };
  switch (situation.is) {
    case 'untrusted': return only({
      title: 'This folder is not trusted',
      text: 'An agent runs programs and changes files, so Conductor starts nothing here. If you trust the authors of '
        + 'the files in this folder, tell VS Code so. The chat starts then.',
      buttons: [{ id: 'workbench.trust.manage', title: 'Manage trust', main: true }],
    });
    case 'noFolder': return only({
      title: 'Open a folder', text: 'An agent works in a folder on a disk.',
      buttons: [{ id: 'workbench.action.files.openFolder', title: 'Open folder', main: true }],
    });
    case 'noProgram': return only({
      title: 'Conductor cannot start',
      text: `${situation.problem}\n\nThis extension starts the program conductor. Install it, or choose where it is.`,
      buttons: [
        { id: 'conductor.openInstallPage', title: 'How to install it', main: true },
        { id: 'conductor.chooseProgram', title: 'Choose the file…' },
        { id: 'conductor.startChain', title: 'Look again' },
      ],
    });
    case 'wrongChain': return only({
      title: 'The chain cannot start', text: situation.problem,
      buttons: [
        { id: 'conductor.chooseChain', title: 'Choose another chain', main: true },
        { id: 'conductor.openSettings', title: 'Open settings' },
        { id: 'conductor.startChain', title: 'Start again' }, log,
      ],
    });
    case 'stopped': return only({
      title: 'The chain has ended', text: 'You have ended it. Your conversations are kept.',
      buttons: [
        { id: 'conductor.startChain', title: 'Start chain', main: true },
        { id: 'conductor.chooseChain', title: 'Choose another chain' }, log,
      ],
    });
    case 'noChain': {
      const configuration = await control.configuration();
      const found = await offers(configuration);
      const choices = [...found.named, ...found.agents, ...found.others];
      const list = (some: Offer[]) => some.map((offer): WelcomeButton => ({
        id: `offer:${choices.indexOf(offer)}`, title: offer.title, about: offer.about,
      }));
      return {
        choices,
        welcome: {
          title: 'Choose an agent',
          text: 'Conductor connects this chat with a coding agent on your machine, through a chain of proxies. '
            + `Nothing runs yet.${found.agents.length ? '' : ' No agent that is known was found on this machine.'}`
            + configuration.problems.map((problem) => `\n\n${problem}`).join(''),
          buttons: [{ id: 'conductor.chooseChain', title: 'Choose a chain…', main: true }],
          lists: [
            { title: 'Chains', buttons: list(found.named) },
            { title: 'Agents on this machine', buttons: list(found.agents) },
            { title: 'Others', buttons: list(found.others) },
          ],
        },
      };
    }
    default: return only({ title: 'Conductor', text: 'The chain is starting…', buttons: [] });
  }
}
