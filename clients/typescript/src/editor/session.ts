// One session: its entries, its turn and its queue.
import type { Topics } from '../link/topics';
import type { Activity, Attachment, Command, Entry } from '../link/types';
import { selectId, selectOf, type Setting } from '../settings';
import { ToolCalls } from '../tool-calls';

/** The most entries of a session that are kept. */
const mostEntries = 5000;
/** The most failed prompts of a session whose attachments are kept. */
const mostFailed = 10;
/** The most attachments of a message that the agent repeats. */
const mostAttached = 100;

/** How a turn has ended: why, or with an error. */
export type TurnEnd = { stopReason: string } | { error: string };

/** A prompt that waits for the end of the turn. */
export interface Queued {
  entry: string;
  text: string;
  blocks: unknown[];
  /** The names of what is attached. */
  names: string[];
  attachments: readonly Attachment[];
  /** Told how its turn has ended. */
  done: (end: TurnEnd) => void;
}

/** What kind of text grows. */
export type Growing = 'user' | 'agent' | 'thought';

export class SessionState {
  settings: Setting[] = [];
  commands: Command[] = [];
  usage: string | null = null;
  readonly toolCalls = new ToolCalls();
  /** When each tool call began. */
  readonly toolTimes = new Map<string, number>();
  /** Counts the turns: an agent may use the ids of tool calls again. */
  turn = 0;
  queue: Queued[] = [];
  /** The prompt of this turn. */
  prompt: Queued | null = null;
  /** What was attached to prompts that failed, by the id of the error. */
  private readonly failed = new Map<string, readonly Attachment[]>();
  /** How many questions are open. */
  questions = 0;
  /** The entries before the agent repeats the conversation. Null if it does not, or has begun. */
  beforeReplay: Array<readonly [string, Entry]> | null = null;
  /** The entries that a replay has replaced. */
  replaced: Array<readonly [string, Entry]> | null = null;
  /** Whether the agent has begun to repeat the conversation. */
  private replayed = false;
  /** The id of the session when it is open at the agent, while it is being opened. */
  opened: Promise<string> | null = null;
  /** Prompts are read one after the other, because files may be attached. */
  lastPrompt: Promise<unknown> = Promise.resolve();
  /** How many prompts are being read. */
  reading = 0;
  private growing: { id: string; kind: Growing } | null = null;

  constructor(
    private readonly topics: Topics,
    public id: string,
    public title: string,
    readonly cwd: string,
    public activity: Activity,
    public time = Date.now(),
  ) {
    this.showTurn();
  }

  get topic(): string {
    return `session/${this.id}`;
  }

  /** Puts an entry into the topic of the session. */
  put(id: string, entry: Entry): void {
    this.topics.put(this.topic, id, entry);
    this.topics.limit(this.topic, mostEntries, (it) => (
      ['turn', 'settings', 'draft'].includes(it.kind) || (it.kind === 'question' && it.answer === null)));
  }

  append(id: string, text: string): void {
    this.topics.append(this.topic, id, text);
  }

  get(id: string): Entry | undefined {
    return this.topics.get(this.topic, id);
  }

  remove(id: string): void {
    this.topics.remove(this.topic, id);
  }

  /** Shows what the session is doing, in its topic and in the list. */
  showTurn(ended: string | null = null): void {
    const before = this.get('turn');
    const since = before?.kind === 'turn' && before.state === this.activity ? before.since : Date.now();
    this.put('turn', { kind: 'turn', state: this.activity, since, awaits: null, ended });
    this.showInList();
  }

  showInList(): void {
    const { title, cwd, time, activity } = this;
    const state = this.questions > 0 ? 'asks' : activity === 'cancelling' ? 'running' : activity;
    this.topics.put('sessions', this.id, { kind: 'session', title, cwd, state, time });
  }

  showSettings(): void {
    const rank = (id: string) => (id === 'mode' ? 0 : id === 'model' ? 1 : 2);
    const selects = this.settings.map(selectOf).filter((it) => it.values.length > 0);
    selects.sort((a, b) => rank(a.id) - rank(b.id));
    this.put('settings', { kind: 'settings', selects, commands: this.commands, usage: this.usage });
  }

  /** Finds a setting by its id in a view. */
  setting(select: string): Setting | undefined {
    return this.settings.find((it) => selectId(it) === select);
  }

