// Contrast of colours. A theme of VS Code may have colours that are too weak for small texts on a coloured ground.

/** The least contrast of texts, as in WCAG. */
const least = 4.5;

type Rgb = [number, number, number];

function partsOf(colour: string): Rgb {
  const part = (at: number) => parseInt(colour.slice(at, at + 2), 16);
  return [part(1), part(3), part(5)];
}

function luminance(colour: string): number {
  const [r, g, b] = partsOf(colour).map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  }) as Rgb;
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** The contrast of two colours as `#rrggbb`, from 1 to 21. */
export function contrast(one: string, other: string): number {
  const [a, b] = [luminance(one), luminance(other)];
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}

function mix(one: string, other: string, share: number): string {
  const [a, b] = [partsOf(one), partsOf(other)];
  const parts = a.map((part, at) => Math.round(part + ((b[at] ?? part) - part) * share));
  return `#${parts.map((part) => part.toString(16).padStart(2, '0')).join('')}`;
}

/** A colour that can be read on all these grounds: as it is, or nearer to black or white. */
export function readableOn(colour: string, grounds: readonly string[]): string {
  const worst = (some: string) => Math.min(...grounds.map((ground) => contrast(some, ground)));
  const end = worst('#ffffff') > worst('#000000') ? '#ffffff' : '#000000';
  let best = colour;
  for (let share = 0.1; share <= 1.001 && worst(best) < least; share += 0.1) best = mix(colour, end, Math.min(1, share));
  return best;
}

const grounds = ['--bg', '--bg-2', '--bg-3', '--ins-bg', '--del-bg', '--warn-bg'];
const texts = `--text --text-2 --accent --ok --warn --err --code-keyword --code-string --code-number --code-comment
  --code-function --code-type`.split(/\s+/);

/** Tokens whose texts can be read on every ground of the tokens. All of them are `#rrggbb`. */
export function readable(tokens: Record<string, string>): Record<string, string> {
  const found = grounds.flatMap((name) => tokens[name] ?? []);
  const result = { ...tokens };
  for (const name of texts) {
    const colour = tokens[name];
    if (colour !== undefined && found.length) result[name] = readableOn(colour, found);
  }
  const { '--main': main, '--on-main': on } = tokens;
  if (main !== undefined && on !== undefined) result['--on-main'] = readableOn(on, [main]);
  return result;
}
