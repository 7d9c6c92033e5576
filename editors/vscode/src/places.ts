// Files of the workspace: which file a path or an address means, its text, and whether it is inside.
import { realpath } from 'node:fs/promises';
import { dirname, isAbsolute, join, relative, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import * as vscode from 'vscode';
import { linesOf, type Lines } from './positions';
import type { Shown } from './take-over';

/** The code of the error about a file that does not exist. */
const notFound = -32002;

/** The folders of the workspace that are on a disk. */
export function workspaceFolders(): readonly vscode.WorkspaceFolder[] {
  return (vscode.workspace.workspaceFolders ?? []).filter((folder) => folder.uri.scheme === 'file');
}

/** What this window shows: a folder, or a workspace with a file. */
export function shownWorkspace(): Shown {
  const folders = workspaceFolders().map(({ uri }) => uri.fsPath);
  const { workspaceFile } = vscode.workspace;
  return { kind: !workspaceFile ? 'folder' : workspaceFile.scheme === 'untitled' ? 'untitled' : 'saved', folders };
}

/** The folder that a session begins in: that of the file in front, or the first one. */
export function usualFolder(): vscode.WorkspaceFolder | null {
  const active = lastTextEditor()?.document.uri;
  const own = active && vscode.workspace.getWorkspaceFolder(active);
  const folders = workspaceFolders();
  return folders.find((folder) => folder === own) ?? folders[0] ?? null;
}

/** The folders, that of the file in front first. */
export function foldersByUse(): vscode.WorkspaceFolder[] {
  const usual = usualFolder();
  const others = workspaceFolders().filter((folder) => folder !== usual);
  return usual ? [usual, ...others] : others;
}

let last: vscode.TextEditor | undefined;

/** Remembers the editor of a file that was last in front: a chat or a panel in front is none. */
export function followTextEditors(): vscode.Disposable {
  const take = (editor: vscode.TextEditor | undefined) => {
    if (editor?.document.uri.scheme === 'file') last = editor;
  };
  take(vscode.window.activeTextEditor);
  return vscode.window.onDidChangeActiveTextEditor(take);
}

/** The editor of a file that is in front, or was before the chat. It is still open. */
export function lastTextEditor(): vscode.TextEditor | undefined {
  const active = vscode.window.activeTextEditor;
  if (active?.document.uri.scheme === 'file') return active;
  const visible = vscode.window.visibleTextEditors.filter((editor) => editor.document.uri.scheme === 'file');
  return visible.find((editor) => editor === last) ?? visible[0];
}

/**
 * The path of an address of SCP or ACP: a `file://` URL, an absolute path, or a path relative to a folder.
 * @throws If it is an address of another kind.
 */
export function pathOf(url: string, folder: string): string {
  if (/^file:/i.test(url)) return fileURLToPath(url);
  if (/^[a-z][a-z0-9+.-]+:\/\//i.test(url)) throw new Error(`only files can be opened, not ${url}`);
  return isAbsolute(url) ? resolve(url) : resolve(folder, url);
}

/** A path as people read it: relative to its folder of the workspace. */
export function shownPath(path: string): string {
  return vscode.workspace.asRelativePath(path, workspaceFolders().length > 1);
}

/** A path as the library writes it: relative to the folder of the editor if it is inside. */
export function pathIn(folder: string, path: string): string {
  const inside = relative(folder, path);
  const outside = inside === '' || inside === '..' || inside.startsWith(`..${sep}`) || isAbsolute(inside);
  return outside ? path : inside.split(sep).join('/');
}

/** The document of a file that is open, however its path is written. */
export async function openDocument(path: string): Promise<vscode.TextDocument | null> {
  const documents = vscode.workspace.textDocuments.filter((it) => it.uri.scheme === 'file' && !it.isClosed);
  const same = documents.find((it) => it.uri.fsPath === path);
  if (same) return same;
  const real = await realpath(path).catch(() => null);
  if (real === null) return null;
  for (const document of documents) {
    if (await realpath(document.uri.fsPath).catch(() => null) === real) return document;
  }
  return null;
}

/**
 * The text of a file as the person sees it, or null if there is no such file.
 * @throws If it cannot be read, or is no text.
 */
export async function textOf(path: string): Promise<string | null> {
  const document = await openDocument(path);
  if (document) return document.getText();
  const { readText, RpcError } = await import('acp-conductor-client');
  try {
    // VS Code does not show the byte order mark, and its positions do not count it.
    return (await readText(path)).replace(/^\ufeff/, '');
  } catch (error) {
    if (error instanceof RpcError && error.code === notFound) return null;
    throw error;
  }
}

/** The lines of a file, or null if it cannot be read. */
export async function fileLines(path: string): Promise<Lines | null> {
  const document = await openDocument(path);
  if (document) return document;
  const text = await textOf(path).catch(() => null);
  return text === null ? null : linesOf(text);
}

/** A path without links. Parts that do not exist yet stay as they are. */
export async function realPath(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch {
    const parent = dirname(path);
    return parent === path ? path : join(await realPath(parent), path.slice(parent.length));
  }
}

/** Whether a path is in a folder of the workspace, with links resolved. */
export async function isInWorkspace(path: string): Promise<boolean> {
  const real = await realPath(path);
  for (const folder of workspaceFolders()) {
    const inside = relative(await realPath(folder.uri.fsPath), real);
    if (inside !== '..' && !inside.startsWith(`..${sep}`) && !isAbsolute(inside)) return true;
  }
  return false;
}

/** The error about a file that the setting denies. */
export const deniedOutside = (path: string): string => (
  `${path} is outside of the workspace, and the setting conductor.files.outside denies it`);
