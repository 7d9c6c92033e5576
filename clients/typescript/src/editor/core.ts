// What all parts of the editor share: the topics, the chain, the sessions, and the connection.
import type { Connection } from '../connection';
import { type Description, describe } from '../errors';
import type { Host } from '../host';
import { at, isObject, text } from '../json';
import type { Topics } from '../link/topics';
import type { Chain } from '../link/types';
import { loginsOf, shownLogin } from '../logins';
import { oneLine, plain } from '../printable';
import type { Project } from '../project';
import type { Outcome, RpcErrorObject } from '../rpc-error';
import { withoutSecrets } from '../secrets';
import type { Surface } from '../surface';
import type { SessionState } from './session';

/** The most log messages that are kept. */
const mostLog = 500;
/** The longest log message, in characters. */
const longestLog = 4000;

export interface LogLine {
  level: string;
  component: string | null;
  text: string;
  /** What the component has added to the message, as JSON without secrets. Null if it is nothing. */
  data: string | null;
}

/** The beginning of a text, in whole characters. */
const cutTo = (text: string): string => [...text.slice(0, 2 * longestLog)].slice(0, longestLog).join('');

export class Core {
  readonly sessions = new Map<string, SessionState>();
  /** The agent's answer to `initialize`, when it is there. */
  greeting: unknown;
  chain: Chain;
  connection: Connection | null = null;
  private count = 0;
  private whenGreeted: Array<{ run: () => void; ended: () => void }> = [];

  constructor(
    readonly topics: Topics,
    readonly project: Project,
    readonly surface: Surface,
    readonly host: Host,
    components: string[],
    readonly mcpServers: unknown[],
    private readonly log: (line: LogLine) => void,
  ) {
    this.chain = {
      state: 'starting', components: [...components], agent: null, error: null, canLoad: false, images: false, logins: [],
    };
    this.showChain();
  }

  showChain(changes: Partial<Chain> = {}): void {
    this.chain = { ...this.chain, ...changes };
    this.topics.put('chain', 'chain', { kind: 'chain', ...this.chain });
  }

  get isEnded(): boolean {
    return this.chain.state === 'ended';
  }

  /** A new id for an entry. */
  nextId(kind: string): string {
    this.count += 1;
    return `${kind}:${this.count}`;
  }

  /** Later ids are not those of entries of an earlier run. */
  skipIds(last: number): void {
    this.count = Math.max(this.count, last);
  }

  /** Sends a request. `ended` is called instead of `then` if the chain ends before the answer. */
  ask(method: string, params: unknown, then: (outcome: Outcome) => void, ended: () => void = () => {}): void {
    if (!this.connection) return ended();
    this.connection.ask(method, params, (outcome) => (outcome ? then(outcome) : ended()));
  }

  /** Runs when the agent has answered `initialize`, or now. If the chain ends before, `ended` runs. */
  onceGreeted(run: () => void, ended: () => void): void {
    if (this.greeting !== undefined) run();
    else if (this.isEnded) ended();
    else this.whenGreeted.push({ run, ended });
  }

  /** The chain has ended. The first reason is the best one. */
  end(why: string | null): void {
    const error = this.isEnded ? this.chain.error ?? why : why ?? this.chain.error;
    this.showChain({ state: 'ended', error });
    for (const { ended } of this.whenGreeted.splice(0)) ended();
  }

  onGreeting(greeting: unknown): void {
    this.greeting = greeting ?? null;
    const info = at(greeting, 'agentInfo');
    const name = text(at(info, 'title')) ?? text(at(info, 'name')) ?? '';
    const agent = oneLine(`${name} ${text(at(info, 'version')) ?? ''}`.trim());
    this.showChain({
      state: 'running',
      agent: agent || null,
      canLoad: this.canLoad || this.canResume,
      images: at(this.promptCapabilities, 'image') === true,
      logins: loginsOf(greeting).map(shownLogin),
    });
    for (const { run } of this.whenGreeted.splice(0)) run();
  }

  get promptCapabilities(): unknown {
    return at(this.greeting, 'agentCapabilities', 'promptCapabilities');
  }

  /** Whether the agent has this capability for sessions. */
  can(name: string): boolean {
    return isObject(at(this.greeting, 'agentCapabilities', 'sessionCapabilities', name));
  }

  get canLoad(): boolean {
    return at(this.greeting, 'agentCapabilities', 'loadSession') === true;
  }

  get canResume(): boolean {
    return this.can('resume');
  }

  /** Describes the error that the agent has answered a request with, for people. */
  describe(error: RpcErrorObject, request: string): Description {
    return describe(error, { agent: this.chain.components.at(-1) ?? '', request, greeting: this.greeting });
  }

  /** Shows a log message of a component. */
  onLog(params: unknown): void {
    const shown = (value: unknown) => (typeof value === 'string' ? plain(value) : undefined);
    const line = {
      level: text(at(params, 'level')) ?? 'info',
      component: shown(at(params, 'component')) ?? null,
      text: cutTo(shown(at(params, 'message')) ?? ''),
    };
    const data = at(params, 'data') ?? null;
    this.log({ ...line, data: data === null ? null : cutTo(oneLine(JSON.stringify(withoutSecrets(data)))) });
    this.topics.put('chain', this.nextId('log'), { kind: 'log', ...line, time: Date.now() });
    this.topics.limit('chain', mostLog, (it) => it.kind === 'chain');
  }
}
