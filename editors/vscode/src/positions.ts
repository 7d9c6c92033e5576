// Positions: SCP counts lines and characters (Unicode scalar values) from 1, VS Code lines and UTF-16 units from 0.

/** The lines of a document. A `TextDocument` of VS Code is one. */
export interface Lines {
  readonly lineCount: number;
  lineAt(line: number): { readonly text: string };
}

/** A position of SCP. Without a column, it is the start or the end of the line. */
export interface Place { line: number; column?: number | null | undefined }

/** A position of VS Code. */
export interface At { line: number; character: number }
export interface Range { start: At; end: At }

/** The UTF-16 units before a column. A column after the end of the line is its end. */
export function unitsBefore(text: string, column: number): number {
  let units = 0;
  for (let left = column - 1; left > 0 && units < text.length; left -= 1) {
    units += (text.codePointAt(units) ?? 0) > 0xffff ? 2 : 1;
  }
  return units;
}

/** The column of a UTF-16 unit. A unit in the middle of a character belongs to it. */
export function columnAt(text: string, units: number): number {
  let column = 1;
  for (let at = 0; at < Math.min(units, text.length); column += 1) {
    const next = at + ((text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1);
    if (next > units) break;
    at = next;
  }
  return column;
}

/** The text of a line, or null if there is no such line. */
function lineText(lines: Lines, line: number): string | null {
  return line >= 0 && line < lines.lineCount ? lines.lineAt(line).text : null;
}

/** Where a place is. Places after the last line are the end of the document. */
export function atOf(lines: Lines, place: Place, open: 'start' | 'end'): At {
  const line = Math.max(0, place.line - 1);
  const text = lineText(lines, line);
  if (text === null) {
    const last = Math.max(0, lines.lineCount - 1);
    return { line: last, character: lineText(lines, last)?.length ?? 0 };
  }
  const column = place.column ?? null;
  if (column === null) return { line, character: open === 'start' ? 0 : text.length };
  return { line, character: unitsBefore(text, column) };
}

/** The range from a start to an end, as SCP completes it: without an end, to the end of the first line. */
export function rangeOf(lines: Lines, start: Place, end: Place | null): Range {
  const from = atOf(lines, start, 'start');
  const to = atOf(lines, end ?? { line: start.line }, 'end');
  const turned = to.line < from.line || (to.line === from.line && to.character < from.character);
  return { start: from, end: turned ? from : to };
}

/** The place of a position. */
export function placeOf(lines: Lines, at: At): { line: number; column: number } {
  const text = lineText(lines, at.line);
  return { line: at.line + 1, column: text === null ? at.character + 1 : columnAt(text, at.character) };
}

/** The lines of a text, for files that are not open. */
export function linesOf(text: string): Lines {
  const lines = text.split(/\r\n|\r|\n/);
  return { lineCount: lines.length, lineAt: (line) => ({ text: lines[line] ?? '' }) };
}

/** The lines of a range, for people: `12`, or `12-14`. An end at the start of a line is before that line. */
export function lineNumbers(range: Range): string {
  const last = range.end.line > range.start.line && range.end.character === 0 ? range.end.line : range.end.line + 1;
  const first = range.start.line + 1;
  return first === last ? String(first) : `${first}-${last}`;
}

/** The part of a text from a line (1 is the first), and at most so many lines. */
export function partOf(text: string, options: { line?: number | undefined; limit?: number | undefined }): string {
  if (options.line === undefined && options.limit === undefined) return text;
  const lines = text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
  const from = Math.max(0, (options.line ?? 1) - 1);
  return lines.slice(from, options.limit === undefined ? undefined : from + options.limit).join('');
}
