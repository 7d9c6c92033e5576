// The state of the server as the page sees it: topics, actions, and the connection with its reconnects.
import { batch, signal, type ReadonlySignal, type Signal } from '@preact/signals';
import { bytes } from '../base/format';
import {
  type Action, type ClosedReason, type Decoded, decodeFrame, type Entry, type Features, Replica, type Transport,
} from 'acp-conductor-client/link';

export type LinkState = 'connecting' | 'live' | 'lost' | 'ended';
export type Entries = ReadonlyArray<readonly [string, Entry]>;

export interface Topic {
  /** All entries in their order. */
  entries: ReadonlySignal<Entries>;
  /** The ids in their order. It does not change when only the contents of entries change. */
  ids: ReadonlySignal<readonly string[]>;
  /** One entry. */
  get(id: string): ReadonlySignal<Entry | undefined>;
  /** Whether the first snapshot has come. */
  loaded: ReadonlySignal<boolean>;
  /** The user of the topic does not need it any more. */
  release(): void;
}

export interface Store {
  topic(name: string): Topic;
  do(action: Action): Promise<unknown>;
  state: ReadonlySignal<LinkState>;
  features: ReadonlySignal<Features | null>;
  /** Whether the server does not know this page. */
  needsLogin: ReadonlySignal<boolean>;
  /** Whether the page is of another version than the server, and must be loaded again. */
  outdated: ReadonlySignal<boolean>;
  /** When the next try to connect begins, while the connection is lost. */
  retryAt: ReadonlySignal<number | null>;
  /** Tries to connect at once. */
  retryNow(): void;
  /** How many actions wait for their answer. */
  pending: ReadonlySignal<number>;
}

/** What the store needs from its surroundings. Tests have a clock of their own. */
export interface Surroundings {
  now(): number;
  random(): number;
  later(ms: number, run: () => void): () => void;
  /** Runs once before the next picture, or soon if the page is hidden. */
  frame(run: () => void): void;
  report(problem: string): void;
}

