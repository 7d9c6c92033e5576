// What another part of the editor puts into the composer: a text, or the mention of a file.
import { signal } from '@preact/signals';

export interface Insertion {
  text: string;
  /** The file that the text mentions. */
  path: string | null;
}

/** They wait until the composer takes them. */
export const insertions = signal<readonly Insertion[]>([]);

export function insert(insertion: Insertion): void {
  insertions.value = [...insertions.value, insertion];
}

/** Takes what waits. */
export function takeInsertions(): readonly Insertion[] {
  const all = insertions.peek();
  if (all.length) insertions.value = [];
  return all;
}

/** Puts texts at the caret, with blanks around them. Returns the new text and the place of the caret. */
export function insertAt(text: string, caret: number, all: readonly Insertion[]): { text: string; caret: number } {
  let before = text.slice(0, caret);
  const after = text.slice(caret);
  for (const one of all) before += `${before && !/\s$/.test(before) ? ' ' : ''}${one.text}`;
  if (!/\s$/.test(before) && !/^\s/.test(after)) before += ' ';
  return { text: before + after, caret: before.length };
}
