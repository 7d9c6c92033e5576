// The difference of two texts as lines, with the changed words inside of lines; and unified diffs as lines.
import { diffLines, diffWordsWithSpace } from 'diff';

export interface DiffLine {
  kind: 'same' | 'del' | 'ins';
  text: string;
  /** Line numbers before and after, from 1. */
  before: number | null;
  after: number | null;
  /** The changed parts of the line: begin and end. */
  changed: Array<[number, number]>;
}

/** Lines that belong together, with what is left out before them. */
export interface Hunk {
  skipped: number;
  /** The heading of a unified diff, such as a function name. */
  title: string;
  lines: DiffLine[];
}

export interface TextDiff {
  hunks: Hunk[];
  /** How many lines are left out after the last hunk. */
  skipped: number;
  added: number;
  removed: number;
}

/** Above this the texts are not compared. */
const longest = 1 << 20;
/** How many edits and milliseconds a comparison may take. */
const limits = { maxEditLength: 20_000, timeout: 500 };
const context = 3;

/** The difference, or null if the texts are too long or too different to be compared. */
export function compare(before: string, after: string): TextDiff | null {
  const lines = allLines(before, after);
  if (!lines) return null;
  markWords(lines);
  const { hunks, skipped } = intoHunks(lines);
  return { hunks, skipped, ...count(lines) };
}

/** How many lines were added and removed. */
export function diffStat(before: string | null, after: string): { added: number; removed: number } {
  const lines = allLines(before ?? '', after);
  if (lines) return count(lines);
  return { added: splitLines(after).length, removed: splitLines(before ?? '').length };
}

function count(lines: DiffLine[]): { added: number; removed: number } {
  let added = 0;
  let removed = 0;
  for (const line of lines) {
    if (line.kind === 'ins') added++;
    else if (line.kind === 'del') removed++;
  }
  return { added, removed };
}

function splitLines(text: string): string[] {
  if (text === '') return [];
  const lines = text.split('\n');
  if (lines[lines.length - 1] === '') lines.pop();
  return lines;
}

function allLines(before: string, after: string): DiffLine[] | null {
  if (before.length + after.length > longest) return null;
  const parts = diffLines(before, after, { ...limits, ignoreNewlineAtEof: true });
  if (!parts) return null;
  const lines: DiffLine[] = [];
  let old = 1;
  let now = 1;
  for (const part of parts) {
    for (const text of splitLines(part.value)) {
      if (part.removed) lines.push({ kind: 'del', text, before: old++, after: null, changed: [] });
      else if (part.added) lines.push({ kind: 'ins', text, before: null, after: now++, changed: [] });
      else lines.push({ kind: 'same', text, before: old++, after: now++, changed: [] });
    }
  }
  return lines;
}

/** Finds the changed words where lines were replaced by as many lines. */
function markWords(lines: DiffLine[]): void {
  for (let i = 0; i < lines.length;) {
    let del = 0;
    while (lines[i + del]?.kind === 'del') del++;
    let ins = 0;
    while (lines[i + del + ins]?.kind === 'ins') ins++;
    if (del > 0 && del === ins && del <= 50) {
      for (let j = 0; j < del; j++) markPair(lines[i + j]!, lines[i + del + j]!);
    }
    i += Math.max(del + ins, 1);
  }
}

function markPair(del: DiffLine, ins: DiffLine): void {
  if (del.text.length + ins.text.length > 2000) return;
  const parts = diffWordsWithSpace(del.text, ins.text, { maxEditLength: 200 });
  if (!parts) return;
  const kept = parts.reduce((sum, part) => sum + (part.added || part.removed ? 0 : part.value.trim().length), 0);
  // Lines with little in common are two lines, not one changed line.
  if (kept * 3 < Math.min(del.text.trim().length, ins.text.trim().length)) return;
  let old = 0;
  let now = 0;
  for (const { value, added, removed } of parts) {
    if (removed) del.changed.push([old, old + value.length]);
    else if (added) ins.changed.push([now, now + value.length]);
    if (!added) old += value.length;
    if (!removed) now += value.length;
  }
}

function intoHunks(lines: DiffLine[]): { hunks: Hunk[]; skipped: number } {
  const hunks: Hunk[] = [];
  let end = 0;
  for (let i = 0; i < lines.length; i++) {
    if (lines[i]!.kind === 'same') continue;
    const from = Math.max(i - context, end);
    let last = i;
    // One hunk goes on while the next change is near.
    for (let j = i; j < lines.length && j <= last + 2 * context; j++) if (lines[j]!.kind !== 'same') last = j;
    const to = Math.min(last + context + 1, lines.length);
    hunks.push({ skipped: from - end, title: '', lines: lines.slice(from, to) });
    end = to;
    i = to - 1;
  }
  return { hunks, skipped: lines.length - end };
}

export interface FilePatch {
  path: string;
  hunks: Hunk[];
}

/** Reads a unified diff. Text outside of hunks is left out, except for the names of the files. */
export function parseUnified(text: string): FilePatch[] {
  const files: FilePatch[] = [];
  let hunk: Hunk | null = null;
  let old = 0;
  let now = 0;
  let oldLeft = 0;
  let nowLeft = 0;
  for (const line of splitLines(text.replace(/\r\n/g, '\n'))) {
    const head = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)$/.exec(line);
    if (head) {
      if (files.length === 0) files.push({ path: '', hunks: [] });
      [old, now] = [Number(head[1]), Number(head[3])];
      [oldLeft, nowLeft] = [Number(head[2] ?? 1), Number(head[4] ?? 1)];
      const before: number = hunk?.lines.findLast((it) => it.after !== null)?.after ?? 0;
      hunk = { skipped: Math.max(now - before - 1, 0), title: head[5] ?? '', lines: [] };
      files[files.length - 1]!.hunks.push(hunk);
    } else if (hunk && (oldLeft > 0 || nowLeft > 0) && /^[ +-]|^$/.test(line)) {
      const sign = line.charAt(0);
      const kind = sign === '+' ? 'ins' : sign === '-' ? 'del' : 'same';
      hunk.lines.push({
        kind, text: line.slice(1), changed: [], before: kind === 'ins' ? null : old, after: kind === 'del' ? null : now,
      });
      if (kind !== 'ins') [old, oldLeft] = [old + 1, oldLeft - 1];
      if (kind !== 'del') [now, nowLeft] = [now + 1, nowLeft - 1];
    } else if (line.startsWith('--- ')) {
      files.push({ path: fileName(line), hunks: [] });
      hunk = null;
    } else if (line.startsWith('+++ ') && files.length > 0) {
      const name = fileName(line);
      if (name !== '/dev/null') files[files.length - 1]!.path = name;
    }
  }
  for (const file of files) for (const it of file.hunks) markWords(it.lines);
  return files.filter((file) => file.hunks.length > 0);
}

function fileName(line: string): string {
  return line.slice(4).split('\t')[0]!.replace(/^"?[ab]\//, '').replace(/"$/, '');
}
