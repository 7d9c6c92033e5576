// Conversations of a folder that becomes a workspace with several folders: for VS Code it is another one then, with another
// place for files.
import { cpSync, existsSync } from 'node:fs';
import * as vscode from 'vscode';
import { workspaceFolders } from './places';

const key = 'conversationsOfFolders';
/** How many folders are remembered. */
const mostFolders = 200;

/** Remembers where the conversations of a folder are. A new workspace that begins with that folder gets a copy of them. */
export function takeOver(place: string, state: vscode.Memento): void {
  const first = workspaceFolders()[0]?.uri.fsPath;
  if (first === undefined) return;
  const known = new Map(Object.entries(state.get<Record<string, string>>(key, {})));
  if (vscode.workspace.workspaceFile === undefined) {
    if (known.get(first) === place) return;
    known.delete(first);
    void state.update(key, Object.fromEntries([...known, [first, place]].slice(-mostFolders)));
    return;
  }
  const before = known.get(first);
  if (before === undefined || existsSync(place)) return;
  try {
    cpSync(before, place, { recursive: true });
  } catch {
    // The folder had none, or they are gone.
  }
}
