// The checked decoder of everything that the server sends. A bad message is reported and left out, never thrown.
import { checkAttachment } from './action';
import { array, boolean, number, nullable, object, oneOf, pair, string, unknown, variants, type Check } from './check';
import type {
  Block, Chain, Change, Command, Entry, Features, FileDiff, FileEntry, FileText, FoundFile, Place, Question, Select,
  Session, Settings, Step, Thread, ToPage, Tool, Unqueued,
} from './types';

const features = object({ chat: boolean, title: string, folder: string }) satisfies Check<Features>;

const block = variants('block', {
  text: object({ text: string }),
  image: object({ mime: string, data: string }),
  resource: object({ uri: string, name: string, text: nullable(string) }),
  other: object({ about: string }),
}) satisfies Check<Block>;

const fileDiff = object({ path: string, old: nullable(string), new: string }) satisfies Check<FileDiff>;
const place = object({ path: string, line: nullable(number) }) satisfies Check<Place>;

const tool = object({
  title: string, tool: string, status: string, blocks: array(block), diffs: array(fileDiff), terminals: array(string),
  places: array(place), input: unknown, output: unknown, time: number, ms: nullable(number),
}) satisfies Check<Tool>;

const question = object({
  title: string, tool: nullable(tool), command: nullable(string), folder: nullable(string),
  choices: array(object({ id: string, name: string, effect: string })), answer: nullable(string),
}) satisfies Check<Question>;

const chain = object({
  state: string, components: array(string), agent: nullable(string), error: nullable(string), canLoad: boolean,
  images: boolean,
  logins: array(object({ id: string, name: string, about: string, command: nullable(string) })),
}) satisfies Check<Chain>;

const session = object({ title: string, cwd: string, state: string, time: number }) satisfies Check<Session>;
export { session as checkSession, entry as checkEntry };
const step = object({ text: string, status: string, priority: string }) satisfies Check<Step>;

const select = object({
  id: string, name: string, current: string, values: array(object({ id: string, name: string, about: string })),
}) satisfies Check<Select>;
const command = object({ name: string, about: string, hint: string }) satisfies Check<Command>;
const settings = object({
  selects: array(select), commands: array(command), usage: nullable(string),
}) satisfies Check<Settings>;

const thread = object({
  path: string, line: number, column: nullable(number), endLine: number, endColumn: nullable(number), text: string,
  canReply: boolean, replies: array(object({ text: string, time: number })),
}) satisfies Check<Thread>;

const entry = variants('kind', {
  chain,
  log: object({ level: string, component: nullable(string), text: string, time: number }),
  session,
  user: object({ text: string, attachments: array(string), queued: boolean, time: number }),
  agent: object({ text: string, open: boolean, time: number, blocks: array(block) }),
  thought: object({ text: string, open: boolean, time: number, ms: nullable(number) }),
  tool,
  terminal: object({ command: string, folder: nullable(string), text: string, exit: nullable(object({ code: nullable(number), signal: nullable(string) })), cut: boolean }),
  plan: object({ steps: array(step) }),
  question,
  note: object({ text: string }),
  error: object({ text: string, details: string, prompt: nullable(string), attachments: array(string) }),
  turn: object({
    state: oneOf('loading', 'idle', 'running', 'cancelling', 'failed'), since: number, awaits: nullable(string),
    ended: nullable(string),
  }),
  settings,
  draft: object({ text: string }),
  panel: object({ label: string, contents: string, front: number }),
  thread,
  edit: object({ label: string, files: array(fileDiff), state: string }),
  changed: object({ version: number }),
  openFile: object({ path: string, line: nullable(number), version: number }),
}) satisfies Check<Entry>;

/** A change whose entry could not be read keeps its id, so that the replica knows that it lacks it. */
export type SafeChange = Change | { c: 'unreadable'; id: string };

