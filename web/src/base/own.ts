// Looks words of components up in tables of ours.

/** The entry of a table for a word of a component. A word such as `constructor` is in every object, but in no table. */
export function own<T>(table: Readonly<Record<string, T>>, word: string): T | undefined {
  return Object.hasOwn(table, word) ? table[word] : undefined;
}
