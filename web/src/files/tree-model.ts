// The tree of files: which folders are open, what they contain, and the rows that this gives.
import { batch, computed, signal, type ReadonlySignal } from '@preact/signals';
import type { Store } from '../link/store';
import type { FileEntry } from 'acp-conductor-client/link';
import { baseName, folderOf, foldersAbove, join } from './paths';
import { listFiles, reason } from './results';

export interface Row {
  path: string;
  name: string;
  folder: boolean;
  /** Whether a folder is open. */
  open: boolean;
  /** From 1. */
  level: number;
  place: number;
  size: number;
  /** Instead of an entry: the folder is loading, is empty, cannot be read or has more entries. */
  note: string | null;
}

type Listing = { entries: FileEntry[] } | { failed: string } | 'loading';

/** The most entries of a folder that are shown. The server sends one more, if there are more. */
const mostEntries = 5000;

export class TreeModel {
  /** The listings of folders that were opened once. */
  private readonly listings = signal<ReadonlyMap<string, Listing>>(new Map());
  private readonly opened = signal<ReadonlySet<string>>(new Set());
  /** The row that has the tab stop. */
  readonly current = signal<string | null>(null);
  readonly rows: ReadonlySignal<Row[]>;
  /** The listing of the project: null while it is loading. */
  readonly root: ReadonlySignal<{ failed: string | null; empty: boolean } | null>;

  constructor(private readonly store: Store) {
    this.rows = computed(() => {
      const rows: Row[] = [];
      this.add('', 1, rows);
      return rows;
    });
    this.root = computed(() => {
      const listing = this.listings.value.get('');
      if (!listing || listing === 'loading') return null;
      return 'failed' in listing ? { failed: listing.failed, empty: false } : { failed: null, empty: listing.entries.length === 0 };
    });
    void this.load('');
  }

  private add(folder: string, level: number, rows: Row[]): void {
    const listing = this.listings.value.get(folder);
    const note = (text: string) => {
      if (level > 1) rows.push({ path: `${folder}/`, name: text, folder: false, open: false, level, place: 1, size: 1, note: text });
    };
    if (!listing || listing === 'loading') note('Loading…');
    else if ('failed' in listing) note(listing.failed);
    else if (listing.entries.length === 0) note('The folder is empty.');
    else {
      const shown = listing.entries.slice(0, mostEntries);
      const size = shown.length;
      shown.forEach((entry, i) => {
        const path = join(folder, entry.name);
        const open = entry.folder && this.opened.value.has(path);
        rows.push({ path, name: entry.name, folder: entry.folder, open, level, place: i + 1, size, note: null });
        if (open) this.add(path, level + 1, rows);
      });
      if (listing.entries.length > size) {
        const text = `The folder has more. The first ${size.toLocaleString('en')} entries are shown.`;
        rows.push({ path: `${folder}/…`, name: text, folder: false, open: false, level, place: 1, size: 1, note: text });
      }
    }
  }

  toggle(path: string, open = !this.opened.peek().has(path)): void {
    const opened = new Set(this.opened.peek());
    if (open) opened.add(path);
    else opened.delete(path);
    this.opened.value = opened;
    if (open && !this.listings.peek().has(path)) void this.load(path);
  }

  /** Opens the folders above a file, and makes it the current row. */
  async reveal(path: string): Promise<void> {
    batch(() => {
      for (const folder of foldersAbove(path)) this.toggle(folder, true);
      this.current.value = path;
    });
  }

  /** A file was written. If its folder is shown without it, the folder is listed again. */
  changed(path: string): void {
    const listing = this.listings.peek().get(folderOf(path));
    const known = listing && listing !== 'loading' && 'entries' in listing
      && listing.entries.some((it) => it.name === baseName(path));
    if (listing && !known) void this.load(folderOf(path));
  }

  /** Lists all folders again that were opened. */
  refresh(): void {
    for (const path of this.listings.peek().keys()) void this.load(path);
  }

  private async load(path: string): Promise<void> {
    if (!this.listings.peek().has(path)) this.set(path, 'loading');
    try {
      this.set(path, { entries: await listFiles(this.store, path) });
    } catch (error) {
      this.set(path, { failed: reason(error) });
    }
  }

  private set(path: string, listing: Listing): void {
    this.listings.value = new Map(this.listings.peek()).set(path, listing);
  }
}
