// Conversations of a window that becomes another workspace: a folder that gets a second one, or a workspace that is saved under
// another name. VS Code gives it another place for files then.
import { cpSync, existsSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Memento } from 'vscode';
import { conversationFolders, type ConversationFolders } from './storage';

const key = 'conversationsOfFolders';
/** How many workspaces are remembered. */
const mostKnown = 200;

/** What a window shows: a folder, or a workspace with a file. */
export interface Shown { kind: 'folder' | 'untitled' | 'saved'; folders: readonly string[] }

/** The key of a workspace: a folder is its path. */
const nameOf = ({ kind, folders }: Shown): string | undefined => (
  kind === 'folder' ? folders[0] : `workspace:${JSON.stringify(folders)}`);

/** Remembers where the conversations of a workspace are. */
export function remember({ first }: ConversationFolders, shown: Shown, state: Memento): void {
  const name = nameOf(shown);
  const known = new Map(Object.entries(state.get<Record<string, string>>(key, {})));
  if (name === undefined || known.get(name) === first) return;
  known.delete(name);
  void state.update(key, Object.fromEntries([...known, [name, first]].slice(-mostKnown)));
}

/**
 * Gives a new workspace a copy of the conversations that its window had before. A workspace that was saved has the folders of the
 * one that it was before. One without a name was made by adding a folder: its first folder was alone before.
 */
export function takeOver(places: ConversationFolders, shown: Shown, state: Memento): void {
  const isNew = ![places.own, ...places.others].some((folder) => existsSync(folder));
  if (isNew && shown.kind !== 'folder') {
    const known = new Map(Object.entries(state.get<Record<string, string>>(key, {})));
    const same = shown.kind === 'saved' ? known.get(nameOf(shown) ?? '') : undefined;
    const before = same ?? known.get(shown.folders[0] ?? '');
    if (before !== undefined) copy(before, places.own);
  }
  remember(places, shown, state);
}

/** Copies the conversations of all windows of a workspace, and which one was shown last. Of a file with several versions, the newest. */
function copy(first: string, to: string): void {
  const from = conversationFolders(dirname(first));
  for (const folder of [from.own, ...from.others].filter((it) => existsSync(it))) {
    mkdirSync(to, { recursive: true, mode: 0o700 });
    for (const name of readdirSync(folder).filter((it) => it.endsWith('.json'))) {
      const [source, target] = [join(folder, name), join(to, name)];
      if (existsSync(target) && statSync(target).mtimeMs >= statSync(source).mtimeMs) continue;
      cpSync(source, target, { preserveTimestamps: true });
    }
  }
}
