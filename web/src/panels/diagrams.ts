// Draws diagrams in a frame of its own, one for the whole page. What comes back is only ever used as an image.
import '../style/code.css';
import type { Fill } from '../panel-frame/messages';
import { frames } from './frames';

/** How long one diagram may take, with the time to load the library. They are drawn one after the other. */
const patience = 15_000;
const longestDrawing = 2_000_000;

interface Frame {
  element: HTMLIFrameElement;
  port: MessagePort | null;
  timer: ReturnType<typeof setTimeout> | undefined;
  asked: Map<number, { done: (fill: Fill) => void; message: object }>;
}

let frame: Frame | null = null;
let count = 0;

export function drawDiagram(text: string, vars: Record<string, string>): Promise<Fill> {
  frame ??= openFrame();
  const { asked, port } = frame;
  if (asked.size === 0) watch(frame);
  return new Promise((done) => {
    const id = ++count;
    const message = { id, text, vars };
    asked.set(id, { done, message });
    port?.postMessage(message);
  });
}

/** Waits for the next drawing. */
function watch(of: Frame): void {
  clearTimeout(of.timer);
  of.timer = setTimeout(() => {
    if (of.asked.size > 0) closeFrame('The diagram took too long to draw.');
  }, patience);
}

function openFrame(): Frame {
  const element = document.createElement('iframe');
  element.setAttribute('sandbox', 'allow-scripts');
  element.setAttribute('allow', '');
  element.referrerPolicy = 'no-referrer';
  element.title = 'Draws diagrams';
  element.className = 'diagram-frame';
  element.tabIndex = -1;
  element.setAttribute('aria-hidden', 'true');
  const made: Frame = { element, port: null, timer: undefined, asked: new Map() };
  let loads = 0;
  element.addEventListener('load', () => {
    loads += 1;
    if (loads > 1 || !element.contentWindow) {
      closeFrame('The diagram cannot be drawn.');
      return;
    }
    const channel = new MessageChannel();
    made.port = channel.port1;
    channel.port1.onmessage = (event) => take(made, event.data);
    element.contentWindow.postMessage({ kind: 'init', v: 1 }, '*', [channel.port2]);
    for (const { message } of made.asked.values()) channel.port1.postMessage(message);
  });
  frames.diagram(element).then(
    () => {
      if (frame === made) document.body.append(element);
    },
    () => {
      if (frame === made) closeFrame('The diagram library was not loaded.');
    },
  );
  return made;
}

/** Ends the frame. The next diagram gets a new one. */
function closeFrame(problem: string): void {
  const old = frame;
  frame = null;
  old?.port?.close();
  old?.element.remove();
  clearTimeout(old?.timer);
  for (const { done } of old?.asked.values() ?? []) done({ problem });
}

function take(from: Frame, data: unknown): void {
  if (typeof data !== 'object' || data === null) return;
  const { id, svg, width, height, problem } = data as Record<string, unknown>;
  const asked = typeof id === 'number' ? from.asked.get(id) : undefined;
  if (!asked) return;
  from.asked.delete(id as number);
  watch(from);
  const size = (value: unknown): value is number => typeof value === 'number' && value > 0 && value < 20_000;
  if (typeof svg === 'string' && svg.length <= longestDrawing && size(width) && size(height)) {
    asked.done({ svg, width, height });
  } else {
    asked.done({ problem: typeof problem === 'string' ? problem.slice(0, 400) : 'The diagram cannot be drawn.' });
  }
}
