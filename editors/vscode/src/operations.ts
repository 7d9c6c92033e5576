// The operations of SCP, answered by VS Code: what it knows about selections, symbols, problems and open files.
import { pathToFileURL } from 'node:url';
import * as vscode from 'vscode';
import type { Location, OperationName, Operations, SymbolPlace } from 'acp-conductor-client';
import type { Edits } from './edits';
import type { Log } from './events';
import { openFile } from './open';
import { deniedOutside, fileLines, isInWorkspace, lastTextEditor, pathOf } from './places';
import { linesOf, placeOf, unitsBefore, type At, type Lines } from './positions';
import { settings } from './settings';
import { findWord } from './text-edits';
import { why } from './small';

/** How many places are answered at most. */
const mostPlaces = 2000;
const mostProblems = 2000;
/** Where a symbol is looked for, if no provider knows its name. */
const mostFilesWithWord = 3;
const mostFilesRead = 3000;
const largestFile = 1024 * 1024;

type Finder = 'vscode.executeDefinitionProvider' | 'vscode.executeReferenceProvider';
type Found = vscode.Location | vscode.LocationLink;
type Work<Params, Result> = (params: Params, signal: AbortSignal) => Promise<Result>;

export interface OperationTools {
  log: Log;
  edits: Pick<Edits, 'propose'>;
  /** The folder of a session. Relative paths belong to it. */
  folderOf(session: string | null): string;
  /** The path of a file that may be used. For one outside of the workspace, the person is asked, or it is an error. */
  allowed(path: string, session: string | null, signal: AbortSignal): Promise<string>;
}

export function operations({ log, edits, folderOf, allowed }: OperationTools): Operations {
  const file = (url: string, session: string | null, signal: AbortSignal): Promise<string> => (
    allowed(pathOf(url, folderOf(session)), session, signal));
  /** The operation, with an event before and after. */
  const one = <Params, Result>(name: OperationName, work: Work<Params, Result>): Work<Params, Result> =>
    async (params, signal) => {
      log.own({ event: 'operation', name, params });
      try {
        const result = await work(params, signal);
        log.own({ event: 'operation done', name, result });
        return result;
      } catch (error) {
        log.own({ event: 'operation failed', name, error: why(error) });
        throw error;
      }
    };
  return {
    'get-selection': one('get-selection', () => selection()),
    'open-file': one('open-file', async ({ url, line, column, sessionId }, signal) => {
      const path = await file(url, sessionId, signal);
      await openFile(path, line === null ? null : { line, column: column ?? 1 }, false).catch(() => {
        throw new Error(`there is no file ${url} that can be shown`);
      });
    }),
    'find-definition': one('find-definition', async (place, signal) => ({
      locations: await find('vscode.executeDefinitionProvider', place,
        place.url === null ? null : await file(place.url, place.sessionId, signal)),
    })),
    'find-all-references': one('find-all-references', async (place, signal) => ({
      locations: await find('vscode.executeReferenceProvider', place,
        place.url === null ? null : await file(place.url, place.sessionId, signal)),
    })),
    'diagnostics': one('diagnostics', async ({ url, sessionId }, signal) => (
      diagnostics(url === null ? null : await file(url, sessionId, signal))
    )),
    'list-open-files': one('list-open-files', async () => ({ files: openFiles() })),
    'apply-edit': one('apply-edit', (request, signal) => edits.propose(request, folderOf(request.sessionId), signal)),
  };
}

const urlOf = (uri: vscode.Uri): string => (uri.scheme === 'file' ? pathToFileURL(uri.fsPath).href : uri.toString());

/** Whether the text of a file may not be told: it is outside of the workspace, and the setting denies it. */
async function isDenied({ scheme, fsPath }: vscode.Uri): Promise<boolean> {
  return scheme === 'file' && settings.denyOutside() && !(await isInWorkspace(fsPath));
}

async function selection() {
  const editor = lastTextEditor();
  if (!editor || editor.selection.isEmpty) return null;
  if (await isDenied(editor.document.uri)) throw new Error(deniedOutside(editor.document.uri.fsPath));
  const { document, selection: selected } = editor;
  return {
    url: urlOf(document.uri),
    start: placeOf(document, selected.start),
    end: placeOf(document, selected.end),
    text: document.getText(selected),
  };
}

async function find(finder: Finder, place: SymbolPlace, path: string | null): Promise<Location[]> {
  const { line, column, symbol } = place;
  if (path !== null && line !== null) {
    const document = await vscode.workspace.openTextDocument(vscode.Uri.file(path));
    return located(await ask(finder, document.uri, positionIn(document, line, column, symbol)));
  }
  if (symbol === null || !symbol.trim()) throw new Error('name a `symbol`, or a place with `url`, `line` and `column`');
  for await (const { uri, at } of occurrences(symbol.trim(), path)) {
    const found = await ask(finder, uri, at);
    if (found.length) return located(found);
  }
  return [];
}

/** The place that is asked about: the column, the symbol in the line, or the first word of the line. */
function positionIn(document: vscode.TextDocument, line: number, column: number | null, symbol: string | null): At {
  const { lineCount } = document;
  if (line < 1 || line > lineCount) throw new Error(`line ${line} does not exist: the file has ${lineCount} lines`);
  const { text } = document.lineAt(line - 1);
  if (column !== null) return { line: line - 1, character: unitsBefore(text, column) };
  const word = symbol === null ? null : findWord(text, symbol);
  return { line: line - 1, character: word?.start.character ?? Math.max(0, text.search(/\S/)) };
}

