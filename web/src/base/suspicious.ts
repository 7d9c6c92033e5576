// Finds characters that hide what a command does: invisible, reordering, and look-alike characters.

/** A piece of a text. `why` says what is wrong with it. */
export interface Piece {
  text: string;
  why: string | null;
  /** Whether the character cannot be seen, so that its name must be shown in its place. */
  hidden: boolean;
}

const names: Record<number, string> = {
  0x00: 'null', 0x07: 'bell', 0x08: 'backspace', 0x0d: 'carriage return', 0x1b: 'escape', 0x7f: 'delete',
  0xa0: 'no-break space', 0xad: 'soft hyphen', 0x61c: 'Arabic letter mark', 0x200b: 'zero width space',
  0x200c: 'zero width non-joiner', 0x200d: 'zero width joiner', 0x200e: 'left-to-right mark',
  0x200f: 'right-to-left mark', 0x2028: 'line separator', 0x2029: 'paragraph separator',
  0x202a: 'left-to-right embedding', 0x202b: 'right-to-left embedding', 0x202c: 'end of direction',
  0x202d: 'left-to-right override', 0x202e: 'right-to-left override', 0x2060: 'word joiner',
  0x2066: 'left-to-right isolate', 0x2067: 'right-to-left isolate', 0x2068: 'first strong isolate',
  0x2069: 'end of isolate', 0xfeff: 'zero width no-break space', 0x3164: 'Hangul filler', 0x3000: 'wide space',
};

// Control characters but tab and line feed, format characters, unusual spaces, fillers, variation selectors, tags.
const hidden = new RegExp('[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u00a0\\u00ad\\u034f\\u061c\\u115f\\u1160\\u1680'
  + '\\u17b4\\u17b5\\u180b-\\u180f\\u2000-\\u200f\\u2028-\\u202f\\u205f-\\u206f\\u2800\\u3000\\u3164\\ufe00-\\ufe0f'
  + '\\ufeff\\uffa0\\ufff0-\\ufffb\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}]', 'u');

// Letters of other scripts that look like Latin ones.
const likeLatin: Record<string, string> = {};
for (const [like, letters] of Object.entries({
  a: 'аα', b: 'Ьв', c: 'сϲ', d: 'ԁ', e: 'еє', g: 'ɡ', h: 'һ', i: 'іιı', j: 'јϳ', k: 'кκ', l: 'ӏ', m: 'м', n: 'пη', o: 'оοօ',
  p: 'рρ', q: 'ԛ', r: 'г', s: 'ѕ', t: 'тτ', u: 'υս', v: 'ѵν', w: 'ԝω', x: 'хχ', y: 'уγ', z: 'ᴢ',
  A: 'АΑ', B: 'ВΒ', C: 'СϹ', E: 'ЕΕ', H: 'НΗ', I: 'ІΙ', J: 'Ј', K: 'КΚ', M: 'МΜ', N: 'Ν', O: 'ОΟ', P: 'РΡ', S: 'Ѕ', T: 'ТΤ',
  X: 'ХΧ', Y: 'ҮΥ', Z: 'Ζ',
})) for (const letter of letters) likeLatin[letter] = like;

// Signs that look like signs of a shell.
const likeSign: Record<string, string> = {
  '\u2010': '-', '\u2011': '-', '\u2012': '-', '\u2013': '-', '\u2014': '-', '\u2212': '-', '\u2044': '/', '\u2215': '/',
  '\u29f8': '/', '\u2018': "'", '\u2019': "'", '\u201c': '"', '\u201d': '"', '\u037e': ';', '\u2223': '|', '\u01c0': '|',
  '\u2024': '.', '\u0589': ':', '\u2236': ':', '\ua789': ':', '\u2039': '<', '\u203a': '>',
};

// Full-width forms and mathematical letters.
const styled = /[\uff01-\uff5e\u{1d400}-\u{1d7ff}]/u;

