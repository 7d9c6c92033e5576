// The item in the status bar: the chain and its state.
import * as vscode from 'vscode';
import type { Chain } from 'acp-conductor-client/link';
import type { ChainControl, Run } from './chain';
import { loginVariables } from './chains';
import { shortLine } from './lines';
import { messages } from './messages';
import { setContext, why } from './small';
import { reasonOf } from './stderr';

export class Status implements vscode.Disposable {
  private readonly item = vscode.window.createStatusBarItem('conductor.status', vscode.StatusBarAlignment.Right, 90);
  private readonly listeners: vscode.Disposable[];
  /** The runs whose end or log-in was told. */
  private readonly told = { end: new WeakSet<Run>(), logIn: new WeakSet<Run>() };

  constructor(private readonly control: ChainControl) {
    this.item.name = 'Conductor';
    this.item.command = 'conductor.actions';
    this.listeners = [
      control.onDidChange(() => this.update()),
      control.onDidChangeSessions(() => this.update()),
      control.onDidChangeChain((chain) => {
        this.update();
        if (chain.state === 'ended') this.tellEnd(chain);
        if (chain.state === 'login') this.tellLogIn(chain);
      }),
    ];
    this.update();
    this.item.show();
  }

  dispose(): void {
    for (const listener of this.listeners) listener.dispose();
    this.item.dispose();
  }

  private update(): void {
    const { text, tooltip, color } = this.state();
    this.item.text = text;
    this.item.tooltip = tooltip;
    this.item.backgroundColor = color === null ? undefined : new vscode.ThemeColor(`statusBarItem.${color}Background`);
    this.contexts();
  }

  private state(): { text: string; tooltip: string; color: 'error' | 'warning' | null } {
    const { control } = this;
    const { run, chain, situation } = control;
    if (!run) {
      const starts = situation.is === 'starting';
      if (starts) return { text: '$(sync~spin) Conductor', tooltip: 'The chain is starting', color: null };
      if ('problem' in situation) return { text: '$(warning) Conductor', tooltip: situation.problem, color: 'warning' };
      return { text: '$(comment-discussion) Conductor', tooltip: 'No chain runs', color: null };
    }
    const name = shortened(run.spec.name);
    const about = [run.spec.name, chain?.agent].filter(Boolean).join('\n');
    switch (chain?.state) {
      case 'running': {
        const asks = this.sessions('asks') > 0;
        const works = this.sessions('running') > 0;
        const icon = asks ? 'question' : works ? 'loading~spin' : 'comment-discussion';
        const what = asks ? 'The agent asks you something' : works ? 'The agent works' : 'The chain runs';
        return { text: `$(${icon}) ${name}`, tooltip: `${what}\n${about}`, color: asks ? 'warning' : null };
      }
      case 'login':
        return { text: `$(key) ${name}: log in`, tooltip: `The agent needs a log-in\n${about}`, color: 'warning' };
      case 'ended': return { text: `$(error) ${name}`, tooltip: chain.error ?? 'The chain has ended', color: 'error' };
      default: return { text: `$(sync~spin) ${name}`, tooltip: `The chain is starting\n${about}`, color: null };
    }
  }

  private sessions(state: string): number {
    const entries = this.control.run?.editor.topics.entries('sessions') ?? [];
    return entries.filter(([, entry]) => entry.kind === 'session' && entry.state === state).length;
  }

  private contexts(): void {
    const { run, chain } = this.control;
    setContext('state', run ? chain?.state ?? 'starting' : 'off');
    setContext('alive', this.control.isAlive);
    setContext('turn', this.sessions('running') + this.sessions('asks') > 0);
    setContext('hasChain', run !== null || this.control.situation.is === 'stopped');
  }

  /** Says that the chain has ended by itself. */
  private tellEnd(chain: Chain): void {
    const { run } = this.control;
    if (!run || this.told.end.has(run)) return;
    this.told.end.add(run);
    void messages.error(reasonOf(chain.error), 'Restart Chain', 'Show Log').then((answer) => {
      if (answer === 'Restart Chain') void vscode.commands.executeCommand('conductor.restartChain');
      else if (answer) void vscode.commands.executeCommand('conductor.showLog');
    });
  }

  /** Offers the log-ins that need a terminal or a setting. The chat shows all of them, but cannot open one. */
  private tellLogIn({ agent, logins }: Chain): void {
    const { control } = this;
    const { run } = control;
    const elsewhere = logins.flatMap(({ id, name, command }) => {
      if (command === null) return [];
      return { title: `${shortLine(name, 40)} in ${loginVariables(command) ? 'the Settings' : 'a Terminal'}`, id };
    });
    if (!run || this.told.logIn.has(run) || elsewhere.length === 0) return;
    this.told.logIn.add(run);
    const buttons = elsewhere.slice(0, 3);
    void messages.info(`${shortLine(agent ?? 'The agent', 80)} needs a log-in.`, ...buttons).then((picked) => {
      if (!picked || control.run !== run) return;
      control.act({ op: 'logIn', login: picked.id }).catch((error: unknown) => void messages.warn(why(error)));
    });
  }
}

function shortened(name: string): string {
  return name.length > 40 ? `${name.slice(0, 39)}…` : name;
}
