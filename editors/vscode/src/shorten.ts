// Shortens a conversation that is too large to be kept: large parts of its entries, and then its oldest entries.
import type { Conversation } from 'acp-conductor-client';
import type { Block, Entry } from 'acp-conductor-client/link';

type Entries = Conversation['entries'];

/** Every entry as a whole may use this part of the space. The rest is for what was said before. */
const partForWhole = 0.75;
/** The length of a text of which only the beginning is kept. */
const brief = 300;

export const noteId = 'note:kept';

/**
 * The entries that fit into `most` UTF-16 units of JSON, and no entry with more than `mostOfOne`. The newest ones are whole.
 * Of the others, the beginning of what was said stays. Drafts, settings and the turn stay always: there is one of each.
 */
export function shortened(entries: Entries, most: number, mostOfOne: number): Entries {
  let left = most;
  const kept: Entries = [];
  for (const [id, entry] of [...entries].reverse()) {
    const isOnly = entry.kind === 'draft' || entry.kind === 'settings' || entry.kind === 'turn';
    const whole = limited(entry, isOnly ? most : mostOfOne);
    const cost = size(whole) + id.length;
    const fits = isOnly || cost <= left - most * (1 - partForWhole) || (kept.length === 0 && cost <= left);
    const small = fits ? whole : beginningOf(entry);
    const smallCost = fits ? cost : small ? size(small) + id.length : 0;
    if (!small || (!isOnly && smallCost > left)) continue;
    left -= smallCost;
    kept.unshift([id, small]);
  }
  if (kept.length < entries.length && !kept.some(([id]) => id === noteId)) {
    const text = 'Earlier messages of this conversation were too long to be kept.';
    kept.unshift([noteId, { kind: 'note', text }]);
  }
  return kept;
}

const size = (value: unknown): number => JSON.stringify(value).length;

/** What was said, without what belongs to it. Null for other entries. */
function beginningOf(entry: Entry): Entry | null {
  switch (entry.kind) {
    case 'user': return { ...entry, text: cut(entry.text, brief) };
    case 'agent': return { ...entry, text: cut(entry.text, brief), blocks: [] };
    default: return null;
  }
}

/** The entry with less text, fewer elements of lists and without images, until it fits. */
function limited(entry: Entry, most: number): Entry {
  if (size(entry) <= most) return entry;
  let [longest, elements] = [most, 1024];
  let smaller = entry;
  do {
    [longest, elements] = [Math.max(brief, Math.floor(longest / 2)), Math.max(1, Math.floor(elements / 2))];
    smaller = withLess(entry, longest, elements) as Entry;
  } while (size(smaller) > most && (longest > brief || elements > 1));
  return smaller;
}

/** A value of the same shape. */
function withLess(value: unknown, longest: number, elements: number): unknown {
  if (typeof value === 'string') return cut(value, longest);
  if (Array.isArray(value)) return value.slice(0, elements).map((it) => withLess(it, longest, elements));
  if (typeof value !== 'object' || value === null) return value;
  if (isLargeImage(value, longest)) {
    return { block: 'other', about: `image (${value.mime}), which was too large to be kept` } satisfies Block;
  }
  return Object.fromEntries(Object.entries(value).slice(0, Math.max(64, elements))
    .map(([name, member]) => [name, withLess(member, longest, elements)]));
}

function isLargeImage(value: object, longest: number): value is { mime: string } {
  return 'block' in value && value.block === 'image' && 'mime' in value && typeof value.mime === 'string'
    && 'data' in value && typeof value.data === 'string' && value.data.length > longest;
}

/** The beginning of a text. It never ends with half of a character. */
function cut(text: string, longest: number): string {
  if (text.length <= longest) return text;
  const start = text.slice(0, longest).replace(/[\ud800-\udbff]$/, '');
  return `${start}…\n\n(${text.length - start.length} more characters were not kept.)`;
}
