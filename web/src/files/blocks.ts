// The text of a file in blocks: pieces of lines with the comment threads between them.
import type { PlacedThread } from './threads';

export type Block =
  /** Lines from `from` to `to`, both from 1 and inclusive. */
  | { kind: 'lines'; from: number; to: number }
  | { kind: 'thread'; placed: PlacedThread };

/** A block has at most so many lines, so that only those near the view must be in the page. */
export const linesInBlock = 100;

/** Threads stand below the last line of their range. Those on lines that do not exist are returned apart. */
export function blocksOf(lines: number, threads: readonly PlacedThread[]): { blocks: Block[]; orphaned: PlacedThread[] } {
  const blocks: Block[] = [];
  const orphaned = threads.filter((it) => it.thread.line > lines);
  const placed = threads.filter((it) => it.thread.line <= lines)
    .map((it) => ({ it, after: Math.min(it.thread.endLine, lines) }))
    .sort((a, b) => a.after - b.after);
  let from = 1;
  const add = (to: number) => {
    for (; from <= to; from = Math.min(from + linesInBlock, to + 1)) {
      blocks.push({ kind: 'lines', from, to: Math.min(from + linesInBlock - 1, to) });
    }
  };
  for (const { it, after } of placed) {
    add(after);
    blocks.push({ kind: 'thread', placed: it });
  }
  add(lines);
  return { blocks, orphaned };
}

/** The lines of a text. A line break at the end begins no line. */
export function countLines(text: string): number {
  if (text === '') return 0;
  let count = text.endsWith('\n') ? 0 : 1;
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) count += 1;
  return count;
}

/** The width of the longest line in characters. A tab counts as four. */
export function longestLine(text: string): number {
  let longest = 0;
  let width = 0;
  for (const char of text) {
    if (char === '\n') width = 0;
    else width += char === '\t' ? 4 : 1;
    if (width > longest) longest = width;
  }
  return longest;
}
