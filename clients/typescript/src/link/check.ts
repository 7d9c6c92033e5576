// Combinators that check a JSON value and give it a type. They are used only at the edge, by decode.ts.

/** Thrown by a check and caught by the decoder, which reports it. */
export class Mismatch extends Error {
  constructor(path: string, expected: string, value: unknown) {
    const kind = Array.isArray(value) ? 'array' : typeof value;
    const found = value === undefined ? 'nothing' : value === null ? 'null' : `${/^[ao]/.test(kind) ? 'an' : 'a'} ${kind}`;
    super(`${path || 'the message'}: expected ${expected}, found ${found}`);
  }
}

/** Returns the value with its type, or throws a `Mismatch`. */
export type Check<T> = (value: unknown, path: string) => T;

export const string: Check<string> = (value, path) => {
  if (typeof value !== 'string') throw new Mismatch(path, 'a text', value);
  return value;
};

export const number: Check<number> = (value, path) => {
  if (typeof value !== 'number' || !Number.isFinite(value)) throw new Mismatch(path, 'a number', value);
  return value;
};

export const boolean: Check<boolean> = (value, path) => {
  if (typeof value !== 'boolean') throw new Mismatch(path, 'true or false', value);
  return value;
};

export const unknown: Check<unknown> = (value) => value ?? null;

/** One of these texts. */
export function oneOf<const T extends readonly string[]>(...texts: T): Check<T[number]> {
  return (value, path) => {
    if (typeof value !== 'string' || !texts.includes(value)) throw new Mismatch(path, texts.join(' or '), value);
    return value as T[number];
  };
}

/** The value or null. A missing member counts as null. */
export function nullable<T>(check: Check<T>): Check<T | null> {
  return (value, path) => (value === null || value === undefined ? null : check(value, path));
}

export function array<T>(check: Check<T>): Check<T[]> {
  return (value, path) => {
    if (!Array.isArray(value)) throw new Mismatch(path, 'an array', value);
    return value.map((item, index) => check(item, `${path}[${index}]`));
  };
}

export function pair<A, B>(first: Check<A>, second: Check<B>): Check<[A, B]> {
  return (value, path) => {
    if (!Array.isArray(value) || value.length !== 2) throw new Mismatch(path, 'a pair', value);
    return [first(value[0], `${path}[0]`), second(value[1], `${path}[1]`)];
  };
}

type Fields = Record<string, Check<unknown>>;
type Shape<F extends Fields> = { [K in keyof F]: F[K] extends Check<infer T> ? T : never };

function record(value: unknown, path: string): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new Mismatch(path, 'an object', value);
  return value as Record<string, unknown>;
}

/** An object with these members. Others are left out: a newer server may have more. */
export function object<F extends Fields>(fields: F): Check<Shape<F>> {
  const list = Object.entries(fields);
  return (value, path) => {
    const from = record(value, path);
    const to: Record<string, unknown> = {};
    for (const [name, check] of list) to[name] = check(from[name], path ? `${path}.${name}` : name);
    return to as Shape<F>;
  };
}

type Variants = Record<string, Check<object>>;
type Union<Tag extends string, V extends Variants> = {
  [K in keyof V & string]: { [P in Tag]: K } & (V[K] extends Check<infer T> ? T : never);
}[keyof V & string];

/** An object whose member `tag` says which variant it is. */
export function variants<Tag extends string, V extends Variants>(tag: Tag, all: V): Check<Union<Tag, V>> {
  return (value, path) => {
    const name = record(value, path)[tag];
    const check = typeof name === 'string' && Object.hasOwn(all, name) ? all[name] : undefined;
    if (!check) throw new Mismatch(path ? `${path}.${tag}` : tag, 'a known kind', name);
    return { [tag]: name, ...check(value, path) } as Union<Tag, V>;
  };
}