export const browserSurroundings: Surroundings = {
  now: () => Date.now(),
  random: () => Math.random(),
  later(ms, run) {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
  frame(run) {
    if (document.hidden) {
      setTimeout(run, 500);
      return;
    }
    // A page that becomes hidden gets no frames any more, so a timer takes over.
    let done = false;
    const once = () => {
      if (done) return;
      done = true;
      run();
    };
    requestAnimationFrame(once);
    setTimeout(once, 500);
  },
  report: (problem) => console.warn(`conductor: a message was ignored: ${problem}`),
};

/** The pause before try `n` (from 0): 0.25 s × 2 up to 8 s, ± 20 %. */
export function backoff(n: number, random: number): number {
  return Math.min(8000, 250 * 2 ** Math.min(n, 10)) * (0.8 + 0.4 * random);
}

interface Followed {
  replica: Replica;
  entries: Signal<Entries>;
  ids: Signal<readonly string[]>;
  loaded: Signal<boolean>;
  single: Map<string, Signal<Entry | undefined>>;
  users: number;
  endUse: (() => void) | null;
}

interface Pending {
  action: Action;
  resolve: (value: unknown) => void;
  reject: (error: Error) => void;
}

/** A topic without users is kept so long, because a view may only move. */
const keepMs = 2000;
const ackMs = 100;
/** The server closes the connection if a message is larger than 16 MiB. */
const mostBytes = 15_000_000;

/** The bytes of an action as JSON. */
function sizeOf(action: Action): number {
  const text = JSON.stringify(action);
  // A UTF-16 unit has at most three bytes.
  return text.length * 3 <= mostBytes ? text.length : new TextEncoder().encode(text).length;
}

export class LinkStore implements Store {
  readonly state = signal<LinkState>('connecting');
  readonly features = signal<Features | null>(null);
  readonly needsLogin = signal(false);
  readonly outdated = signal(false);
  readonly retryAt = signal<number | null>(null);
  readonly pending = signal(0);

  private topics = new Map<string, Followed>();
  private actions = new Map<string, Pending>();
  private run = '';
  private welcomed = false;
  private tries = 0;
  private refusals = 0;
  private frames = 0;
  private queue: string[] = [];
  private held: Decoded[] = [];
  /** The topics that this connection has named to the server. */
  private asked = new Set<string>();
  private flushing = false;
  private acking = false;
  private stopRetry: (() => void) | null = null;
  private nextAction = 1;
  private readonly page: string;
  private stopped = false;

  constructor(private transport: Transport, private around: Surroundings = browserSurroundings) {
    this.page = Math.floor(around.random() * 2 ** 48).toString(36);
    this.connect();
  }

  topic(name: string): Topic {
    const followed = this.topics.get(name) ?? this.follow(name);
    followed.users += 1;
    followed.endUse?.();
    followed.endUse = null;
    let released = false;
    return {
      entries: followed.entries,
      ids: followed.ids,
      loaded: followed.loaded,
      get: (id) => singleOf(followed, id),
      release: () => {
        if (released) return;
        released = true;
        followed.users -= 1;
        if (followed.users > 0) return;
        followed.endUse = this.around.later(keepMs, () => {
          if (followed.users > 0) return;
          this.topics.delete(name);
          if (this.welcomed) this.transport.send({ t: 'drop', topic: name });
        });
      },
    };
  }

  do(action: Action): Promise<unknown> {
    const id = `${this.page}-${this.nextAction++}`;
    const size = sizeOf(action);
    if (size > mostBytes) {
      return Promise.reject(new Error(`This message has ${bytes(size)}. It may have ${bytes(mostBytes)}.`));
    }
    return new Promise((resolve, reject) => {
      this.actions.set(id, { action, resolve, reject });
      this.pending.value = this.actions.size;
      if (this.welcomed) this.transport.send({ t: 'do', id, action });
    });
  }

  retryNow(): void {
    if (this.stopped || !this.stopRetry) return;
    this.stopRetry();
    this.connect();
  }

  /** Ends the store: no connection, no tries. */
  stop(): void {
    this.stopped = true;
    this.stopRetry?.();
    this.stopRetry = null;
    this.transport.close();
  }

  /** Whether nothing waits to be shown or answered. */
  get idle(): boolean {
    return this.welcomed && !this.queue.length && !this.flushing && !this.actions.size
      && [...this.topics.values()].every((followed) => !followed.replica.stale);
  }

  private follow(name: string): Followed {
    const followed: Followed = {
      replica: new Replica(), entries: signal([]), ids: signal([]), loaded: signal(false), single: new Map(), users: 0,
      endUse: null,
    };
    this.topics.set(name, followed);
    if (this.welcomed) this.transport.send({ t: 'want', topic: name, at: null });
    return followed;
  }

  private connect(): void {
    this.stopRetry = null;
    this.retryAt.value = null;
    this.welcomed = false;
    this.frames = 0;
    this.queue = [];
    this.held = [];
    this.asked.clear();
    this.transport.open({
      opened: (token) => {
        for (const topic of this.topics.keys()) this.asked.add(topic);
        const want = [...this.topics].map(([topic, { replica }]) => ({ topic, at: replica.cursor }));
        this.transport.send({ t: 'hello', v: 1, token, run: this.run, want });
      },
      frame: (text) => {
        this.queue.push(text);
        if (this.flushing) return;
        this.flushing = true;
        this.around.frame(() => this.flush());
      },
      closed: (reason) => this.closed(reason),
    });
  }

  private closed(reason: ClosedReason): void {
    if (this.stopped) return;
    this.welcomed = false;
    this.refusals = reason === 'refused' ? this.refusals + 1 : 0;
    const pause = backoff(this.tries, this.around.random());
    this.tries += 1;
    batch(() => {
      this.needsLogin.value = reason === 'login';
      this.outdated.value = reason === 'version';
      this.state.value = this.refusals >= 3 ? 'ended' : 'lost';
      this.retryAt.value = this.around.now() + pause;
    });
    this.stopRetry = this.around.later(pause, () => this.connect());
  }

  private flush(): void {
    this.flushing = false;
    const frames = this.queue;
    this.queue = [];
    const changed = new Set<Followed>();
    batch(() => {
      for (const text of frames) {
        this.frames += 1;
        for (const message of decodeFrame(text, this.around.report)) this.receive(message, changed);
      }
      for (const followed of changed) publish(followed);
    });
    this.acknowledge();
  }

  private acknowledge(): void {
    if (this.acking) return;
    this.acking = true;
    this.around.later(ackMs, () => {
      this.acking = false;
      if (this.welcomed) this.transport.send({ t: 'ack', frames: this.frames });
    });
  }

  private receive(message: Decoded, changed: Set<Followed>): void {
    if (message.t === 'welcome') {
      this.welcome(message, changed);
      return;
    }
    if (!this.welcomed) {
      this.held.push(message);
      return;
    }
    if (message.t === 'done') {
      this.done(message);
      return;
    }
    const followed = this.topics.get(message.topic);
    if (!followed) return;
    const effect = message.t === 'snap' ? followed.replica.snap(message) : followed.replica.inc(message);
    if (effect === 'changed') changed.add(followed);
    if (effect === 'ask') this.transport.send({ t: 'want', topic: message.topic, at: null });
  }

  private welcome(message: Extract<Decoded, { t: 'welcome' }>, changed: Set<Followed>): void {
    if (this.welcomed) return;
    if (this.run !== message.run) {
      for (const { replica } of this.topics.values()) replica.forget();
      if (this.run) this.failActions('Conductor was restarted before it answered. Try again.');
      this.run = message.run;
    }
    this.welcomed = true;
    this.tries = 0;
    this.refusals = 0;
    this.features.value = message.features;
    this.needsLogin.value = false;
    this.outdated.value = false;
    this.state.value = 'live';
    for (const [topic, { replica }] of this.topics) {
      if (!this.asked.has(topic)) this.transport.send({ t: 'want', topic, at: replica.cursor });
    }
    for (const [id, { action }] of this.actions) this.transport.send({ t: 'do', id, action });
    const held = this.held;
    this.held = [];
    for (const early of held) this.receive(early, changed);
  }

  private done(message: Extract<Decoded, { t: 'done' }>): void {
    const action = this.actions.get(message.id);
    if (!action) return;
    this.actions.delete(message.id);
    this.pending.value = this.actions.size;
    if (message.error === undefined) action.resolve(message.ok);
    else action.reject(new Error(message.error));
  }

  private failActions(why: string): void {
    const actions = [...this.actions.values()];
    this.actions.clear();
    this.pending.value = 0;
    for (const action of actions) action.reject(new Error(why));
  }
}

function singleOf(followed: Followed, id: string): Signal<Entry | undefined> {
  const known = followed.single.get(id);
  if (known) return known;
  const made = signal(followed.replica.entries.get(id));
  followed.single.set(id, made);
  return made;
}

/** Puts what has changed into the signals. */
function publish(followed: Followed): void {
  const { replica, single } = followed;
  const touched = replica.takeTouched();
  const entries: Entries = [...replica.entries];
  followed.entries.value = entries;
  const before = followed.ids.peek();
  if (before.length !== entries.length || entries.some(([id], index) => before[index] !== id)) {
    followed.ids.value = entries.map(([id]) => id);
  }
  for (const id of touched ?? single.keys()) {
    const one = single.get(id);
    if (one) one.value = replica.entries.get(id);
  }
  followed.loaded.value = true;
}
