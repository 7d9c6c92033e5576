// The answers to the actions about files, checked.
import { type Action, type Check, type FileEntry, type FileText, results } from 'acp-conductor-client/link';
import type { Store } from '../link/store';

async function ask<T>(store: Store, action: Action, check: Check<T>): Promise<T> {
  return check(await store.do(action), '');
}

/** The entries of a folder, folders first. The path of the project itself is empty. */
export function listFiles(store: Store, path: string): Promise<FileEntry[]> {
  return ask(store, { op: 'listFiles', path }, results.listFiles);
}

export function readFile(store: Store, path: string): Promise<FileText> {
  return ask(store, { op: 'readFile', path }, results.readFile);
}

/** The paths of files whose path contains the letters of the text, the best first. For `@file` mentions, too. */
export async function fileCompletions(store: Store, text: string): Promise<string[]> {
  return (await ask(store, { op: 'findFiles', text }, results.findFiles)).map((file) => file.path);
}

/** What failed, for people. */
export function reason(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
