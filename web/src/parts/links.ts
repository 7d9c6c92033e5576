// Links in texts of agents: which may be opened, and which name a file and a line.

export interface FilePlace {
  path: string;
  line?: number;
}

/** An address that may be opened in the browser, or null. */
export function safeAddress(href: string): URL | null {
  // URL removes blanks and control characters; here they make an address suspicious.
  if (/[\u0000-\u0020\u007f]/.test(href)) return null;
  try {
    const url = new URL(href);
    return ['https:', 'http:', 'mailto:'].includes(url.protocol) ? url : null;
  } catch {
    return null;
  }
}

/** What the user must see of the target of a link, if its text does not already say it. */
export function shownTarget(url: URL, text: string): string | null {
  const bare = (address: string) => address.replace(/^(https?:\/\/|mailto:)/, '').replace(/\/$/, '');
  // In `https://known.example@other.example/`, the host is the second name.
  const named = url.username !== '' || url.password !== '';
  if (!named && bare(text.trim()) === bare(url.href)) return null;
  return url.protocol === 'mailto:' ? url.pathname : url.host;
}

const kinds = 'rs|tsx?|jsx?|mjs|cjs|mts|py|go|java|kts?|c|h|cc|cpp|hpp|cs|rb|php|swift|scala|sh|bash|toml|ya?ml|json|' +
  'jsonl|md|txt|html?|css|scss|sql|lock|xml|proto|lua|zig|exs?|hs|mli?|vue|svelte|cfg|ini|conf|nix|dart|r|jl|gradle';
const place = String.raw`((?:\.{0,2}/)?(?:[\w@.+-]+/)*[\w@.+-]*\.(?:${kinds})):(\d{1,7})(?:[:-]\d{1,7})*`;
// It begins where a word begins. Otherwise a long word would be tried from each of its letters.
const anywhere = new RegExp(String.raw`(?<![\w/.:@+-])${place}(?![\w/])`, 'g');
const whole = new RegExp(`^${place}$`);

/** Cuts a text at places such as `src/router.rs:41`. */
export function splitPlaces(text: string): Array<string | (FilePlace & { text: string })> {
  const parts: Array<string | (FilePlace & { text: string })> = [];
  let end = 0;
  for (const found of text.matchAll(anywhere)) {
    if (found.index > end) parts.push(text.slice(end, found.index));
    parts.push({ text: found[0], path: found[1]!, line: Number(found[2]) });
    end = found.index + found[0].length;
  }
  if (end < text.length) parts.push(text.slice(end));
  return parts;
}

/** The place that a whole text names, such as the text of `code`. */
export function asPlace(text: string): FilePlace | null {
  const found = whole.exec(text);
  return found ? { path: found[1]!, line: Number(found[2]) } : null;
}

const longestPath = 4096;

/** The file that a link without a scheme (or a `file:` link) leads to: `src/a.rs`, `src/a.rs#L12`, `src/a.rs:12`. */
export function linkedFile(href: string): FilePlace | null {
  if (href.length > longestPath) return null;
  let path = href;
  if (/^file:\/\//i.test(path)) path = path.replace(/^file:\/\/(localhost)?/i, '');
  else if (/^[a-z][a-z0-9+.-]*:(?!\d)/i.test(path) || /^(#|\/\/|\?)/.test(path)) return null;
  const found = /^([^#?]+?)(?:#L(\d{1,7})(?:-L?\d+)?|:(\d{1,7})(?:[:-]\d+)*)?$/.exec(path);
  if (!found?.[1]) return null;
  try {
    path = decodeURIComponent(found[1]);
  } catch {
    path = found[1];
  }
  if (/[\u0000-\u001f\u007f]/.test(path)) return null;
  const line = Number(found[2] ?? found[3] ?? 0);
  return line > 0 ? { path, line } : { path };
}
