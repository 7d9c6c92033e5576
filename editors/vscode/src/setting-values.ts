// The values of settings, checked: VS Code hands over whatever the file of the settings contains.

/** A value that can be used. If the setting is wrong, it is the default value, and the problem says so. */
export interface Checked<Value> { value: Value; problem: string | null }

const right = <Value>(value: Value): Checked<Value> => ({ value, problem: null });
const wrong = <Value>(what: string, expected: string, found: string, value: Value): Checked<Value> => (
  { value, problem: `The setting conductor.${what} must be ${expected}, not ${found}.` });

/** A text that a program can get as an argument. */
const isWord = (value: unknown): value is string => typeof value === 'string' && !value.includes('\0');
const areWords = (value: unknown): value is string[] => Array.isArray(value) && value.every(isWord);

export function textOf(name: string, value: unknown): Checked<string> {
  return isWord(value) ? right(value) : wrong(name, 'a text', kindOf(value), '');
}

export function wordsOf(name: string, value: unknown): Checked<string[]> {
  return areWords(value) ? right(value) : wrong(name, 'a list of texts', kindOf(value), []);
}

export function flagOf(name: string, value: unknown, usual: boolean): Checked<boolean> {
  return typeof value === 'boolean' ? right(value) : wrong(name, 'true or false', shown(value), usual);
}

/** One of some words. Every other value counts as `usual`. */
export function wordOf<Usual extends string | null>(
  name: string, value: unknown, words: readonly string[], usual: Usual,
): Checked<string | Usual> {
  const found = words.find((word) => word === value);
  return found === undefined ? wrong(name, words.join(' or '), shown(value), usual) : right(found);
}

/** A whole number that is not negative. A larger one than `most` counts as `most`. */
export function countOf(name: string, value: unknown, most: number, usual: number): Checked<number> {
  if (typeof value === 'number' && value >= most) return right(most);
  if (typeof value === 'number' && Number.isInteger(value) && value >= 0) return right(value);
  return wrong(name, `a whole number from 0 to ${most}`, shown(value), usual);
}

/** The chain: a name or a list of components. Without a value, none is chosen. */
export function chainOf(name: string, value: unknown): Checked<string | string[] | null> {
  if (value === undefined || value === null) return right(null);
  return isWord(value) || areWords(value) ? right(value) : wrong(name, 'a list of texts or a text', kindOf(value), null);
}

/** Chains with a name. Those that are wrong are left out. */
export function chainsOf(name: string, value: unknown): Checked<Record<string, string[]>> {
  if (!isObject(value)) return wrong(name, 'an object', kindOf(value), {});
  const all = Object.entries(value);
  const some = Object.fromEntries(all.filter((entry): entry is [string, string[]] => areWords(entry[1])));
  const [chain, components] = all.find((entry) => !areWords(entry[1])) ?? [];
  return chain === undefined ? right(some)
    : wrong(name, 'an object with lists of texts', `${kindOf(components)} at '${chain}'`, some);
}

/** Changes of environment variables. Null removes one. */
export function variablesOf(name: string, value: unknown): Checked<Record<string, string | null>> {
  if (!isObject(value)) return wrong(name, 'an object', kindOf(value), {});
  const entries = Object.entries(value);
  const isRight = (entry: [string, unknown]): entry is [string, string | null] => (
    /^[^=\0]+$/.test(entry[0]) && (entry[1] === null || isWord(entry[1])));
  const [variable, text] = entries.find((entry) => !isRight(entry)) ?? [];
  if (variable === undefined) return right(Object.fromEntries(entries.filter(isRight)));
  const found = /^[^=\0]+$/.test(variable) ? `${kindOf(text)} at '${variable}'` : `the name '${variable}'`;
  return wrong(name, 'an object with names of variables and texts, or null', found, {});
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function shown(value: unknown): string {
  return typeof value === 'string' ? JSON.stringify(value.slice(0, 80)) : typeof value === 'number' ? String(value) : kindOf(value);
}

/** What a value is. It may contain a secret. */
function kindOf(value: unknown): string {
  if (typeof value === 'string') return value.includes('\0') ? 'a text with a zero byte' : 'a text';
  if (Array.isArray(value)) return areWords(value) ? 'a list of texts' : 'a list with other values';
  if (value === null || value === undefined || typeof value === 'boolean') return String(value);
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`;
}
