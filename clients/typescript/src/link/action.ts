// The checked decoder of what a page sends: messages and actions.
import { array, boolean, type Check, Mismatch, nullable, number, object, string, unknown, variants } from './check';
import type { Action, Attachment, ToServer } from './types';

export const checkAttachment = variants('attach', {
  file: object({ path: string }),
  image: object({ name: string, mime: string, data: string }),
  text: object({ name: string, text: string }),
}) satisfies Check<Attachment>;

const selection: Check<[number, number, number, number]> = (value, path) => {
  const [line, column, endLine, endColumn, more] = array(number)(value, path);
  const isMissing = line === undefined || column === undefined || endLine === undefined || endColumn === undefined;
  if (isMissing || more !== undefined) throw new Mismatch(path, 'four numbers', value);
  return [line, column, endLine, endColumn];
};

const textOrFlag: Check<string | boolean> = (value, path) => {
  if (typeof value !== 'string' && typeof value !== 'boolean') throw new Mismatch(path, 'a text, true or false', value);
  return value;
};

const texts: Check<Record<string, string>> = (value, path) => {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new Mismatch(path, 'an object', value);
  return Object.fromEntries(Object.entries(value).map(([name, text]) => [name, string(text, `${path}.${name}`)]));
};

/** Checks an action. Throws a `Mismatch`. */
export const checkAction: Check<Action> = variants('op', {
  newSession: object({}),
  openSession: object({ session: string }),
  listSessions: object({}),
  closeSession: object({ session: string }),
  prompt: object({ session: string, text: string, attachments: array(checkAttachment) }),
  unqueue: object({ session: string, entry: string }),
  tryAgain: object({ session: string, entry: string }),
  sendNow: object({ session: string, entry: string }),
  cancel: object({ session: string }),
  killTerminal: object({ session: string, terminal: string }),
  answer: object({ session: string, entry: string, choice: string }),
  select: object({ session: string, select: string, value: string }),
  logIn: object({ login: string }),
  draft: object({ session: string, text: string }),
  listFiles: object({ path: string }),
  readFile: object({ path: string }),
  findFiles: object({ text: string }),
  viewing: object({ open: array(string), active: nullable(string), selection: nullable(selection) }),
  panelEvent: object({
    panel: string, widget: string, event: string, value: nullable(textOrFlag), inputs: nullable(texts),
  }),
  closePanel: object({ panel: string }),
  reply: object({ thread: string, text: string }),
  answerEdit: object({ edit: string, accept: boolean }),
});

/** A message of a page whose action was not checked yet. */
export type Received =
  | Exclude<ToServer, { t: 'do' }>
  | { t: 'do'; id: string; action: unknown };

const want = { topic: string, at: nullable(number) };

/** Checks a message of a page. Throws a `Mismatch`. */
export const checkMessage: Check<Received> = variants('t', {
  hello: object({ v: number, token: string, run: string, want: array(object(want)) }),
  want: object(want),
  drop: object({ topic: string }),
  do: object({ id: string, action: unknown }),
  ack: object({ frames: number }),
});
