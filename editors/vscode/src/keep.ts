// Keeps conversations on disk, so that a reload of the window loses none: a file for each, and one for the current one.
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Conversation } from 'acp-conductor-client';
import { decodeFrame, type Entry } from 'acp-conductor-client/link';
import { noteId, shortened } from './shorten';

/** The largest file, in UTF-16 units of its JSON. What is larger is shortened. */
const mostUnits = 2 * 1024 * 1024;
/** The largest entry, so that several fit. */
const mostUnitsOfEntry = mostUnits / 8;
/** Files larger than this were not written by us. */
const mostBytes = 8 * mostUnits;
/** How long changes wait to be written together. */
const writeAfterMs = 400;
/** Writing may take this part of the time. */
const partForWriting = 1 / 20;
const indexFile = 'current.json';

/** Whether there is something that a person would miss. */
export function isWorthKeeping(conversation: Conversation): boolean {
  return conversation.entries.some(([, entry]) => entry.kind === 'user' || entry.kind === 'agent'
    || (entry.kind === 'draft' && entry.text.trim() !== '')) || conversation.entries.some(([id]) => id === noteId);
}

/** A conversation as a text: a frame of the link with two topics. */
export function encode(conversation: Conversation, most = mostUnits, mostOfOne = mostUnitsOfEntry): string {
  const { id, session } = conversation;
  const entries = shortened(conversation.entries, most, mostOfOne);
  return JSON.stringify([
    { t: 'snap', topic: 'sessions', at: 0, entries: [[id, { ...session, kind: 'session' }]] },
    { t: 'snap', topic: `session/${id}`, at: 0, entries },
  ]);
}

/** The conversation of a text, or null if it is none. Entries that cannot be read are left out. */
export function decode(text: string): Conversation | null {
  const messages = decodeFrame(text, () => undefined);
  const topics = new Map<string, [string, Entry][]>();
  for (const message of messages) {
    if (message.t === 'snap') topics.set(message.topic, message.entries);
  }
  const [id, session] = topics.get('sessions')?.[0] ?? [];
  if (id === undefined || session?.kind !== 'session') return null;
  const { title, cwd, state, time } = session;
  return { id, session: { title, cwd, state, time }, entries: topics.get(`session/${id}`) ?? [] };
}

/** The conversations to keep: those with something in them, the newest first. */
export function chosen(conversations: readonly Conversation[], most: number): Conversation[] {
  return conversations.filter(isWorthKeeping).sort((a, b) => b.session.time - a.session.time).slice(0, most);
}

export function fileName(id: string): string {
  return `${createHash('sha256').update(id).digest('hex').slice(0, 24)}.json`;
}

export interface Kept { conversations: Conversation[]; current: string | null }

/** The folder with the conversations of a workspace. */
export class Keeper {
  private readonly changed = new Set<string>();
  private currentChanged = false;
  private current: string | null = null;
  /** A hash: the words of a chain may contain secrets. */
  private chain = '';
  private timer: ReturnType<typeof setTimeout> | undefined;
  /** How long changes wait now: longer while large conversations are written. */
  private pauseMs = writeAfterMs;

  constructor(
    private readonly folder: string,
    private readonly most: () => number,
    private readonly source: () => Conversation[],
    private readonly report: { problem(text: string): void; kept(conversations: number): void },
  ) {}

  /**
   * What was kept, the oldest first, and the one to continue. Conversations above the limit are deleted. Files that cannot be
   * read are left alone.
   */
  load(chain: readonly string[]): Kept {
    this.chain = createHash('sha256').update(JSON.stringify(chain)).digest('hex');
    const conversations: Conversation[] = [];
    for (const name of this.files()) {
      const text = this.read(name);
      const found = text === null ? null : decode(text);
      if (found) conversations.push(found);
    }
    const kept = chosen(conversations, this.most()).reverse();
    for (const conversation of conversations) {
      if (isWorthKeeping(conversation) && !kept.includes(conversation)) this.forget(conversation.id);
    }
    if (this.most() === 0) for (const name of [...this.files(), indexFile]) this.remove(name);
    const index = indexOf(this.read(indexFile));
    // The agent of another chain does not know the session.
    const same = index?.chain === this.chain && kept.some(({ id }) => id === index.current);
    this.current = same ? index.current : null;
    return { conversations: kept, current: this.current };
  }

  /** A conversation has changed. It is written soon. */
  touch(id: string): void {
    this.changed.add(id);
    this.later();
  }

  /** The conversation that the person looks at. */
  show(id: string): void {
    if (this.current === id) return;
    this.current = id;
    this.currentChanged = true;
    this.later();
  }

  /** A conversation is gone because the person has closed it, or because it has another id now. */
  forget(id: string): void {
    this.changed.delete(id);
    this.remove(fileName(id));
  }

  /** Writes everything that has changed. It is short, and runs to its end also while the window closes. */
  flush(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    if (this.changed.size === 0 && !this.currentChanged) return;
    const started = Date.now();
    const all = this.source();
    const kept = chosen(all, this.most());
    if (this.most() > 0) this.attempt(() => {
      mkdirSync(this.folder, { recursive: true, mode: 0o700 });
      for (const conversation of kept) {
        if (this.changed.has(conversation.id)) this.write(fileName(conversation.id), encode(conversation));
      }
      if (this.currentChanged) this.write(indexFile, JSON.stringify({ current: this.current, chain: this.chain }));
      this.report.kept(kept.length);
    });
    const names = new Set(kept.map(({ id }) => fileName(id)));
    for (const { id } of all) {
      if (!names.has(fileName(id))) this.forget(id);
    }
    this.changed.clear();
    this.currentChanged = false;
    this.pauseMs = Math.max(writeAfterMs, (Date.now() - started) / partForWriting);
  }

  private later(): void {
    this.timer ??= setTimeout(() => this.flush(), this.pauseMs);
  }

  private files(): string[] {
    try {
      return readdirSync(this.folder).filter((name) => /^[0-9a-f]{24}\.json$/.test(name));
    } catch {
      return [];
    }
  }

  private read(name: string): string | null {
    try {
      const path = join(this.folder, name);
      return statSync(path).size > mostBytes ? null : readFileSync(path, 'utf8');
    } catch {
      return null;
    }
  }

  /** A reader sees the old file or the new one, never a part. */
  private write(name: string, text: string): void {
    const path = join(this.folder, name);
    const part = `${path}.${process.pid}.part`;
    writeFileSync(part, text, { mode: 0o600 });
    renameSync(part, path);
  }

  private remove(name: string): void {
    this.attempt(() => rmSync(join(this.folder, name), { force: true }));
  }

  private attempt(work: () => void): void {
    try {
      work();
    } catch (error) {
      this.report.problem(`conversations were not kept: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
}

/** The shown conversation, and the chain that it belongs to. */
function indexOf(text: string | null): { current: string; chain: string } | null {
  try {
    const value: unknown = JSON.parse(text ?? 'null');
    if (typeof value !== 'object' || value === null || !('current' in value) || !('chain' in value)) return null;
    const { current, chain } = value;
    return typeof current === 'string' && typeof chain === 'string' ? { current, chain } : null;
  } catch {
    return null;
  }
}
