// Keeps conversations on disk, so that a reload of the window loses none: a file for each, and one for the current one.
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { uptime } from 'node:os';
import { join } from 'node:path';
import type { Conversation } from 'acp-conductor-client';
import { decodeFrame, type Change, type Entry } from 'acp-conductor-client/link';
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

/** When the newest entry was made. The time of the session may come from the list of the agent. */
function lastTime({ entries }: Conversation): number {
  return entries.reduce((last, [, entry]) => ('time' in entry ? Math.max(last, entry.time) : last), 0);
}

/** The id that an agent gave to a session. */
const baseOf = (id: string): string => id.replace(/~\d+$/, '');

/** An id that no conversation has. No agent knows it, so the next message begins a new session that takes over. */
function freeId(base: string, ids: ReadonlySet<string>): string {
  let count = 1;
  while (ids.has(`${base}~${count}`)) count += 1;
  return `${base}~${count}`;
}

/**
 * Whether these are versions of one conversation: the ids are the same, and so is the first message of the person. An agent that
 * repeats a conversation gives its messages another time. Then one has all messages of the other.
 */
function isSame(a: Conversation, b: Conversation): boolean {
  if (baseOf(a.id) !== baseOf(b.id)) return false;
  const [left, right] = [messagesOf(a), messagesOf(b)];
  const [first, other] = [left[0], right[0]];
  if (first && other && first.time === other.time && first.text === other.text) return true;
  const count = Math.min(left.length, right.length);
  return left.slice(0, count).every(({ text }, index) => text.trim() === right[index]?.text.trim());
}

const messagesOf = ({ entries }: Conversation) => entries.flatMap(([, entry]) => (entry.kind === 'user' ? [entry] : []));

export function fileName(id: string): string {
  return `${createHash('sha256').update(id).digest('hex').slice(0, 24)}.json`;
}

export interface Kept {
  conversations: Conversation[];
  /** The one to continue. */
  current: string | null;
  /** Those that other open windows show now. */
  elsewhere: string[];
}

/** What was read of a file of a conversation, and when that was written. */
interface Read { conversation: Conversation; written: number; folder: string; name: string }

/** A conversation, and the files with its versions. */
interface Found { conversation: Conversation; isRenamed: boolean; files: readonly Read[] }

/** The conversations of a workspace. Each window writes into a folder of its own, and reads those of all windows. */
export class Keeper {
  private readonly changed = new Set<string>();
  /** Conversations that are deleted when what replaces them is on the disk. */
  private readonly forgotten = new Set<string>();
  private currentChanged = false;
  private current: string | null = null;
  /** A hash: the words of a chain may contain secrets. */
  private chain = '';
  private timer: ReturnType<typeof setTimeout> | undefined;
  /** How long changes wait now: longer while large conversations are written. */
  private pauseMs = writeAfterMs;

  constructor(
    /** The folder of this window. */
    private readonly own: string,
    /** The folders of other windows of the workspace, open or not. */
    private readonly others: readonly string[],
    private readonly most: () => number,
    /** The conversations, or null while there is no editor that has them. */
    private readonly source: () => Conversation[] | null,
    private readonly report: { problem(text: string): void; kept(conversations: number): void },
  ) {}

  /**
   * What was kept, the oldest first, and the one to continue. Conversations above the limit are deleted. Files that cannot be
   * read are left alone.
   */
  load(chain: readonly string[]): Kept {
    this.chain = createHash('sha256').update(JSON.stringify(chain)).digest('hex');
    const found = this.found();
    const conversations = found.map(({ conversation }) => conversation);
    const kept = chosen(conversations, this.most()).reverse();
    const renamed = found.filter((one) => one.isRenamed && kept.includes(one.conversation) && this.rename(one.conversation));
    const dropped = found.filter(({ conversation }) => isWorthKeeping(conversation) && !kept.includes(conversation));
    const written = new Set(renamed.map(({ conversation }) => fileName(conversation.id)));
    const old = [...renamed, ...dropped].flatMap((one) => one.files);
    this.removeFiles(old.filter(({ folder, name }) => folder !== this.own || !written.has(name)));
    if (this.most() === 0) {
      for (const folder of this.folders) for (const name of [...files(folder), indexFile]) this.remove(folder, name);
    }
    const { current, elsewhere } = this.lastShown(found);
    this.current = kept.some(({ id }) => id === current) ? current : null;
    // Other windows see by the number of the process that it is shown here.
    this.currentChanged = this.current !== null;
    if (renamed.some(({ conversation }) => conversation.id === this.current)) this.attempt(() => this.writeIndex());
    return { conversations: kept, current: this.current, elsewhere };
  }