function code(character: string): string {
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`;
}

function nameOf(character: string): string {
  const name = names[character.codePointAt(0) ?? 0];
  return name ? `${code(character)} ${name}` : code(character);
}

/** A word that is Latin, or that could be read as Latin. */
function readsAsLatin(word: string): boolean {
  if (/[a-z]/i.test(word)) return true;
  const letters = word.match(/\p{L}/gu) ?? [];
  return letters.length > 0 && letters.every((letter) => letter in likeLatin);
}

function why(character: string, word: string): { why: string; hidden: boolean } | null {
  if (hidden.test(character)) return { why: nameOf(character), hidden: true };
  const sign = likeSign[character];
  if (sign) return { why: `${code(character)}, not ${sign}`, hidden: false };
  if (styled.test(character)) {
    return { why: `${code(character)}, not ${character.normalize('NFKC')}`, hidden: false };
  }
  const latin = likeLatin[character];
  if (latin && readsAsLatin(word)) return { why: `${code(character)}, not the letter ${latin}`, hidden: false };
  return null;
}

/** Cuts a text into pieces, with each suspicious character as a piece of its own. */
export function markSuspicious(text: string): Piece[] {
  const pieces: Piece[] = [];
  let plain = '';
  const end = () => {
    if (plain) pieces.push({ text: plain, why: null, hidden: false });
    plain = '';
  };
  for (const word of text.match(/[\p{L}\p{M}\p{N}]+|[^\p{L}\p{M}\p{N}]+/gu) ?? []) {
    for (const character of word) {
      const found = why(character, word);
      if (!found) {
        plain += character;
        continue;
      }
      end();
      pieces.push({ text: character, ...found });
    }
  }
  end();
  return pieces;
}

/** Whether a text has a suspicious character. */
export function isSuspicious(text: string): boolean {
  return markSuspicious(text).some((piece) => piece.why !== null);
}

/** Parts of one emoji are joined by these characters. */
const emoji = /[\p{Extended_Pictographic}0-9#*][\ufe0f\u200d\u{1f3fb}-\u{1f3ff}]+/gu;
/** Letters of some scripts are joined or kept apart by these characters. */
const joined = /[\p{L}\p{M}][\u200c\u200d](?=\p{L})/gu;
/** Signs that are hardly ever meant as such in code and in names. Dashes and quotation marks are common in prose. */
const oddSign = /[\u037e\u2044\u2215\u29f8\u2223\u01c0\u2024\u0589\u2236\ua789]/u;

function countsInText(character: string, isHidden: boolean, isMixed: boolean): boolean {
  if (isHidden) return true;
  if (character in likeSign) return oddSign.test(character);
  // Full-width punctuation is common beside Chinese and Japanese.
  if (styled.test(character)) return /[\p{L}\p{N}]/u.test(character);
  return isMixed;
}

/**
 * As `markSuspicious`, for text that may be prose in any language: a file, a change, a path. A letter of another script
 * is suspicious only in a word with Latin letters. Null if there is nothing to mark.
 */
export function markText(text: string): Piece[] | null {
  // Most lines are ASCII.
  if (/^[\t\n\x20-\x7e]*\r?$/.test(text)) return null;
  const fine = new Set<number>();
  for (const found of text.matchAll(emoji)) {
    for (let at = found.index + 1; at < found.index + found[0].length; at++) fine.add(at);
  }
  for (const found of text.matchAll(joined)) {
    if (!/[\x20-\x7e]/.test(found[0].charAt(0))) fine.add(found.index + found[0].length - 1);
  }
  const pieces: Piece[] = [];
  let plain = '';
  let marked = false;
  let at = 0;
  for (const word of text.match(/[\p{L}\p{M}\p{N}]+|[^\p{L}\p{M}\p{N}]+/gu) ?? []) {
    const isMixed = /[a-z]/i.test(word);
    for (const character of word) {
      const found = why(character, word);
      const isLast = at === text.length - 1;
      const counts = found !== null && !fine.has(at) && !(character === '\r' && isLast) && countsInText(character, found.hidden, isMixed);
      at += character.length;
      if (!counts || !found) {
        plain += character;
        continue;
      }
      if (plain) pieces.push({ text: plain, why: null, hidden: false });
      plain = '';
      marked = true;
      pieces.push({ text: character, ...found });
    }
  }
  if (plain) pieces.push({ text: plain, why: null, hidden: false });
  return marked ? pieces : null;
}

/** How many characters of a text `markText` marks. */
export function countMarked(text: string): number {
  let found = 0;
  for (const line of text.split('\n')) for (const piece of markText(line) ?? []) if (piece.why !== null) found += 1;
  return found;
}
