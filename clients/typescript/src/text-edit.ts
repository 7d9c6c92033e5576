// Changes parts of texts. Lines and columns begin with 1, and columns count characters (Unicode scalar values).
import type { Position } from './scp';

export interface PartEdit { start: Position; end: Position | null; new_text: string }

/** The text with these changes. All positions are those of the text before. Throws an error that names what is wrong. */
export function applyEdits(text: string, edits: readonly PartEdit[]): string {
  const parts = edits.map(({ start, end, new_text }) => ({ ...part(text, start, end), new_text }));
  parts.sort((a, b) => a.from - b.from || a.to - b.to);
  let [result, at] = ['', 0];
  for (const { from, to, new_text } of parts) {
    if (from < at) throw new Error('two changes overlap');
    result += text.slice(at, from) + new_text;
    at = to;
  }
  return result + text.slice(at);
}

/** The UTF-16 units of a part of a text. Without an end, it is the rest of the line. */
export function part(text: string, start: Position, end: Position | null): { from: number; to: number } {
  const from = offset(text, start.line, start.column ?? 1);
  const to = end?.column ? offset(text, end.line, end.column) : lineOf(text, end?.line ?? start.line).to;
  if (end?.column === 0) offset(text, end.line, 0);
  if (to < from) throw new Error(`line ${start.line}: the end is before the start`);
  return { from, to };
}

/** A line without its end. The line after the last one is empty, so that text can be added. */
function lineOf(text: string, line: number): { from: number; to: number } {
  if (line === 0) throw new Error('line 0 does not exist: lines begin with 1');
  let from = 0;
  for (let number = 1; number < line; number += 1) {
    const end = text.indexOf('\n', from);
    if (end < 0) {
      const lines = text.split('\n').length - (text.endsWith('\n') || text === '' ? 1 : 0);
      throw new Error(`line ${line} does not exist: the file has ${lines} lines`);
    }
    from = end + 1;
  }
  const end = text.indexOf('\n', from);
  const to = end < 0 ? text.length : end;
  return { from, to: to > from && text[to - 1] === '\r' ? to - 1 : to };
}

function offset(text: string, line: number, column: number): number {
  const { from, to } = lineOf(text, line);
  const letters = [...text.slice(from, to)];
  if (column < 1 || column > letters.length + 1) {
    throw new Error(`line ${line} has no column ${column}: the last one is ${letters.length + 1}`);
  }
  return from + letters.slice(0, column - 1).join('').length;
}
