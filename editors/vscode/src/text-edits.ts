// Edits of texts, as the messages of SCP describe them: which parts of a text are replaced, and what the result is.
import { linesOf, rangeOf, unitsBefore, type Lines, type Place, type Range } from './positions';

export interface PartEdit { start: Place; end: Place | null; text: string }
export interface PlacedEdit { range: Range; text: string }

/**
 * The ranges of edits in a text, in order.
 * @throws If a position does not exist, or if two edits overlap.
 */
export function placed(lines: Lines, edits: readonly PartEdit[]): PlacedEdit[] {
  const found = edits.map(({ start, end, text }) => {
    check(lines, start);
    if (end) check(lines, end);
    const range = rangeOf(lines, start, end);
    if (end && isBefore(lines, end, start)) throw new Error(`line ${start.line}: the end is before the start`);
    return { range, text };
  });
  found.sort((a, b) => compare(a.range.start, b.range.start) || compare(a.range.end, b.range.end));
  found.forEach(({ range }, index) => {
    const last = found[index - 1];
    if (last && compare(range.start, last.range.end) < 0) throw new Error('two changes overlap');
  });
  return found;
}

function compare(a: Range['start'], b: Range['start']): number {
  return a.line - b.line || a.character - b.character;
}

function isBefore(lines: Lines, end: Place, start: Place): boolean {
  const from = rangeOf(lines, start, null).start;
  const to = rangeOf(lines, end, end).end;
  return compare(to, from) < 0;
}

/** Whether a place exists. The error names the line or column that does not. */
function check(lines: Lines, { line, column }: Place): void {
  if (line < 1) throw new Error('line 0 does not exist: lines begin with 1');
  if (line > lines.lineCount) throw new Error(`line ${line} does not exist: the file has ${lines.lineCount} lines`);
  if (column === null || column === undefined) return;
  const { text } = lines.lineAt(line - 1);
  const last = [...text].length + 1;
  if (column < 1 || column > last) throw new Error(`line ${line} has no column ${column}: the last one is ${last}`);
}

/** The text after the edits. Ends of lines are those of the text. */
export function applied(text: string, edits: readonly PlacedEdit[]): string {
  const starts = [0];
  for (const match of text.matchAll(/\r\n|\r|\n/g)) starts.push(match.index + match[0].length);
  const offset = (at: Range['start']) => (starts[at.line] ?? text.length) + at.character;
  const ends = text.includes('\r\n') ? '\r\n' : '\n';
  let result = '';
  let from = 0;
  for (const { range, text: part } of edits) {
    result += text.slice(from, offset(range.start)) + part.replace(/\r\n|\n/g, ends);
    from = offset(range.end);
  }
  return result + text.slice(from);
}

/** Where a whole word first occurs in a text, or null. */
export function findWord(text: string, word: string): Range | null {
  if (!word) return null;
  const lines = linesOf(text);
  const isPart = (letter: string | undefined) => letter !== undefined && /[\p{L}\p{N}_$]/u.test(letter);
  for (let line = 0; line < lines.lineCount; line += 1) {
    const content = lines.lineAt(line).text;
    for (let at = content.indexOf(word); at >= 0; at = content.indexOf(word, at + 1)) {
      const after = at + word.length;
      if (isPart(content.slice(0, at).at(-1)) || isPart(content[after])) continue;
      return { start: { line, character: at }, end: { line, character: after } };
    }
  }
  return null;
}

/** The first character of a line that is not a space, as a column. */
export function firstColumn(text: string): number {
  const units = text.search(/\S/);
  return units < 0 ? 1 : unitsBefore(text, 1) + units + 1;
}

/**
 * The part of a text that differs from another one, in whole lines: the rest of a document is not touched, so that
 * cursors and marks stay, and no position is in the middle of a character or of an end of line.
 */
export function difference(before: string, after: string): { from: number; to: number; part: string } {
  const shorter = Math.min(before.length, after.length);
  let from = 0;
  while (from < shorter && before[from] === after[from]) from += 1;
  let same = 0;
  while (same < shorter - from && before.at(-1 - same) === after.at(-1 - same)) same += 1;
  from = from === 0 ? 0 : before.lastIndexOf('\n', from - 1) + 1;
  const end = before.indexOf('\n', before.length - same);
  same = same === 0 || end < 0 ? 0 : before.length - end - 1;
  return { from, to: before.length - same, part: after.slice(from, after.length - same) };
}
