// The state that views follow: topics with entries. The last changes are kept for views that were away.
import type { Change, Entry, ToPage } from './types';

export type Entries = ReadonlyArray<readonly [string, Entry]>;

/** A change of a topic, or `clear`: all entries are gone. */
export type TopicChange = Change | { c: 'clear' };
export type TopicListener = (topic: string, change: TopicChange) => void;

type News = Extract<ToPage, { t: 'snap' } | { t: 'inc' }>;

/** How many changes are kept for views that were away. */
const mostChanges = 10_000;
/** How many UTF-16 units of changes are kept, about. */
const mostUnits = 8 * 1024 * 1024;
/** What an entry costs besides its texts, about. */
const unitsOfEntry = 64;

/** The entry with more text, or undefined if it has no text that grows. */
function grown(entry: Entry, text: string): Entry | undefined {
  switch (entry.kind) {
    case 'user': case 'agent': case 'thought': case 'terminal': case 'note': case 'draft':
      return { ...entry, text: entry.text + text };
    default:
      return undefined;
  }
}

/** Whether two JSON values are the same. */
function same(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const [one, two] = [Object.entries(a), new Map<string, unknown>(Object.entries(b))];
  return one.length === two.size && one.every(([name, value]) => two.has(name) && same(value, two.get(name)));
}

/** About how many UTF-16 units a value has as JSON. */
function sizeOf(value: unknown): number {
  if (typeof value === 'string') return value.length + 2;
  if (typeof value !== 'object' || value === null) return 8;
  return Object.entries(value).reduce((sum, [name, member]) => sum + name.length + 3 + sizeOf(member), 2);
}

/** Joins changes of the same entry that follow each other. */
function join(changes: readonly Change[]): Change[] {
  const joined: Change[] = [];
  for (const change of changes) {
    const last = joined.at(-1);
    if (last?.id === change.id && change.c !== 'del' && last.c !== 'del') {
      if (change.c === 'put' && last.c === 'put') {
        joined[joined.length - 1] = change;
        continue;
      }
      if (change.c === 'append') {
        const entry = last.c === 'put' ? grown(last.entry, change.text) : undefined;
        if (last.c === 'append') joined[joined.length - 1] = { ...last, text: last.text + change.text };
        else if (entry) joined[joined.length - 1] = { ...last, entry };
        continue;
      }
    }
    joined.push(change);
  }
  return joined;
}

/** One topic: its entries in their order, and its last changes. */
class Topic {
  readonly entries = new Map<string, Entry>();
  /** The number of changes so far. */
  at = 0;
  private ring: Array<{ change: Change; units: number }> = [];
  private units = 0;

  put(id: string, entry: Entry): Change | undefined {
    if (same(this.entries.get(id), entry)) return undefined;
    this.entries.set(id, entry);
    return this.record({ c: 'put', id, entry }, sizeOf(entry));
  }

  append(id: string, text: string): Change | undefined {
    const entry = this.entries.get(id);
    const longer = entry && text ? grown(entry, text) : undefined;
    if (!entry || !longer || !('text' in entry)) return undefined;
    this.entries.set(id, longer);
    return this.record({ c: 'append', id, offset: entry.text.length, text }, text.length);
  }

  remove(id: string): Change | undefined {
    return this.entries.delete(id) ? this.record({ c: 'del', id }, 0) : undefined;
  }

  clear(): void {
    this.entries.clear();
    this.ring = [];
    this.units = 0;
    // No view has this position, so each gets a snapshot.
    this.at += 1;
  }

  private record(change: Change, size: number): Change {
    const units = size + unitsOfEntry;
    this.at += 1;
    this.ring.push({ change, units });
    this.units += units;
    // Not after every change, because all elements move.
    if (this.ring.length > 2 * mostChanges || this.units > 2 * mostUnits) {
      let drop = 0;
      while (this.ring.length - drop > mostChanges || this.units > mostUnits) {
        this.units -= this.ring[drop]?.units ?? 0;
        drop += 1;
      }
      this.ring.splice(0, drop);
    }
    return change;
  }

  news(topic: string, at: number | null): News | undefined {
    if (at === this.at) return undefined;
    const oldest = this.at - this.ring.length;
    if (at === null || at < oldest || at > this.at || !Number.isInteger(at)) {
      return { t: 'snap', topic, at: this.at, entries: [...this.entries] };
    }
    const changes = join(this.ring.slice(at - oldest).map((it) => it.change));
    return { t: 'inc', topic, from: at, at: this.at, changes };
  }
}

/** All topics of a program. */
export class Topics {
  private readonly topics = new Map<string, Topic>();
  private readonly listeners = new Set<TopicListener>();

  /** The entries of a topic in their order. A topic that does not exist is empty. */
  entries(topic: string): Entries {
    return [...(this.topics.get(topic)?.entries ?? [])];
  }

  /** How many entries a topic has. */
  size(topic: string): number {
    return this.topics.get(topic)?.entries.size ?? 0;
  }

  get(topic: string, id: string): Entry | undefined {
    return this.topics.get(topic)?.entries.get(id);
  }

  /** Puts an entry: a new one at the end, or a changed one at its place. An entry that is the same changes nothing. */
  put(topic: string, id: string, entry: Entry): void {
    this.tell(topic, this.topic(topic).put(id, entry));
  }

  /** Appends to the text of an entry. Does nothing if the entry does not exist or has no text. */
  append(topic: string, id: string, text: string): void {
    this.tell(topic, this.topic(topic).append(id, text));
  }

  remove(topic: string, id: string): void {
    this.tell(topic, this.topic(topic).remove(id));
  }

  /** Removes the oldest entries, except for those to keep, until there are at most so many. */
  limit(topic: string, most: number, keep: (entry: Entry) => boolean): void {
    const excess = this.size(topic) - most;
    if (excess <= 0) return;
    const oldest: string[] = [];
    for (const [id, entry] of this.topic(topic).entries) {
      if (oldest.length === excess) break;
      if (!keep(entry)) oldest.push(id);
    }
    for (const id of oldest) this.remove(topic, id);
  }

  /** Removes all entries of a topic. */
  clear(topic: string): void {
    this.topic(topic).clear();
    this.tell(topic, { c: 'clear' });
  }

  /** Calls the listener with every change after it was made. Returns the function that ends it. */
  follow(listener: TopicListener): () => void {
    this.listeners.add(listener);
    return () => {
      this.listeners.delete(listener);
    };
  }

  /** What a view with this position has not seen of a topic. Undefined if it has seen everything. */
  news(topic: string, at: number | null): News | undefined {
    return (this.topics.get(topic) ?? new Topic()).news(topic, at);
  }

  private topic(name: string): Topic {
    const found = this.topics.get(name) ?? new Topic();
    this.topics.set(name, found);
    return found;
  }

  private tell(topic: string, change: TopicChange | undefined): void {
    if (!change) return;
    for (const listener of [...this.listeners]) {
      try {
        listener(topic, change);
      } catch (error) {
        // An error of a listener must not stop what changes the topic.
        queueMicrotask(() => {
          throw error;
        });
      }
    }
  }
}
