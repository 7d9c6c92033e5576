// The files of ACP: texts that are not saved count, and open documents are changed in their editors.
import * as vscode from 'vscode';
import type { Host } from 'acp-conductor-client';
import type { Log } from './events';
import { deniedOutside, isInWorkspace, openDocument, pathIn, shownPath } from './places';
import { partOf } from './positions';
import { settings } from './settings';
import { difference } from './text-edits';

type FileHost = Required<Pick<Host, 'readTextFile' | 'writeTextFile' | 'isInside' | 'findFiles'>>;

/** How long the list of files is used before it is read again. */
const listMs = 5_000;
/** How many files are listed to complete a name. */
const mostFiles = 20_000;
const mostFound = 50;

export function fileHost(folder: string, log: Log): FileHost {
  return {
    async readTextFile(path, options) {
      const document = await openDocument(path);
      log.own({ event: 'file read', path: shownPath(path), open: document !== null });
      if (document) return partOf(document.getText(), options);
      const { readText } = await import('acp-conductor-client');
      return readText(path, options);
    },
    async writeTextFile(path, text) {
      const document = await openDocument(path);
      log.own({ event: 'file written', path: shownPath(path), open: document !== null });
      if (document) return replaceText(document, text);
      const { writeText } = await import('acp-conductor-client');
      await writeText(path, text);
    },
    async isInside(path) {
      if (await isInWorkspace(path)) return true;
      if (settings.denyOutside()) throw new Error(deniedOutside(path));
      return false;
    },
    findFiles: finder(folder),
  };
}

/** Replaces the text of an open document and saves it. The person can undo it. */
async function replaceText(document: vscode.TextDocument, text: string): Promise<void> {
  const name = shownPath(document.uri.fsPath);
  const before = document.getText();
  if (before !== text) {
    const edit = new vscode.WorkspaceEdit();
    const { from, to, part } = difference(before, text);
    edit.replace(document.uri, new vscode.Range(document.positionAt(from), document.positionAt(to)), part);
    if (!(await vscode.workspace.applyEdit(edit))) throw new Error(`VS Code did not change ${name}`);
  }
  if (before === text && !document.isDirty) return;
  // VS Code tells a while after a change that the text is not saved, and before it answers.
  if (!(await document.save()) && document.isDirty) throw new Error(`VS Code did not save ${name}`);
}

/** Finds files by parts of their paths, for completion. */
function finder(folder: string): (text: string) => Promise<string[]> {
  let list: { at: number; paths: Promise<string[]> } | null = null;
  return async (text) => {
    if (!list || Date.now() > list.at + listMs) list = { at: Date.now(), paths: allFiles(folder) };
    const parts = text.toLowerCase().split(/\s+/).filter(Boolean);
    const found = (await list.paths).flatMap((path) => {
      const lower = path.toLowerCase();
      return parts.every((part) => lower.includes(part)) ? [{ path, rank: rank(lower, parts[0] ?? '') }] : [];
    });
    found.sort((a, b) => a.rank - b.rank || a.path.length - b.path.length || (a.path < b.path ? -1 : 1));
    return found.slice(0, mostFound).map(({ path }) => path);
  };
}

/** Names that begin with the text are best, then names with it, then folders. */
function rank(path: string, part: string): number {
  const name = path.slice(path.lastIndexOf('/') + 1);
  if (name.startsWith(part)) return 0;
  return name.includes(part) ? 1 : 2;
}

async function allFiles(folder: string): Promise<string[]> {
  const excluded = ['search', 'files'].flatMap((section) => {
    const globs = vscode.workspace.getConfiguration(section).get<Record<string, unknown>>('exclude', {});
    return Object.entries(globs).filter(([, on]) => on === true).map(([glob]) => glob);
  });
  const globs = [...new Set([...excluded, '**/.git', '**/target'])];
  const uris = await vscode.workspace.findFiles('**/*', `{${globs.join(',')}}`, mostFiles);
  return uris.filter((uri) => uri.scheme === 'file').map((uri) => pathIn(folder, uri.fsPath));
}
