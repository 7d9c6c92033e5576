// Output of terminals: colours and weights become classes, all other escape sequences are removed.

export interface AnsiSpan {
  text: string;
  cls: string;
}

interface Style {
  fg: number | null;
  bg: number | null;
  flags: Set<string>;
}

// Escape sequences: CSI, OSC (also links), other strings, and two or three characters.
const escape = new RegExp(
  '(?:\\u001b\\[|\\u009b)([0-?]*)[ -/]*([@-~])' +
  '|(?:\\u001b\\]|\\u009d)[^\\u0007\\u001b\\u009c]*(?:\\u0007|\\u001b\\\\|\\u009c|$)' +
  '|(?:\\u001b[PX^_]|[\\u0090\\u0098\\u009e\\u009f])[^\\u001b\\u009c]*(?:\\u001b\\\\|\\u009c|$)' +
  '|\\u001b[ -/]*[0-~]?|[\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f]', 'g');

/** Cuts the output into spans with the same style. */
export function ansiSpans(output: string): AnsiSpan[] {
  const spans: AnsiSpan[] = [];
  const style: Style = { fg: null, bg: null, flags: new Set() };
  let cls = '';
  let end = 0;
  const text = overwrite(output);
  const add = (part: string) => {
    const last = spans[spans.length - 1];
    if (part && last?.cls === cls) last.text += part;
    else if (part) spans.push({ text: part, cls });
  };
  for (const found of text.matchAll(escape)) {
    add(text.slice(end, found.index));
    end = found.index + found[0].length;
    if (found[2] === 'm' && /^[\d;:]*$/.test(found[1] ?? '')) {
      setStyle(style, found[1] ?? '');
      cls = classes(style);
    }
  }
  add(text.slice(end));
  return spans;
}

/** A line that was written again with a carriage return shows its last text. */
function overwrite(output: string): string {
  if (!/[\r\b]/.test(output)) return output;
  return output.replace(/\r+\n/g, '\n').split('\n').map((line) => {
    const parts = line.split('\r').filter((part, i, all) => part !== '' || i === all.length - 1);
    const last = parts.pop() ?? '';
    const shown = last === '' && parts.length > 0 ? parts.pop()! : last;
    return shown.includes('\b') ? erase(shown) : shown;
  }).join('\n');
}

/** Each backspace removes the character before it. */
function erase(line: string): string {
  const shown: string[] = [];
  for (const sign of line) {
    if (sign === '\b') shown.pop();
    else shown.push(sign);
  }
  return shown.join('');
}

const on: Record<number, string> = { 1: 'bold', 2: 'dim', 3: 'italic', 4: 'under', 7: 'invert', 9: 'strike' };
const off: Record<number, string[]> = {
  22: ['bold', 'dim'], 23: ['italic'], 24: ['under'], 27: ['invert'], 29: ['strike'],
};

function setStyle(style: Style, codes: string): void {
  const numbers = codes.split(/[;:]/).map((code) => Number(code || 0));
  for (let i = 0; i < numbers.length; i++) {
    const code = numbers[i]!;
    if (code === 0) [style.fg, style.bg, style.flags] = [null, null, new Set()];
    else if (on[code]) style.flags.add(on[code]);
    else if (off[code]) off[code].forEach((flag) => style.flags.delete(flag));
    else if (code >= 30 && code <= 37) style.fg = code - 30;
    else if (code >= 90 && code <= 97) style.fg = code - 82;
    else if (code === 39) style.fg = null;
    else if (code >= 40 && code <= 47) style.bg = code - 40;
    else if (code >= 100 && code <= 107) style.bg = code - 92;
    else if (code === 49) style.bg = null;
    else if (code === 38 || code === 48) {
      const rgb = numbers[i + 1] === 2;
      const colour = rgb ? nearest(numbers[i + 2] ?? 0, numbers[i + 3] ?? 0, numbers[i + 4] ?? 0)
        : indexed(numbers[i + 2] ?? 0);
      if (code === 38) style.fg = colour;
      else style.bg = colour;
      i += rgb ? 4 : 2;
    }
  }
}

/** A colour of the table of 256 as one of 16. */
function indexed(index: number): number {
  if (index < 16) return index;
  if (index >= 232) return nearest((index - 232) * 10 + 8, (index - 232) * 10 + 8, (index - 232) * 10 + 8);
  const level = (part: number) => (part === 0 ? 0 : part * 40 + 55);
  const cube = index - 16;
  return nearest(level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6));
}

/** The nearest of the 16 colours, by hue: they have readable values in both themes. */
function nearest(red: number, green: number, blue: number): number {
  const most = Math.max(red, green, blue);
  const least = Math.min(red, green, blue);
  if (most - least < 40) return most < 64 ? 0 : most < 160 ? 8 : most < 224 ? 7 : 15;
  const half = (most + least) / 2;
  const hue = (red > half ? 1 : 0) + (green > half ? 2 : 0) + (blue > half ? 4 : 0);
  return hue + (most > 200 ? 8 : 0);
}

function classes(style: Style): string {
  const names = [...style.flags].map((flag) => `a-${flag}`);
  if (style.fg !== null) names.push(`a-fg${style.fg % 8}`);
  if (style.bg !== null) names.push(`a-bg${style.bg % 8}`);
  if (style.fg === 8) names.push('a-dim');
  return names.join(' ');
}