/** A message whose entries were checked one by one. */
export type Decoded =
  | Exclude<ToPage, { t: 'snap' } | { t: 'inc' }>
  | { t: 'snap'; topic: string; at: number; entries: Array<[string, Entry]>; unreadable: string[] }
  | { t: 'inc'; topic: string; from: number; at: number; changes: SafeChange[] };

type Report = (problem: string) => void;

const snapOuter = object({ topic: string, at: number, entries: array(pair(string, unknown)) });
const incOuter = object({ topic: string, from: number, at: number, changes: array(unknown) });
const welcome = object({ v: number, run: string, features });
const changeOuter = variants('c', {
  put: object({ id: string, entry: unknown }),
  append: object({ id: string, offset: number, text: string }),
  del: object({ id: string }),
});

function attempt<T>(check: Check<T>, value: unknown, path: string, report: Report): T | undefined {
  try {
    return check(value, path);
  } catch (error) {
    report(error instanceof Error ? error.message : String(error));
    return undefined;
  }
}

function decodeSnap(value: unknown, report: Report): Decoded | undefined {
  const outer = attempt(snapOuter, value, '', report);
  if (!outer) return undefined;
  const entries: Array<[string, Entry]> = [];
  const unreadable: string[] = [];
  for (const [id, raw] of outer.entries) {
    const checked = attempt(entry, raw, `${outer.topic} ${id}`, report);
    if (checked) entries.push([id, checked]);
    else unreadable.push(id);
  }
  return { t: 'snap', topic: outer.topic, at: outer.at, entries, unreadable };
}

function decodeInc(value: unknown, report: Report): Decoded | undefined {
  const outer = attempt(incOuter, value, '', report);
  if (!outer) return undefined;
  const changes: SafeChange[] = [];
  for (const raw of outer.changes) {
    const change = attempt(changeOuter, raw, outer.topic, report);
    // The position cannot be kept without the change: the next increment will ask for a snapshot.
    if (!change) return undefined;
    if (change.c !== 'put') {
      changes.push(change);
      continue;
    }
    const checked = attempt(entry, change.entry, `${outer.topic} ${change.id}`, report);
    changes.push(checked ? { c: 'put', id: change.id, entry: checked } : { c: 'unreadable', id: change.id });
  }
  return { t: 'inc', topic: outer.topic, from: outer.from, at: outer.at, changes };
}

function decodeDone(value: unknown, report: Report): Decoded | undefined {
  const outer = attempt(object({ id: string, ok: unknown, error: nullable(string) }), value, '', report);
  if (!outer) return undefined;
  return outer.error === null ? { t: 'done', id: outer.id, ok: outer.ok } : { t: 'done', id: outer.id, error: outer.error };
}

function decodeOne(value: unknown, report: Report): Decoded | undefined {
  const t = typeof value === 'object' && value !== null && 't' in value ? value.t : undefined;
  switch (t) {
    case 'welcome': {
      const checked = attempt(welcome, value, '', report);
      return checked && { t, ...checked };
    }
    case 'snap': return decodeSnap(value, report);
    case 'inc': return decodeInc(value, report);
    case 'done': return decodeDone(value, report);
    default:
      report(`unknown message ${JSON.stringify(t) ?? 'without a kind'}`);
      return undefined;
  }
}

/** The messages of one frame. */
export function decodeFrame(text: string, report: Report): Decoded[] {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    report('a frame is not JSON');
    return [];
  }
  const list: unknown[] = Array.isArray(value) ? value : [value];
  return list.flatMap((item) => decodeOne(item, report) ?? []);
}

/** Checks the results of actions. They throw a `Mismatch`; the caller shows it. */
export const results = {
  listFiles: array(object({ name: string, folder: boolean })) satisfies Check<FileEntry[]>,
  readFile: object({ path: string, text: string, note: nullable(string) }) satisfies Check<FileText>,
  findFiles: array(object({ path: string })) satisfies Check<FoundFile[]>,
  newSession: string,
  unqueue: object({ text: string, attachments: array(checkAttachment) }) satisfies Check<Unqueued>,
};
