// A transport without a server, for the page of parts and for tests.
import type {
  Action, ClosedReason, Entry, Features, ToPage, ToServer, Transport, TransportEvents,
} from 'acp-conductor-client/link';

export class FakeTransport implements Transport {
  /** Everything that the page has sent. */
  readonly sent: ToServer[] = [];
  private events: TransportEvents | null = null;

  constructor(private answer: (message: ToServer, fake: FakeTransport) => void = () => undefined) {}

  open(events: TransportEvents): void {
    this.events = events;
    queueMicrotask(() => {
      if (this.events === events) events.opened('token');
    });
  }

  send(message: ToServer): boolean {
    if (!this.events) return false;
    this.sent.push(message);
    this.answer(message, this);
    return true;
  }

  close(): void {
    this.events = null;
  }

  /** Sends messages to the page. */
  push(...messages: ToPage[]): void {
    this.events?.frame(JSON.stringify(messages));
  }

  /** Cuts the connection. */
  cut(reason: ClosedReason = 'lost'): void {
    const events = this.events;
    this.events = null;
    events?.closed(reason);
  }
}

export type Topics = Record<string, ReadonlyArray<readonly [string, Entry]>>;

/** A transport that shows fixed topics, and answers every action by `act`. */
export function fixedTransport(features: Features, topics: Topics, act: (action: Action) => unknown): FakeTransport {
  const snap = (topic: string): ToPage => ({
    t: 'snap', topic, at: 1, entries: (topics[topic] ?? []).map(([id, entry]) => [id, entry]),
  });
  return new FakeTransport((message, fake) => {
    queueMicrotask(() => {
      if (message.t === 'hello') {
        fake.push({ t: 'welcome', v: 1, run: 'fixed', features }, ...message.want.map((want) => snap(want.topic)));
      } else if (message.t === 'want') fake.push(snap(message.topic));
      else if (message.t === 'do') fake.push({ t: 'done', id: message.id, ok: act(message.action) ?? null });
    });
  });
}
