// Checks what a panel frame says. What is not exactly as expected ends the connection to the frame.
import { limits, type Block, type EventKind, type FromFrame, type Inputs } from '../panel-frame/messages';

const kinds: readonly string[] = ['click', 'choice', 'input', 'toggle'] satisfies EventKind[];

type Fields = Record<string, unknown>;

/** One message, or null if it is not one. */
export function decode(data: unknown): FromFrame | null {
  if (typeof data !== 'object' || data === null) return null;
  const message = data as Fields;
  switch (message['t']) {
    case 'ready': return { t: 'ready' };
    case 'shown': return decodeShown(message);
    case 'event': return decodeEvent(message);
    case 'open': return decodeOpen(message);
    case 'link': return isText(message['href']) && message['href'] !== '' ? { t: 'link', href: message['href'] } : null;
    case 'key': {
      const { key, shift } = message;
      return (key === 'F6' || key === 'Escape') && typeof shift === 'boolean' ? { t: 'key', key, shift } : null;
    }
    case 'chord': {
      const { keys } = message;
      return typeof keys === 'string' && /^(Ctrl\+|Alt\+|Shift\+){0,3}[!-~]\w{0,12}$/.test(keys) ? { t: 'chord', keys } : null;
    }
    case 'blocks': return decodeBlocks(message);
    default: return null;
  }
}

function isText(value: unknown, length = limits.message): value is string {
  return typeof value === 'string' && value.length <= length;
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}

function decodeShown({ seq, height }: Fields): FromFrame | null {
  return isCount(seq) && isCount(height) ? { t: 'shown', seq, height } : null;
}

function decodeEvent({ widget, kind, value, inputs }: Fields): FromFrame | null {
  if (!isText(widget, 200) || widget === '' || typeof kind !== 'string' || !kinds.includes(kind)) return null;
  const fits = kind === 'toggle' ? typeof value === 'boolean' : isText(value) || (kind === 'click' && value === null);
  if (!fits) return null;
  const event: FromFrame = { t: 'event', widget, kind: kind as EventKind, value: value as string | boolean | null };
  if (inputs === undefined) return event;
  const texts = kind === 'click' ? decodeInputs(inputs) : null;
  return texts && { ...event, inputs: texts };
}

function decodeInputs(data: unknown): Inputs | null {
  if (typeof data !== 'object' || data === null || Array.isArray(data)) return null;
  const all = Object.entries(data as Fields);
  let length = 0;
  for (const [name, text] of all) {
    if (!isText(name, 200) || name === '' || !isText(text)) return null;
    length += text.length;
  }
  return length <= limits.inputs ? (Object.fromEntries(all) as Inputs) : null;
}

function decodeOpen({ file, line }: Fields): FromFrame | null {
  if (!isText(file, 4096) || file === '' || file.includes('\0')) return null;
  return line === null || (isCount(line) && line > 0) ? { t: 'open', file, line } : null;
}

function decodeBlocks({ seq, blocks }: Fields): FromFrame | null {
  if (!isCount(seq) || !Array.isArray(blocks) || blocks.length > limits.blockCount) return null;
  const list: Block[] = [];
  let length = 0;
  for (const block of blocks as unknown[]) {
    if (typeof block !== 'object' || block === null) return null;
    const { language, text } = block as Fields;
    if (!isText(language, 40) || !isText(text, limits.blocks)) return null;
    length += text.length;
    list.push({ language, text });
  }
  return length <= limits.blocks ? { t: 'blocks', seq, blocks: list } : null;
}

/** Counts messages. Answers to the page do not count: the page limits how often it asks. */
export class Guard {
  private times: number[] = [];
  private asked = -1;
  private shown = -1;
  private blocks = -1;
  private greeted = false;

  /** The page has sent HTML with this number. */
  expect(seq: number): void {
    this.asked = seq;
  }

  /** The message, or why the frame is not trusted any more. */
  take(data: unknown, now: number): FromFrame | { attack: string } {
    const message = decode(data);
    if (!message) return { attack: 'it sent a message that is not allowed' };
    if (message.t === 'ready' && !this.greeted) {
      this.greeted = true;
      return message;
    }
    if (message.t === 'shown' || message.t === 'blocks') {
      // One answer for each HTML, in order.
      const last = message.t === 'shown' ? this.shown : this.blocks;
      const asked = message.seq <= this.asked && message.seq > last;
      if (!asked) return { attack: 'it gave an answer that was not asked for' };
      if (message.t === 'shown') this.shown = message.seq;
      else this.blocks = message.seq;
      return message;
    }
    if (message.t === 'ready') return { attack: 'it began twice' };
    this.times = this.times.filter((time) => now - time < 1000);
    this.times.push(now);
    if (this.times.length <= limits.perSecond) return message;
    return { attack: `it sent more than ${limits.perSecond} messages in a second` };
  }
}
