// The other end of a page's link: answers its messages from topics, and does its actions.
import { checkAction, checkMessage, type Received } from './action';
import type { Topics } from './topics';
import type { Action, Features, ToPage } from './types';

/** The version of the messages. */
const version = 1;
/** News are sent at most so often. */
const flushMs = 16;
/** How many UTF-16 units may be on the way to a page. */
const mostUnhandled = 2 * 1024 * 1024;
/** How many topics a page can follow. */
const mostTopics = 200;
/** How many actions of a page run at a time. */
const mostActions = 64;
/** How many results are kept for pages that ask again. */
const mostResults = 1000;

type Done = Extract<ToPage, { t: 'done' }>;
type Act = (action: Action) => Promise<unknown>;

/** Whether it matters how often an action is done. */
function hasEffect(action: Action): boolean {
  return !['listFiles', 'readFile', 'findFiles', 'viewing', 'draft', 'listSessions'].includes(action.op);
}

/** Each action is done once, whatever a page repeats. */
class Actions {
  private readonly results = new Map<string, { done: boolean; result: Promise<Done> }>();

  constructor(private readonly act: Act) {}

  perform(id: string, action: Action): Promise<Done> {
    if (!hasEffect(action)) return this.run(id, action);
    const known = this.results.get(id);
    if (known) return known.result;
    const kept = { done: false, result: this.run(id, action) };
    void kept.result.then(() => {
      kept.done = true;
    });
    this.results.set(id, kept);
    this.forgetOldest();
    return kept.result;
  }

  /** An action that runs is not forgotten, or it could be done twice. */
  private forgetOldest(): void {
    for (const [id, { done }] of this.results) {
      if (this.results.size <= mostResults) return;
      if (done) this.results.delete(id);
    }
  }

  private async run(id: string, action: Action): Promise<Done> {
    try {
      return { t: 'done', id, ok: (await this.act(action)) ?? null };
    } catch (error) {
      return { t: 'done', id, error: error instanceof Error ? error.message : String(error) };
    }
  }
}

/** One page: what it follows, and what is on its way to it. */
class Page {
  private readonly positions = new Map<string, number | null>();
  private welcomed = false;
  private closed = false;
  private unhandled: number[] = [];
  private unhandledUnits = 0;
  private handled = 0;
  private running = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private flushed = 0;
  private readonly unfollow: () => void;

  constructor(
    private readonly run: string,
    private readonly topics: Topics,
    private readonly features: () => Features,
    private readonly actions: Actions,
    private readonly send: (frame: string) => void,
  ) {
    this.unfollow = topics.follow((topic) => {
      if (this.positions.has(topic)) this.flushSoon();
    });
  }

  receive(raw: unknown): void {
    if (this.closed) return;
    let message: Received;
    try {
      message = checkMessage(typeof raw === 'string' ? JSON.parse(raw) : raw, '');
    } catch {
      // There is nothing to answer. A page that waits for an action names its id in a message that can be read.
      return;
    }
    switch (message.t) {
      case 'hello':
        return this.hello(message);
      case 'want':
        if (this.positions.size < mostTopics || this.positions.has(message.topic)) {
          this.positions.set(message.topic, message.at);
          this.flushSoon();
        }
        return;
      case 'drop':
        this.positions.delete(message.topic);
        return;
      case 'ack':
        return this.ack(message.frames);
      case 'do':
        void this.do(message.id, message.action);
    }
  }

  close(): void {
    this.closed = true;
    this.unfollow();
    clearTimeout(this.timer);
  }

  private hello({ run, want }: Extract<Received, { t: 'hello' }>): void {
    this.positions.clear();
    for (const { topic, at } of want.slice(0, mostTopics)) this.positions.set(topic, run === this.run ? at : null);
    // A page that says hello again was loaded again: what was on its way is lost.
    this.unhandled = [];
    this.unhandledUnits = 0;
    this.handled = 0;
    this.welcomed = true;
    this.frame([{ t: 'welcome', v: version, run: this.run, features: this.features() }]);
    this.flushSoon();
  }

  private ack(frames: number): void {
    while (this.handled < frames) {
      const size = this.unhandled.shift();
      if (size === undefined) break;
      this.unhandledUnits -= size;
      this.handled += 1;
    }
    this.flushSoon();
  }

  private async do(id: string, raw: unknown): Promise<void> {
    const done = await this.result(id, raw);
    // What the action has changed is seen before its result.
    if (!this.closed) this.frame([...this.news(), done]);
  }

  private async result(id: string, raw: unknown): Promise<Done> {
    if (this.running >= mostActions) return { t: 'done', id, error: 'too many actions at a time; try again' };
    let action: Action;
    try {
      action = checkAction(raw, 'action');
    } catch (error) {
      return { t: 'done', id, error: `the message is invalid: ${error instanceof Error ? error.message : String(error)}` };
    }
    this.running += 1;
    const done = await this.actions.perform(id, action);
    this.running -= 1;
    return done;
  }

  private flushSoon(): void {
    if (this.timer !== undefined || this.closed || !this.welcomed) return;
    const wait = Math.max(0, this.flushed + flushMs - Date.now());
    this.timer = setTimeout(() => {
      this.timer = undefined;
      // A page that does not handle what it gets goes on when it says that it has.
      if (this.unhandledUnits > mostUnhandled) return;
      this.flushed = Date.now();
      const messages = this.news();
      if (messages.length > 0) this.frame(messages);
    }, Math.min(wait, flushMs));
  }

  private news(): ToPage[] {
    const messages: ToPage[] = [];
    for (const [topic, at] of this.positions) {
      const news = this.topics.news(topic, at);
      if (!news) continue;
      this.positions.set(topic, news.at);
      messages.push(news);
    }
    return messages;
  }

  private frame(messages: ToPage[]): void {
    const text = JSON.stringify(messages);
    this.unhandled.push(text.length);
    this.unhandledUnits += text.length;
    try {
      this.send(text);
    } catch {
      // The page is gone.
      this.close();
    }
  }
}

/** Answers the messages of pages. */
export class LinkHost {
  /** Random: the positions of pages of another run are void. */
  private readonly run = Array.from({ length: 4 }, () => Math.random().toString(36).slice(2)).join('');
  private readonly actions: Actions;

  constructor(private readonly topics: Topics, private readonly features: () => Features, act: Act) {
    this.actions = new Actions(act);
  }

  /**
   * A page that is there. `send` gets frames: a JSON text with an array of messages. `receive` takes a message of the
   * page, as a value or as JSON. What cannot be read is ignored.
   */
  connect(send: (frame: string) => void): { receive(message: unknown): void; close(): void } {
    const page = new Page(this.run, this.topics, this.features, this.actions, send);
    return { receive: (message) => page.receive(message), close: () => page.close() };
  }
}
