// What the file viewer shows: open files and edits, their texts, and the topics of the server that change them.
import { batch, computed, effect, signal, untracked, type ReadonlySignal, type Signal } from '@preact/signals';
import { typesInFiles } from '../base/keys';
import { say } from '../base/live';
import type { Store, Topic } from '../link/store';
import type { Entry } from 'acp-conductor-client/link';
import { TreeModel } from './tree-model';
import { readFile, reason } from './results';
import { nextThread, threadsByFile, type PlacedThread } from './threads';

export type FileState =
  | { state: 'loading' }
  | { state: 'failed'; why: string }
  /** A note says why there is no text, or not all of it. */
  | { state: 'shown'; text: string; note: string | null };

/** The beginning of the id of a tab that shows an edit. Other tabs have the path of their file. */
const editPrefix = 'edit:';

export type Edit = Extract<Entry, { kind: 'edit' }>;

/** A place to show. The version makes the same place a new wish. */
export interface Target {
  path: string;
  line: number | null;
  /** The thread to show and to focus. */
  thread: string | null;
  version: number;
}

export class FilesModel {
  /** The tabs: paths of files, and edits. */
  readonly tabs = signal<readonly string[]>([]);
  readonly active = signal<string | null>(null);
  readonly target = signal<Target | null>(null);
  readonly thread = signal<string | null>(null);
  /** The thread whose reply box is to be opened. */
  readonly replyWish = signal<{ thread: string; version: number } | null>(null);
  readonly threads: ReadonlySignal<Map<string, PlacedThread[]>>;
  readonly edits: ReadonlySignal<ReadonlyArray<readonly [string, Edit]>>;
  readonly tree: TreeModel;
  /** The replies that are being written, by thread. */
  readonly drafts = new Map<string, Signal<string>>();
  private readonly files = new Map<string, Signal<FileState>>();
  private readonly versions = new Map<string, number>();
  private readonly reads = new Map<string, number>();
  private readonly knownEdits = new Set<string>();
  private selection: [number, number, number, number] | null = null;
  private wishes = 0;
  private reached = 0;
  private asked = 0;

  constructor(readonly store: Store) {
    const [files, comments, edits] = ['files', 'comments', 'edits'].map((name) => store.topic(name)) as [Topic, Topic, Topic];
    this.tree = new TreeModel(store);
    this.threads = computed(() => threadsByFile(comments.entries.value));
    this.edits = computed(() => edits.entries.value.filter((it): it is readonly [string, Edit] => it[1].kind === 'edit'));
    effect(() => this.followFiles(files.entries.value));
    effect(() => this.followEdits(this.edits.value));
    this.followCommands();
  }

  file(path: string): ReadonlySignal<FileState> {
    const known = this.files.get(path);
    if (known) return known;
    const made = signal<FileState>({ state: 'loading' });
    this.files.set(path, made);
    void this.read(path);
    return made;
  }

  edit(tab: string): { id: string; edit: Edit } | null {
    if (!tab.startsWith(editPrefix)) return null;
    const id = tab.slice(editPrefix.length);
    const found = this.edits.value.find(([it]) => it === id);
    return found ? { id, edit: found[1] } : null;
  }

  isEdit(tab: string): boolean {
    return tab.startsWith(editPrefix);
  }

  /** The file in front, if it is no edit. */
  get activeFile(): string | null {
    const tab = this.active.value;
    return tab !== null && !this.isEdit(tab) ? tab : null;
  }

  open(path: string, line: number | null = null, thread: string | null = null): void {
    batch(() => {
      this.show(path);
      if (thread !== null) this.thread.value = thread;
      if (line !== null || thread !== null) this.target.value = { path, line, thread, version: ++this.wishes };
    });
    void this.tree.reveal(path);
  }

  /** Opens a file for a request of the page. A view that is shown again makes the same request again. */
  openOnce(version: number, path: string, line: number | null): void {
    if (version <= this.asked) return;
    this.asked = version;
    this.open(path, line);
  }

  /** Whether the target is new. A view goes there once. */
  reach(version: number): boolean {
    const isNew = version > this.reached;
    this.reached = Math.max(this.reached, version);
    return isNew;
  }

  openEdit(id: string): void {
    this.show(editPrefix + id);
  }

  select(tab: string): void {
    this.show(tab);
  }

  close(tab: string): void {
    const tabs = this.tabs.peek();
    const at = tabs.indexOf(tab);
    if (at < 0) return;
    const rest = tabs.filter((it) => it !== tab);
    batch(() => {
      this.tabs.value = rest;
      if (this.active.peek() === tab) this.active.value = rest[Math.min(at, rest.length - 1)] ?? null;
    });
    this.files.delete(tab);
    this.selection = null;
    this.report();
  }

  /** Goes to the next or previous thread, also in another file. */
  walk(step: 1 | -1): boolean {
    const next = nextThread(this.threads.peek(), this.thread.peek(), this.activeFile, step);
    if (!next) return false;
    this.open(next.thread.path, null, next.id);
    return true;
  }

