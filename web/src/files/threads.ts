// Comment threads as the viewer needs them: by file, in the order of their lines, and with their place in the text.
import type { Entry, Thread } from 'acp-conductor-client/link';
import type { Line, Piece } from '../parts/highlight';

export interface PlacedThread {
  id: string;
  thread: Thread;
}

/** The threads by file. Files are in the order of their first comment, threads in the order of their lines. */
export function threadsByFile(entries: ReadonlyArray<readonly [string, Entry]>): Map<string, PlacedThread[]> {
  const files = new Map<string, PlacedThread[]>();
  for (const [id, entry] of entries) {
    if (entry.kind !== 'thread') continue;
    const list = files.get(entry.path) ?? [];
    list.push({ id, thread: entry });
    files.set(entry.path, list);
  }
  for (const list of files.values()) list.sort((a, b) => a.thread.line - b.thread.line || a.thread.endLine - b.thread.endLine);
  return files;
}

/** The thread after (or before) another one, over all files. It goes round at the end. */
export function nextThread(files: Map<string, PlacedThread[]>, current: string | null, path: string | null, step: 1 | -1):
  PlacedThread | null {
  const all = [...files.values()].flat();
  if (all.length === 0) return null;
  const at = all.findIndex((it) => it.id === current);
  if (at >= 0) return all[(at + step + all.length) % all.length] ?? null;
  // Nothing is chosen yet: begin in the file in front.
  const here = path === null ? undefined : files.get(path);
  return (step === 1 ? here?.[0] ?? all[0] : here?.at(-1) ?? all.at(-1)) ?? null;
}

/** `line 3`, `lines 3 to 5`. */
export function placeText(thread: Thread): string {
  return thread.endLine > thread.line ? `lines ${thread.line} to ${thread.endLine}` : `line ${thread.line}`;
}

/** The first line of a comment without the signs of Markdown, for a list. */
export function summaryText(text: string): string {
  const line = text.split('\n').map((it) => it.replace(/^[#>\s*-]+/, '').trim()).find(Boolean) ?? '';
  return line.replace(/[`*_]/g, '');
}

/** The range of a thread in one line, from column to column (from 1, the second exclusive), or null if it is all of it. */
export function rangeInLine(thread: Thread, line: number): [number, number] | null {
  const from = line === thread.line ? thread.column : null;
  const to = line === thread.endLine ? thread.endColumn : null;
  return from === null && to === null ? null : [from ?? 1, to ?? Number.MAX_SAFE_INTEGER];
}

export type MarkedPiece = Piece & { marked: boolean };

/** Cuts the pieces of a line where a range begins and ends. Columns count characters, not UTF-16 units. */
export function markRange(line: Line, [from, to]: [number, number]): MarkedPiece[] {
  const pieces: MarkedPiece[] = [];
  let column = 1;
  for (const piece of line) {
    let text = '';
    let marked = column >= from && column < to;
    for (const char of piece.text) {
      const inside = column >= from && column < to;
      if (inside !== marked) {
        if (text) pieces.push({ text, cls: piece.cls, marked });
        text = '';
        marked = inside;
      }
      text += char;
      column += 1;
    }
    if (text) pieces.push({ text, cls: piece.cls, marked });
  }
  return pieces;
}