  private get folders(): string[] {
    return [this.own, ...this.others];
  }

  /**
   * Every conversation, as it was last, the newest first. Several windows may have had it. Many agents number their sessions, so
   * two windows may also have different conversations with the same id: the older one gets another id.
   */
  private found(): Found[] {
    const groups: Read[][] = [];
    const read = this.folders.flatMap((folder) => files(folder).flatMap((name): Read[] => {
      const file = readFile(join(folder, name));
      const conversation = file && decode(file.text);
      return conversation ? [{ conversation, written: file.written, folder, name }] : [];
    }));
    read.sort((a, b) => lastTime(b.conversation) - lastTime(a.conversation) || b.written - a.written);
    for (const one of read) {
      const group = groups.find(([newest]) => newest && isSame(newest.conversation, one.conversation));
      if (group) group.push(one);
      else groups.push([one]);
    }
    const ids = new Set(read.map(({ conversation }) => conversation.id));
    const used = new Set<string>();
    return groups.flatMap((group): Found[] => {
      const [newest] = group;
      if (!newest) return [];
      const id = group.map(({ conversation }) => conversation.id).find((it) => !used.has(it))
        ?? freeId(baseOf(newest.conversation.id), ids);
      used.add(id);
      ids.add(id);
      return [{ conversation: { ...newest.conversation, id }, isRenamed: id !== newest.conversation.id, files: group }];
    });
  }

  /** Writes a conversation under its new id, because the old file may be written for another one. Returns whether it did. */
  private rename(conversation: Conversation): boolean {
    return this.attempt(() => {
      mkdirSync(this.own, { recursive: true, mode: 0o700 });
      this.write(fileName(conversation.id), encode(conversation));
    });
  }

  /** The conversation of this chain that was shown last, unless another window shows it now. */
  private lastShown(found: readonly Found[]): Pick<Kept, 'current' | 'elsewhere'> {
    const all = this.folders.flatMap((folder) => {
      const file = readFile(join(folder, indexFile));
      const index = file && indexOf(file.text);
      if (!index) return [];
      const name = fileName(index.current);
      const shown = found.find((one) => one.files.some((it) => it.folder === folder && it.name === name));
      const current = shown?.conversation.id ?? index.current;
      return [{ ...index, current, written: file.written, isOpen: this.isOpen(folder) }];
    });
    const elsewhere = all.filter(({ isOpen }) => isOpen).map(({ current }) => current);
    const [last] = all.filter(({ isOpen }) => !isOpen).sort((a, b) => b.written - a.written);
    // The agent of another chain does not know the session.
    const isUsable = last?.chain === this.chain && !elsewhere.includes(last.current);
    return { current: isUsable ? last.current : null, elsewhere };
  }

  /** A topic of the editor has changed. What the agent lists of a saved session is no change of its conversation. */
  follow(topic: string, change: Change | { c: 'clear' }): void {
    if (topic.startsWith('session/')) this.touch(topic.slice('session/'.length));
    if (topic !== 'sessions' || change.c === 'clear') return;
    if (change.c === 'del') this.forget(change.id);
    else if (change.c !== 'put' || change.entry.kind !== 'session' || change.entry.state !== 'saved') this.touch(change.id);
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
    this.forgotten.add(id);
    this.later();
  }

  /**
   * Writes everything that has changed, and then deletes what is gone. It is short, and runs to its end also while the window
   * closes. After an error, nothing is deleted, and the next call tries it again.
   */
  flush(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    if (this.changed.size === 0 && this.forgotten.size === 0 && !this.currentChanged) return;
    const started = Date.now();
    const all = this.source();
    if (!all) return;
    const kept = chosen(all, this.most());
    this.attempt(() => {
      if (this.most() > 0) this.writeChanges(kept);
      this.removeOthers(all, new Set(kept.map(({ id }) => id)));
      this.changed.clear();
      this.forgotten.clear();
      this.currentChanged = false;
    });
    this.pauseMs = Math.max(writeAfterMs, (Date.now() - started) / partForWriting);
  }