  /** Opens the reply box of the thread that was chosen last. */
  wishReply(): boolean {
    const path = this.activeFile;
    const thread = this.thread.peek();
    if (path === null || !this.threads.peek().get(path)?.some((it) => it.id === thread) || thread === null) return false;
    this.replyWish.value = { thread, version: ++this.wishes };
    return true;
  }

  setSelection(selection: [number, number, number, number] | null): void {
    if (String(selection) === String(this.selection)) return;
    this.selection = selection;
    this.report();
  }

  reload(path: string): void {
    void this.read(path);
  }

  /** Reads all open files again: others may have changed them. */
  reloadAll(): void {
    for (const path of this.files.keys()) void this.read(path);
  }

  draft(thread: string): Signal<string> {
    const known = this.drafts.get(thread);
    if (known) return known;
    const made = signal('');
    this.drafts.set(thread, made);
    return made;
  }

  async reply(thread: string, text: string): Promise<void> {
    await this.store.do({ op: 'reply', thread, text });
    this.drafts.delete(thread);
  }

  async answer(edit: string, accept: boolean): Promise<void> {
    await this.store.do({ op: 'answerEdit', edit, accept });
  }

  private show(tab: string): void {
    const before = this.active.peek();
    batch(() => {
      if (!this.tabs.peek().includes(tab)) this.tabs.value = [...this.tabs.peek(), tab];
      this.active.value = tab;
    });
    if (before !== tab) {
      this.selection = null;
      this.report();
    }
  }

  /** Tells the server what is shown. Components may ask for it. */
  private report(): void {
    const open = this.tabs.peek().filter((tab) => !this.isEdit(tab));
    const tab = this.active.peek();
    const active = tab !== null && !this.isEdit(tab) ? tab : null;
    // If it fails, the connection is gone. The next change reports everything again.
    this.store.do({ op: 'viewing', open, active, selection: this.selection }).catch(() => undefined);
  }

  private async read(path: string): Promise<void> {
    const turn = (this.reads.get(path) ?? 0) + 1;
    this.reads.set(path, turn);
    let next: FileState;
    let name = path;
    try {
      const { path: known, text, note } = await readFile(this.store, path);
      next = { state: 'shown', text, note };
      name = known;
    } catch (error) {
      next = { state: 'failed', why: reason(error) };
    }
    const file = this.files.get(path);
    // A later reading has newer text.
    if (!file || this.reads.get(path) !== turn) return;
    const shown = file.peek();
    const isSame = shown.state === 'shown' && next.state === 'shown' && shown.text === next.text && shown.note === next.note;
    if (isSame && name === path) return;
    if (name === path) file.value = next;
    else this.rename(path, name, next);
  }

  /** The server knows the file by another path, for example an absolute one without its folder. The tab takes it. */
  private rename(from: string, to: string, state: FileState): void {
    batch(() => {
      const known = this.files.get(to);
      if (known) known.value = state;
      else this.files.set(to, signal(state));
      this.files.delete(from);
      this.tabs.value = [...new Set(this.tabs.peek().map((tab) => (tab === from ? to : tab)))];
      if (this.active.peek() === from) this.active.value = to;
      const target = this.target.peek();
      if (target?.path === from) this.target.value = { ...target, path: to };
    });
    void this.tree.reveal(to);
    this.report();
  }

  private followFiles(entries: ReadonlyArray<readonly [string, Entry]>): void {
    for (const [id, entry] of entries) {
      if (entry.kind === 'changed' && entry.version !== this.versions.get(id)) {
        this.versions.set(id, entry.version);
        if (this.files.has(id)) void this.read(id);
        this.tree.changed(id);
      }
    }
  }

  /** A command can change any file. It has run when a turn ends, or in another window. */
  private followCommands(): void {
    const sessions = this.store.topic('sessions');
    let running = new Set<string>();
    effect(() => {
      const now = new Set<string>();
      for (const [id, it] of sessions.entries.value) if (it.kind === 'session' && ['running', 'asks'].includes(it.state)) now.add(id);
      const ended = [...running].some((id) => !now.has(id));
      running = now;
      if (ended) untracked(() => this.reloadAll());
    });
    globalThis.addEventListener?.('focus', () => this.reloadAll());
    globalThis.document?.addEventListener('visibilitychange', () => {
      if (!document.hidden) this.reloadAll();
    });
  }

  /** An edit that waits for an answer comes to the front once. While the user types or reviews another one, it only waits. */
  private followEdits(edits: ReadonlyArray<readonly [string, Edit]>): void {
    for (const [id, edit] of edits) {
      if (this.knownEdits.has(id)) continue;
      this.knownEdits.add(id);
      if (edit.state !== 'open') continue;
      // The edit that is being reviewed stays where it is.
      const front = this.active.peek();
      const reviews = front !== null && this.edit(front)?.edit.state === 'open';
      if (reviews || typesInFiles()) say(`Edit to review: ${edit.label || edit.files[0]?.path || 'without a name'}`);
      else this.openEdit(id);
    }
  }
}
