// Finds what the user is completing in the composer: a file after `@`, or a command after `/` at the start.

export interface CompletionQuery {
  kind: 'file' | 'command';
  /** What was typed after the sign. */
  text: string;
  /** Where the sign is. */
  start: number;
  /** Where the caret is. */
  end: number;
}

export function completionAt(text: string, caret: number): CompletionQuery | null {
  const before = text.slice(0, caret);
  const command = /^\/(\S*)$/.exec(before);
  if (command) return { kind: 'command', text: command[1] ?? '', start: 0, end: caret };
  const file = /(?:^|[\s(])@([^\s@]*)$/.exec(before);
  if (file) {
    const typed = file[1] ?? '';
    return { kind: 'file', text: typed, start: caret - typed.length - 1, end: caret };
  }
  return null;
}

/** Puts the chosen text in the place of the typed one. Returns the new text and the place of the caret. */
export function complete(text: string, query: CompletionQuery, chosen: string): { text: string; caret: number } {
  const sign = query.kind === 'file' ? '@' : '/';
  const rest = text.slice(query.end);
  const inserted = `${sign}${chosen}${/^\s/.test(rest) ? '' : ' '}`;
  return { text: text.slice(0, query.start) + inserted + rest, caret: query.start + inserted.length };
}

/** The paths that a text mentions with `@`, each once. Signs at the end of a sentence do not belong to them. */
export function mentions(text: string): string[] {
  const found = [...text.matchAll(/(?:^|[\s(])@([^\s@]+)/g)].map((match) => (match[1] ?? '').replace(/[.,;:!?)]+$/, ''));
  return [...new Set(found.filter(Boolean))];
}
