// The copy of one topic: entries in their order, and the position. No transport, no signals.
import type { Decoded, SafeChange } from './decode';
import type { Entry } from './types';

type Snap = Extract<Decoded, { t: 'snap' }>;
type Inc = Extract<Decoded, { t: 'inc' }>;

/** What a message did: the entries changed, nothing changed, or a snapshot is needed. */
export type Effect = 'changed' | 'same' | 'ask';

export class Replica {
  entries = new Map<string, Entry>();
  /** The position, or null before the first snapshot. */
  at: number | null = null;
  /** Whether the copy cannot go on without a snapshot. */
  stale = true;
  /** The highest position that the server has named. A snapshot below it is out of date. */
  private seen = 0;
  /** Entries that exist on the server and that this page cannot read. */
  private unreadable = new Set<string>();
  /** The ids of changed entries since the last call of `takeTouched`. Null means all. */
  private touched: Set<string> | null = new Set();

  /** The position to name to the server. */
  get cursor(): number | null {
    return this.stale ? null : this.at;
  }

  /** The positions are void: the server is another process. The entries stay readable until the snapshot. */
  forget(): void {
    this.at = null;
    this.stale = true;
    this.seen = 0;
  }

  snap(message: Snap): Effect {
    if (message.at < this.seen) return this.stale ? 'ask' : 'same';
    if (!this.stale && message.at === this.at) return 'same';
    this.entries = new Map(message.entries);
    this.unreadable = new Set(message.unreadable);
    this.touched = null;
    this.at = message.at;
    this.seen = message.at;
    this.stale = false;
    return 'changed';
  }

  inc(message: Inc): Effect {
    const waited = this.stale;
    this.seen = Math.max(this.seen, message.at);
    // The snapshot that was asked for will come.
    if (waited) return 'same';
    if (this.at !== null && message.at <= this.at) return 'same';
    if (message.from !== this.at || !message.changes.every((change) => this.change(change))) {
      this.stale = true;
      return 'ask';
    }
    this.at = message.at;
    return message.changes.length ? 'changed' : 'same';
  }

  /** Which entries have changed since the last call. Null means all. */
  takeTouched(): Set<string> | null {
    const touched = this.touched;
    this.touched = new Set();
    return touched;
  }

  private change(change: SafeChange): boolean {
    this.touched?.add(change.id);
    switch (change.c) {
      case 'put':
        this.unreadable.delete(change.id);
        this.entries.set(change.id, change.entry);
        return true;
      case 'unreadable':
        this.unreadable.add(change.id);
        this.entries.delete(change.id);
        return true;
      case 'del':
        this.unreadable.delete(change.id);
        this.entries.delete(change.id);
        return true;
      case 'append': {
        if (this.unreadable.has(change.id)) return true;
        const entry = this.entries.get(change.id);
        if (!entry || !('text' in entry) || typeof entry.text !== 'string') return false;
        if (entry.text.length !== change.offset) return false;
        this.entries.set(change.id, { ...entry, text: entry.text + change.text });
        return true;
      }
    }
  }
}
