// The commands that the extension sends to the chat.
import { insert } from '../chat/insert';
import { onMessage } from './api';

/**
 * `{ command: 'newSession' | 'focus' | 'sessions' | 'cancel' }`, `{ command: 'showSession', session }`,
 * `{ command: 'insert', text }`, or `{ command: 'insert', path, lines }`, where `lines` is the first and the last line, or
 * is missing.
 */
export interface Commands {
  newSession(): void;
  focus(): void;
  sessions(): void;
  cancel(): void;
  showSession(session: string): void;
}

type Fields = Record<string, unknown>;

function isLine(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value > 0;
}

/** A mention of a file, as it is written in the composer. */
export function mentionOf(path: string, lines: unknown): string {
  const [first, last] = Array.isArray(lines) ? lines as unknown[] : [lines, lines];
  if (!isLine(first)) return `@${path}`;
  return `@${path}:${first}${isLine(last) && last > first ? `-${last}` : ''}`;
}

function takeInsert({ text, path, lines }: Fields): void {
  if (typeof path === 'string' && path !== '') insert({ text: mentionOf(path, lines), path });
  else if (typeof text === 'string' && text !== '') insert({ text, path: null });
}

/** Follows the commands. `commands` gives those of the page that is shown, or null while there is none. */
export function startCommands(commands: () => Commands | null): void {
  onMessage((message) => {
    const page = commands();
    switch (message['command']) {
      case 'insert': takeInsert(message); break;
      case 'newSession': page?.newSession(); break;
      case 'focus': page?.focus(); break;
      case 'sessions': page?.sessions(); break;
      case 'cancel': page?.cancel(); break;
      case 'showSession':
        if (typeof message['session'] === 'string') page?.showSession(message['session']);
        break;
      default: break;
    }
  });
}