  /** Adds text to the message that grows, or begins a new one. */
  grow(kind: Growing, text: string, newId: () => string): void {
    if (this.growing?.kind === kind) return this.append(this.growing.id, text);
    this.endText();
    const [id, time] = [newId(), Date.now()];
    switch (kind) {
      case 'user': this.put(id, { kind, text, attachments: [], queued: false, time }); break;
      case 'agent': this.put(id, { kind, text, open: true, time, blocks: [] }); break;
      case 'thought': this.put(id, { kind, text, open: true, time, ms: null }); break;
    }
    this.growing = { id, kind };
  }

  /** While the agent repeats the conversation, a message of the person begins a turn. */
  beginRepeatedTurn(kind: Growing): void {
    if (kind === 'user' && this.growing?.kind !== 'user') this.turn += 1;
  }

  /** Adds the name of an attachment to the message of the person, which the agent repeats. */
  attach(name: string, newId: () => string): void {
    this.grow('user', '', newId);
    const id = this.growing?.id ?? '';
    const entry = this.get(id);
    if (entry?.kind !== 'user' || entry.attachments.length >= mostAttached) return;
    this.put(id, { ...entry, attachments: [...entry.attachments, name] });
  }

  /** Keeps what was attached to a prompt that failed. */
  keepFailed(error: string, attachments: readonly Attachment[]): void {
    this.failed.set(error, attachments);
    const [oldest] = this.failed.keys();
    if (this.failed.size > mostFailed && oldest !== undefined) this.failed.delete(oldest);
  }

  /** What was attached to a prompt that failed, if it is still kept. */
  failedAttachments(error: string): readonly Attachment[] | undefined {
    return this.failed.get(error);
  }

  /** The entry of the message that grows, if it is the agent's. */
  get openMessage(): string | null {
    return this.growing?.kind === 'agent' ? this.growing.id : null;
  }

  /** The message that grows is complete. */
  endText(): void {
    if (!this.growing) return;
    const { id } = this.growing;
    this.growing = null;
    const entry = this.get(id);
    if (entry?.kind === 'agent') this.put(id, { ...entry, open: false });
    if (entry?.kind === 'thought') this.put(id, { ...entry, open: false, ms: Math.max(0, Date.now() - entry.time) });
  }

  /** The session has another id from now on. Its entries move with it. */
  rename(id: string): void {
    const entries = this.topics.entries(this.topic);
    this.topics.clear(this.topic);
    this.topics.remove('sessions', this.id);
    this.id = id;
    for (const [entry, value] of entries) this.topics.put(this.topic, entry, value);
    this.showInList();
  }

  /** The agent repeats the conversation: what is shown of it is replaced. Prompts that wait stay. */
  beginReplay(): void {
    if (!this.beforeReplay) return;
    // Without anything to put back, what the agent repeats stays.
    this.replaced = this.beforeReplay.some(([, it]) => !['turn', 'draft'].includes(it.kind)) ? this.beforeReplay : null;
    this.beforeReplay = null;
    this.replayed = true;
    this.replaceEntries([]);
  }

  /** Whether there was a conversation before the agent repeated it. */
  get wasKept(): boolean {
    const before = this.replaced ?? this.beforeReplay;
    // A replay without anything to put back shows only what the agent has repeated.
    const shown = before ?? (this.replayed ? [] : this.topics.entries(this.topic));
    return shown.some(([, it]) => it.kind === 'user' || it.kind === 'agent');
  }

  /** The agent could not repeat the conversation: what was shown before is shown again. */
  undoReplay(): void {
    if (this.replaced) this.replaceEntries(this.replaced);
    this.forgetReplay();
  }

  forgetReplay(): void {
    this.replayed = false;
    this.replaced = null;
    this.beforeReplay = null;
  }

  private replaceEntries(entries: Array<readonly [string, Entry]>): void {
    const kept = this.topics.entries(this.topic).filter(([id, it]) => (
      ['turn', 'draft'].includes(it.kind) || this.queue.some((queued) => queued.entry === id)));
    this.growing = null;
    this.topics.clear(this.topic);
    for (const [id, entry] of entries) if (entry.kind !== 'turn') this.topics.put(this.topic, id, entry);
    for (const [id, entry] of kept) this.topics.put(this.topic, id, entry);
  }
}
