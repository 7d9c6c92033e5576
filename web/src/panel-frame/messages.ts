// What the page and the panel frame say to each other, over one port. Both sides use these types.

/** Asks the frame to begin, with the port. The only message to its window. */
export interface Init {
  kind: 'init';
  v: 1;
  /** The label of the panel. */
  panel: string;
  /** Whether keys of an editor around the page are told: an editor does not see keys in a frame. */
  keys?: boolean;
}

export type ToFrame =
  | { t: 'html'; seq: number; html: string }
  | { t: 'theme'; vars: Record<string, string> }
  /** How a block of the HTML with this number looks. */
  | { t: 'fill'; seq: number; at: number; fill: Fill };

/** Lines of code as text and class, or a picture of a diagram, or why there is none. */
export type Fill =
  | { lines: Array<Array<[string, string | null]>> }
  | { svg: string; width: number; height: number }
  | { problem: string };

export type FromFrame =
  | { t: 'ready' }
  | { t: 'shown'; seq: number; height: number }
  | { t: 'event'; widget: string; kind: EventKind; value: string | boolean | null; inputs?: Inputs }
  | { t: 'open'; file: string; line: number | null }
  | { t: 'link'; href: string }
  | { t: 'key'; key: 'F6' | 'Escape'; shift: boolean }
  /** A key that is not for the panel, such as `Ctrl+Shift+P`. `Ctrl` is also the command key of a Mac. */
  | { t: 'chord'; keys: string }
  /** Code and diagrams in the HTML. The page has the highlighter, and another frame draws diagrams. */
  | { t: 'blocks'; seq: number; blocks: Block[] };

/** The texts that a button sends along, by the name of their input. */
export type Inputs = Record<string, string>;

export type EventKind = 'click' | 'choice' | 'input' | 'toggle';

export interface Block {
  /** `mermaid` for a diagram, or a language. */
  language: string;
  text: string;
}

export const limits = {
  /** Characters of the HTML of a panel. More is shown as text. */
  html: 1 << 20,
  elements: 20_000,
  /** Characters of one message of the frame. */
  message: 16 * 1024,
  /** Characters of one input, and of all inputs that a button sends along. */
  input: 15_000,
  inputs: 300_000,
  /** Characters of all blocks of a panel, and their number. */
  blocks: 1 << 20,
  blockCount: 200,
  /** Messages that a frame may send in one second. */
  perSecond: 20,
  /** Milliseconds until the frame must have shown its HTML. */
  shown: 3000,
};
