// The messages of SCP (docs/scp.md): panels, comments in files, and operations of an editor. Checked, with types.
import { array, boolean, type Check, nullable, number, object, string, Mismatch } from './link/check';

/** The version of SCP that this library knows. */
export const scpVersion = '1.1';

/** A place in a file. Lines and columns count from 1, and columns count characters. */
export interface Position { line: number; column: number | null }
/** A place in a file, as an answer: without a column, it is the whole line. */
export interface ScpPosition { line: number; column?: number }

/** What a person has selected. */
export interface Selection { url: string; start: ScpPosition; end?: ScpPosition; text: string }
/** A part of a file. `text` is the line of code. */
export interface Location { url: string; start: ScpPosition; end?: ScpPosition; text?: string }
export interface Diagnostic {
  url: string; start: ScpPosition; end?: ScpPosition;
  severity: 'error' | 'warning' | 'information' | 'hint'; message: string; source?: string;
}
export interface OpenedFile { url: string; active: boolean; modified: boolean }
/** A part of a file, and the text that replaces it. */
export interface TextEdit { url: string; start: Position; end: Position | null; new_text: string }

/** What an operation is asked for. A missing member is null. */
export interface OperationParams {
  'get-selection': { sessionId: string | null };
  'open-file': { url: string; line: number | null; column: number | null; sessionId: string | null };
  'find-definition': SymbolPlace;
  'find-all-references': SymbolPlace;
  'diagnostics': { url: string | null; sessionId: string | null };
  'list-open-files': { sessionId: string | null };
  'apply-edit': { label: string | null; edits: TextEdit[]; sessionId: string | null };
}

/** A symbol: by its name, or by a place where it is used. */
export interface SymbolPlace {
  url: string | null; line: number | null; column: number | null; symbol: string | null; sessionId: string | null;
}

/** What an operation answers. */
export interface OperationResults {
  'get-selection': Selection | null;
  'open-file': void;
  'find-definition': { locations: Location[] };
  'find-all-references': { locations: Location[] };
  'diagnostics': { diagnostics: Diagnostic[] };
  'list-open-files': { files: OpenedFile[] };
  'apply-edit': { applied: boolean; reason?: string };
}

export type OperationName = keyof OperationParams;

/**
 * The operations that an editor performs. What is here is declared as a capability. An operation that fails throws an
 * error: its text is for the component that asks. The signal aborts when nobody waits for the result any more.
 */
export type Operations = {
  [Name in OperationName]?: (params: OperationParams[Name], signal: AbortSignal) => Promise<OperationResults[Name]>;
};

const place = object({ line: line, column: nullable(line) }) satisfies Check<Position>;
const session = { sessionId: nullable(string) };
const symbol = object({
  url: nullable(string), line: nullable(line), column: nullable(line), symbol: nullable(string), ...session,
}) satisfies Check<SymbolPlace>;

/** A whole number that is not negative. */
function line(value: unknown, path: string): number {
  const found = number(value, path);
  if (!Number.isInteger(found) || found < 0 || found > 0xffff_ffff) throw new Mismatch(path, 'a line or column', value);
  return found;
}

/** The checks of the params of operations. */
export const operationParams: { [Name in OperationName]: Check<OperationParams[Name]> } = {
  'get-selection': object(session),
  'open-file': object({ url: string, line: nullable(line), column: nullable(line), ...session }),
  'find-definition': symbol,
  'find-all-references': symbol,
  'diagnostics': object({ url: nullable(string), ...session }),
  'list-open-files': object(session),
  'apply-edit': object({
    label: nullable(string),
    edits: array(object({ url: string, start: place, end: nullable(place), new_text: string })),
    ...session,
  }),
};

/** The names of all operations. */
export const operationNames: readonly OperationName[] = Object.freeze([
  'get-selection', 'open-file', 'find-definition', 'find-all-references', 'diagnostics', 'list-open-files', 'apply-edit',
]);

export const isOperationName = (name: string): name is OperationName => Object.hasOwn(operationParams, name);

/** The methods of SCP. */
export const scpMethods = {
  showPanel: '_scp/html_panel/show',
  getPanel: '_scp/html_panel/get',
  clearPanel: '_scp/html_panel/clear',
  panelEvent: '_scp/html_panel/event',
  panelClosed: '_scp/html_panel/closed',
  showComment: '_scp/file_comment/show',
  clearComment: '_scp/file_comment/clear',
  commentReply: '_scp/file_comment/reply',
  /** The name of the operation follows. */
  operation: '_scp/ide_operation/',
  log: '_scp/log',
} as const;

/** The checks of the params of the other messages toward the editor. */
export const scpParams = {
  showPanel: object({ id: string, label: nullable(string), contents: nullable(string), ...session }),
  getPanel: object({ id: string }),
  clearPanel: object({ id: string }),
  showComment: object({
    id: string, url: string, start: place, end: nullable(place), can_reply: nullable(boolean),
    contents: nullable(string), ...session,
  }),
  clearComment: object({ id: string }),
};