async function ask(finder: Finder, uri: vscode.Uri, at: At): Promise<Found[]> {
  const position = new vscode.Position(at.line, at.character);
  return (await vscode.commands.executeCommand<Found[] | undefined>(finder, uri, position)) ?? [];
}

/** Places where a symbol stands: first those that the providers of symbols know, then words in open and other files. */
async function* occurrences(symbol: string, only: string | null): AsyncGenerator<{ uri: vscode.Uri; at: At }> {
  const name = symbol.split(/::|\.|#/).at(-1) ?? symbol;
  const isWanted = (uri: vscode.Uri) => only === null || uri.fsPath === only;
  const known = await vscode.commands.executeCommand<vscode.SymbolInformation[] | undefined>(
    'vscode.executeWorkspaceSymbolProvider', name) ?? [];
  const exact = known.filter((it) => it.name.replace(/\(.*$/, '') === name && isWanted(it.location.uri));
  for (const { location } of exact.slice(0, mostFilesWithWord)) {
    const lines = await fileLines(location.uri.fsPath);
    const at = lines && wordFrom(lines, location.range.start.line, name);
    yield { uri: location.uri, at: at ?? location.range.start };
  }
  const open = vscode.workspace.textDocuments.filter((it) => it.uri.scheme === 'file' && isWanted(it.uri));
  for (const document of open) {
    const range = findWord(document.getText(), name);
    if (range) yield { uri: document.uri, at: range.start };
  }
  const excluded = '**/{node_modules,target,.git}/**';
  const files = only === null ? await vscode.workspace.findFiles('**/*', excluded, mostFilesRead)
    : [vscode.Uri.file(only)];
  let found = 0;
  for (const uri of files) {
    if (found >= mostFilesWithWord) return;
    if (open.some((document) => document.uri.fsPath === uri.fsPath)) continue;
    const range = findWord(await smallText(uri), name);
    if (!range) continue;
    found += 1;
    // A provider answers for documents that are loaded.
    await vscode.workspace.openTextDocument(uri);
    yield { uri, at: range.start };
  }
}

/** The name of a symbol: its range begins with its declaration. */
function wordFrom(lines: Lines, first: number, name: string): At | null {
  for (let line = first; line < Math.min(lines.lineCount, first + 5); line += 1) {
    const range = findWord(lines.lineAt(line).text, name);
    if (range) return { line, character: range.start.character };
  }
  return null;
}

async function smallText(uri: vscode.Uri): Promise<string> {
  try {
    const { size } = await vscode.workspace.fs.stat(uri);
    const { readText } = await import('acp-conductor-client');
    const text = size > largestFile ? '' : await readText(uri.fsPath);
    return text.includes('\0') ? '' : text.replace(/^\ufeff/, '');
  } catch {
    return '';
  }
}

/** The places as SCP writes them. A file is read once. */
async function located(found: readonly Found[]): Promise<Location[]> {
  const files = new Map<string, Lines>();
  const result: Location[] = [];
  for (const one of found.slice(0, mostPlaces)) {
    const uri = 'targetUri' in one ? one.targetUri : one.uri;
    const range = 'targetUri' in one ? one.targetSelectionRange ?? one.targetRange : one.range;
    const key = uri.toString();
    const lines = files.get(key) ?? (uri.scheme === 'file' ? await fileLines(uri.fsPath) : null) ?? linesOf('');
    files.set(key, lines);
    const isShown = range.start.line < lines.lineCount && !(await isDenied(uri));
    const text = isShown ? lines.lineAt(range.start.line).text.trim() : '';
    result.push({
      url: urlOf(uri), start: placeOf(lines, range.start), end: placeOf(lines, range.end), ...(text ? { text } : {}),
    });
  }
  return result;
}

const severities = ['error', 'warning', 'information', 'hint'] as const;

async function diagnostics(path: string | null) {
  const all = path === null ? vscode.languages.getDiagnostics()
    : [[vscode.Uri.file(path), vscode.languages.getDiagnostics(vscode.Uri.file(path))] as const];
  const problems = all.filter(([uri]) => uri.scheme === 'file')
    .flatMap(([uri, list]) => list.map((one) => ({ uri, one })));
  problems.sort((a, b) => a.one.severity - b.one.severity);
  const files = new Map<string, Lines>();
  const result = [];
  for (const { uri, one } of problems.slice(0, mostProblems)) {
    // The text of a problem may repeat the code.
    if (await isDenied(uri)) continue;
    const lines = files.get(uri.fsPath) ?? await fileLines(uri.fsPath) ?? linesOf('');
    files.set(uri.fsPath, lines);
    result.push({
      url: urlOf(uri), start: placeOf(lines, one.range.start), end: placeOf(lines, one.range.end),
      severity: severities[one.severity] ?? 'information', message: one.message,
      ...(one.source === undefined ? {} : { source: one.source }),
    });
  }
  return { diagnostics: result };
}

/** The files in the tabs of all groups, each once. */
function openFiles() {
  const files = new Map<string, { url: string; active: boolean; modified: boolean }>();
  const front = lastTextEditor()?.document.uri.toString();
  for (const group of vscode.window.tabGroups.all) {
    for (const { input, isDirty } of group.tabs) {
      const uri = input instanceof vscode.TabInputText ? input.uri
        : input instanceof vscode.TabInputTextDiff ? input.modified : null;
      if (uri?.scheme !== 'file') continue;
      const key = uri.toString();
      const known = files.get(key);
      files.set(key, { url: urlOf(uri), active: key === front, modified: isDirty || known?.modified === true });
    }
  }
  return [...files.values()];
}
