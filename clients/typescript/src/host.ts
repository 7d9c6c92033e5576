// What the surrounding editor provides. What is missing is not declared as a capability.
import type { FileEntry, FileText } from './link/types';
import type { Operations } from './scp';

export interface Host {
  /** Reads a file: from a line (1 is the first), and at most so many lines. Texts that are not saved count. */
  readTextFile?(path: string, options: { line?: number; limit?: number }): Promise<string>;
  /** Writes a whole file. Missing folders are created. */
  writeTextFile?(path: string, text: string): Promise<void>;
  /**
   * Whether a path may be used without asking the person: inside of a folder of the workspace, with links resolved.
   * Without this function: inside of the folder of the editor or of the session.
   */
  isInside?(path: string): Promise<boolean>;
  /** Commands of the agent run as child processes. */
  terminals?: boolean;
  /** Somebody follows the topic `panels` and shows it. */
  panels?: boolean;
  /** Somebody follows the topic `comments` and shows it. */
  comments?: boolean;
  /**
   * Somebody follows the topic `edits` and lets a person answer with `answerEdit`. Then the library performs `apply-edit`
   * with `readTextFile` and `writeTextFile`, unless `operations` has its own.
   */
  edits?: boolean;
  operations?: Operations;
  /** The paths that contain all parts of a text, relative to the folder, best first. */
  findFiles?(text: string): Promise<string[]>;
  listFiles?(path: string): Promise<FileEntry[]>;
  readFile?(path: string): Promise<FileText>;
}
