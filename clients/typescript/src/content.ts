// Turns messages of ACP into entries that a view shows.
import { at, list as elements, text, whole } from './json';
import type { Block, Command, FileDiff, Step, Tool } from './link/types';
import { oneLine } from './printable';
import type { Project } from './project';
import { quotedWords, withVariables } from './terminals';

/** The longest text of one content of a tool call, in bytes. The rest is left out. */
const mostText = 256 * 1024;
/** The most commands, contents, places or steps that are shown. */
const mostItems = 500;

const list = (value: unknown): readonly unknown[] => elements(value).slice(0, mostItems);

/** A text that is not too long to show. */
export function shorten(whole: string): string {
  if (whole.length * 3 <= mostText) return whole;
  const bytes = Buffer.from(whole);
  if (bytes.length <= mostText) return whole;
  let end = mostText;
  while (((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return `${bytes.subarray(0, end).toString('utf8')}\n… ${bytes.length - end} more bytes`;
}

const shown = (value: unknown): string => shorten(text(value) ?? '');

/** A content block. */
export function blockOf(content: unknown): Block {
  const kind = text(at(content, 'type'));
  switch (kind) {
    case 'text':
      return { block: 'text', text: shown(at(content, 'text')) };
    case 'image':
      return { block: 'image', mime: shown(at(content, 'mimeType')), data: text(at(content, 'data')) ?? '' };
    case 'resource': {
      const uri = shown(at(content, 'resource', 'uri'));
      const embedded = text(at(content, 'resource', 'text'));
      const name = uri.split('/').at(-1) ?? uri;
      return { block: 'resource', uri, name, text: embedded === undefined ? null : shorten(embedded) };
    }
    case 'resource_link':
      return { block: 'resource', uri: shown(at(content, 'uri')), name: shown(at(content, 'name')), text: null };
    default: {
      const mime = text(at(content, 'mimeType'));
      return { block: 'other', about: mime === undefined ? (kind ?? 'content') : `${kind ?? 'content'} (${mime})` };
    }
  }
}

/** The name of an attachment of a message that the agent repeats. */
export function attachmentName(content: unknown): string {
  const last = (uri: unknown) => (text(uri) ?? '').split('/').at(-1) ?? '';
  const kind = text(at(content, 'type'));
  const named = kind === 'resource_link' ? text(at(content, 'name')) : undefined;
  const name = oneLine(named || last(kind === 'resource' ? at(content, 'resource', 'uri') : at(content, 'uri')));
  return name || kind || 'content';
}

/** A tool call with everything that is known about it. The times are those of the entry. */
export function toolOf(call: unknown, project: Project, time: number, ms: number | null): Tool {
  const path = (value: unknown) => project.shown(text(value) ?? '');
  const contents = list(at(call, 'content'));
  const of = (kind: string) => contents.filter((it) => at(it, 'type') === kind);
  return {
    title: oneLine(text(at(call, 'title')) ?? 'Tool call'),
    tool: text(at(call, 'kind')) ?? 'other',
    status: text(at(call, 'status')) ?? 'pending',
    blocks: contents.filter((it) => !['diff', 'terminal'].includes(text(at(it, 'type')) ?? ''))
      .map((it) => blockOf(at(it, 'content'))),
    diffs: of('diff').map((it): FileDiff => {
      const old = text(at(it, 'oldText'));
      return { path: path(at(it, 'path')), old: old === undefined ? null : shorten(old), new: shown(at(it, 'newText')) };
    }),
    terminals: of('terminal').map((it) => shown(at(it, 'terminalId'))),
    places: list(at(call, 'locations')).map((it) => (
      { path: path(at(it, 'path')), line: whole(at(it, 'line')) ?? null })),
    input: limited(at(call, 'rawInput')),
    output: limited(at(call, 'rawOutput')),
    time,
    ms,
  };
}

/** A value that is not too long to show. */
function limited(value: unknown): unknown {
  const json = JSON.stringify(value ?? null);
  return json.length * 3 <= mostText || Buffer.byteLength(json) <= mostText ? (value ?? null) : shorten(json);
}

const wordOf = (it: unknown): string => (typeof it === 'string' ? it : JSON.stringify(it));

/** The command line that a tool call would run, quoted for a shell, if it is known. */
export function commandOf(call: unknown): string | null {
  const input = at(call, 'rawInput');
  const command = ['command', 'cmd', 'script'].map((name) => at(input, name))
    .find((it) => typeof it === 'string' || Array.isArray(it));
  if (command === undefined) return null;
  const args = elements(at(input, 'args')).map(wordOf);
  const isLine = typeof command === 'string' && args.length === 0;
  const line = isLine ? command : quotedWords([...(Array.isArray(command) ? command.map(wordOf) : [String(command)]), ...args]);
  return line ? withVariables(variablesOf(at(input, 'env')), line, isLine) : null;
}

/** Environment variables: an object, or a list of `name` and `value`. */
function variablesOf(env: unknown): Array<[string, string]> {
  if (Array.isArray(env)) {
    return list(env).flatMap((it): Array<[string, string]> => {
      const name = text(at(it, 'name'));
      return name === undefined ? [] : [[name, wordOf(at(it, 'value') ?? null)]];
    });
  }
  if (typeof env !== 'object' || env === null) return [];
  return Object.entries(env).map(([name, value]): [string, string] => [name, wordOf(value)])
    .sort(([a], [b]) => (a < b ? -1 : 1));
}

/** The folder in which a tool call would run its command, if that is known and is not the folder of the project. */
export function commandFolderOf(call: unknown, project: Project): string | null {
  const folder = ['cwd', 'workdir', 'working_directory', 'workingDirectory']
    .map((name) => text(at(call, 'rawInput', name))).find((it) => it !== undefined);
  return folder === undefined ? null : otherFolder(folder, project);
}

/** A folder as views show it, if it is not the folder of the project. */
export function otherFolder(folder: string, project: Project): string | null {
  return ['', '.', './', project.folder].includes(folder) ? null : project.shown(folder);
}

/** The steps of a plan. */
export function stepsOf(entries: unknown): Step[] {
  return list(entries).map((it) => ({
    text: oneLine(text(at(it, 'content')) ?? ''),
    status: text(at(it, 'status')) ?? 'pending',
    priority: text(at(it, 'priority')) ?? 'medium',
  }));
}

/** The slash commands of the agent. */
export function commandsOf(commands: unknown): Command[] {
  const line = (value: unknown) => oneLine((text(value) ?? '').trim());
  return list(commands).map((it) => ({
    name: line(at(it, 'name')).replace(/^\/+/, ''),
    about: line(at(it, 'description')),
    hint: line(at(it, 'input', 'hint')),
  })).filter((it) => it.name);
}

/** How much of the context is used, such as `12,400 of 200,000 tokens (6 %)`. */
export function usageOf(update: unknown): string | null {
  const [used, size] = [whole(at(update, 'used')), whole(at(update, 'size'))];
  if (used === undefined || !size) return null;
  const grouped = (number: number) => String(number).replace(/\B(?=(\d{3})+$)/g, ',');
  return `${grouped(used)} of ${grouped(size)} tokens (${Math.floor((used / size) * 100)} %)`;
}

/** A title in one line. */
export function titleOf(whole: string): string {
  const first = whole.split('\n').find((it) => it.trim()) ?? '';
  const letters = [...oneLine(first.trim())];
  return letters.length > 80 ? `${letters.slice(0, 79).join('')}…` : letters.join('');
}
