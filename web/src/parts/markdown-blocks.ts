// Markdown as tokens, block by block. While a text grows, only its end is read again.
import { Lexer, type Token } from 'marked';

/** Longer texts are shown as they are. */
export const longestMarkdown = 1 << 20;

export interface Blocks {
  tokens: Token[];
  /** How many link definitions are known. The same block can look different when there are more. */
  links: number;
}

/** The tokens of a whole text. */
export function lexAll(text: string): Blocks {
  const tokens = lex(text, {});
  return { tokens, links: Object.keys(tokens.links).length };
}

type Links = Lexer['tokens']['links'];

/** Marked calls itself for each level of nesting, so a hostile text can end its stack. */
function lex(text: string, links: Links): Token[] & { links: Links } {
  if (text.length <= longestMarkdown) {
    try {
      const lexer = new Lexer();
      Object.assign(lexer.tokens.links, links);
      return lexer.lex(text);
    } catch {
      // Shown as it is.
    }
  }
  const plain: Token = { type: 'html', block: true, raw: text, text, pre: false };
  return Object.assign([plain], { links });
}

/**
 * Reads a growing text. All blocks but the last two are kept: what comes later cannot change them, except for
 * link definitions. So the text is read as a whole when it is complete (`lexAll`).
 */
export class GrowingText {
  private text = '';
  private kept: Token[] = [];
  private keptLength = 0;
  private links: Links = {};

  update(text: string): Blocks {
    // Marked reads a line end as \n. A piece must not end between \r and \n.
    const clean = text.replace(/\r\n?/g, '\n');
    if (!clean.startsWith(this.text)) this.reset();
    this.text = clean;
    const tail = lex(clean.slice(this.keptLength), this.links);
    const closed = countClosed(tail);
    for (const token of tail.slice(0, closed)) {
      this.kept.push(token);
      this.keptLength += token.raw.length;
      const tag = token.type === 'def' ? String(token['tag']) : null;
      if (tag !== null) this.links = { ...this.links, [tag]: tail.links[tag]! };
    }
    return { tokens: [...this.kept, ...tail.slice(closed)], links: Object.keys(tail.links).length };
  }

  private reset(): void {
    this.text = '';
    this.kept = [];
    this.keptLength = 0;
    this.links = {};
  }
}

/** How many of the tokens cannot change any more: all but the last two blocks. Space is no block. */
function countClosed(tokens: Token[]): number {
  let blocks = 0;
  for (let i = tokens.length - 1; i >= 0; i--) {
    if (tokens[i]?.type !== 'space' && ++blocks === 2) return i;
  }
  return 0;
}

/** Whether a code block has its closing fence. */
export function isClosedFence(raw: string): boolean {
  const fence = /^ {0,3}(`{3,}|~{3,})/.exec(raw)?.[1];
  if (!fence) return true;
  const last = raw.trimEnd().split('\n').slice(1).pop()?.trim() ?? '';
  return last.length >= fence.length && last === fence.charAt(0).repeat(last.length);
}

const named: Record<string, string> = {
  amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0', copy: '©', reg: '®', hellip: '…', mdash: '—',
  ndash: '–', lsquo: '‘', rsquo: '’', ldquo: '“', rdquo: '”', bull: '•', middot: '·', times: '×', rarr: '→',
  larr: '←', uarr: '↑', darr: '↓', le: '≤', ge: '≥', ne: '≠', deg: '°', check: '✓', laquo: '«', raquo: '»',
  euro: '€',
};

/** Replaces the entities of HTML that Markdown allows in text. */
export function decodeEntities(text: string): string {
  if (!text.includes('&')) return text;
  return text.replace(/&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([a-zA-Z]{2,8}));/g, (whole, dec, hex, name) => {
    if (name !== undefined) return Object.hasOwn(named, name) ? (named[name] ?? whole) : whole;
    const code = dec !== undefined ? Number(dec) : parseInt(hex, 16);
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : '\ufffd';
  });
}
