// Turns messages of ACP into entries that a view shows.
import { at, list as elements, text, whole } from './json';
import type { Block, Command, FileDiff, Step, Tool } from './link/types';
import { oneLine } from './printable';
import type { Project } from './project';

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

/** The command line that a tool call would run, if it is known. */
export function commandOf(call: unknown): string | null {
  for (const name of ['command', 'cmd', 'script']) {
    const value = at(call, 'rawInput', name);
    if (typeof value === 'string') return value || null;
    if (Array.isArray(value)) return value.filter((it) => typeof it === 'string').join(' ') || null;
  }
  return null;
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
