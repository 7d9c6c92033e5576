// Where VS Code lets the extension keep the files of a workspace.
import { basename, dirname, join } from 'node:path';

/** How many windows of a workspace have a folder of their own. */
const mostWindows = 10;

export interface ConversationFolders {
  /** The folder of this window. */
  own: string;
  /** The folders of other windows of the workspace. They may not exist. */
  others: string[];
  /** The folder of the first window. */
  first: string;
}

/**
 * The folders with conversations of a workspace. `storage` is the folder that VS Code has given to this window:
 * `workspaceStorage/ID/EXTENSION`. Each further window of the same workspace gets one with the next number: `ID-1`, `ID-2`.
 */
export function conversationFolders(storage: string): ConversationFolders {
  const [extension, workspace] = [basename(storage), dirname(storage)];
  const id = /^(.+)-[1-9]$/.exec(basename(workspace))?.[1] ?? basename(workspace);
  const folder = (name: string) => join(dirname(workspace), name, extension, 'conversations');
  const numbered = Array.from({ length: mostWindows - 1 }, (_, index) => folder(`${id}-${index + 1}`));
  const own = folder(basename(workspace));
  return { own, others: [folder(id), ...numbered].filter((it) => it !== own), first: folder(id) };
}