  /** Writes what has changed, and that the window shows nothing from now on. Its number may go to another process. */
  end(): void {
    this.flush();
    const path = join(this.own, indexFile);
    const file = readFile(path);
    const index = file && indexOf(file.text);
    if (!file || index?.pid !== process.pid) return;
    this.attempt(() => {
      this.write(indexFile, JSON.stringify({ current: index.current, chain: index.chain }));
      // What was shown last does not change.
      utimesSync(path, file.written / 1000, file.written / 1000);
    });
  }

  private later(): void {
    this.timer ??= setTimeout(() => this.flush(), this.pauseMs);
  }

  private writeChanges(kept: readonly Conversation[]): void {
    mkdirSync(this.own, { recursive: true, mode: 0o700 });
    for (const conversation of kept) {
      if (this.changed.has(conversation.id)) this.write(fileName(conversation.id), encode(conversation));
    }
    if (this.currentChanged) this.writeIndex();
    this.report.kept(kept.length);
  }

  private writeIndex(): void {
    this.write(indexFile, JSON.stringify({ current: this.current, chain: this.chain, pid: process.pid }));
  }

  private removeOthers(all: readonly Conversation[], kept: ReadonlySet<string>): void {
    for (const id of this.forgotten) if (!kept.has(id)) this.removeAll(fileName(id));
    // What was begun to be written there was deleted.
    const known = new Set(all.map(({ id }) => id));
    for (const id of this.changed) if (!known.has(id)) this.remove(this.own, fileName(id));
    for (const conversation of all.filter(({ id }) => !kept.has(id))) {
      const name = fileName(conversation.id);
      // Above the limit: another window may have gone on with it, so its file stays until the next start.
      if (this.most() > 0 && isWorthKeeping(conversation)) this.remove(this.own, name);
      else this.removeAll(name);
    }
  }

  /** A reader sees the old file or the new one, never a part. */
  private write(name: string, text: string): void {
    const path = join(this.own, name);
    const part = `${path}.${process.pid}.part`;
    writeFileSync(part, text, { mode: 0o600 });
    renameSync(part, path);
  }

  private remove(folder: string, name: string): void {
    this.attempt(() => rmSync(join(folder, name), { force: true }));
  }

  /** Another window that is open writes a conversation only when it changes, so its files stay. */
  private removeAll(name: string): void {
    this.removeFiles(this.folders.map((folder) => ({ folder, name })));
  }

  private removeFiles(some: readonly { folder: string; name: string }[]): void {
    for (const { folder, name } of some) if (!this.isOpen(folder)) this.remove(folder, name);
  }

  /** Whether another window that is open writes into this folder. */
  private isOpen(folder: string): boolean {
    const file = folder === this.own ? null : readFile(join(folder, indexFile));
    // Since the computer was started, the number may belong to another process.
    if (!file || file.written < Date.now() - uptime() * 1000) return false;
    return runsElsewhere(indexOf(file.text)?.pid ?? null);
  }

  /** Does the work, and returns whether it succeeded. */
  private attempt(work: () => void): boolean {
    try {
      work();
      return true;
    } catch (error) {
      this.report.problem(`conversations were not kept: ${error instanceof Error ? error.message : String(error)}`);
      return false;
    }
  }
}

/** The names of the files of conversations in a folder. */
function files(folder: string): string[] {
  try {
    return readdirSync(folder).filter((name) => /^[0-9a-f]{24}\.json$/.test(name));
  } catch {
    return [];
  }
}

function readFile(path: string): { text: string; written: number } | null {
  try {
    const { size, mtimeMs } = statSync(path);
    return size > mostBytes ? null : { text: readFileSync(path, 'utf8'), written: mtimeMs };
  } catch {
    return null;
  }
}

/** The shown conversation, the chain that it belongs to, and the process of the window. */
function indexOf(text: string): { current: string; chain: string; pid: number | null } | null {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== 'object' || value === null || !('current' in value) || !('chain' in value)) return null;
    const { current, chain } = value;
    const pid = 'pid' in value && typeof value.pid === 'number' && value.pid > 0 ? value.pid : null;
    return typeof current === 'string' && typeof chain === 'string' ? { current, chain, pid } : null;
  } catch {
    return null;
  }
}

/** Whether another process with this number runs. */
function runsElsewhere(pid: number | null): boolean {
  if (pid === null || pid === process.pid) return false;
  try {
    return process.kill(pid, 0);
  } catch (error) {
    // It runs, and belongs to another user.
    return typeof error === 'object' && error !== null && 'code' in error && error.code === 'EPERM';
  }
}
