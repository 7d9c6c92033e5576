// The script of the panel frame. It shows cleaned HTML and tells the page what the user does with its widgets.
// It trusts one message to its window, the first `init` of its parent. All else goes over the port of that message.
import './frame.css';
import { decode } from '../panels/guard';
import { Blocks } from './blocks';
import { clean } from './clean';
import { keep } from './keep';
import { limits, type FromFrame, type Init, type ToFrame } from './messages';
import { listen, listenToChords, make, prepare } from './widgets';

const root = document.getElementById('panel') ?? document.body;

addEventListener('message', function begin(event: MessageEvent) {
  const init = event.data as Partial<Init> | null;
  const port = event.ports[0];
  if (event.source !== parent || init?.kind !== 'init' || init.v !== 1 || !port) return;
  removeEventListener('message', begin);
  connect(port, String(init.panel), init.keys === true);
});

function connect(port: MessagePort, label: string, keys: boolean): void {
  const send = (message: FromFrame) => port.postMessage(message);
  let blocks: Blocks | null = null;
  let current = -1;
  document.title = label;
  port.onmessage = (event: MessageEvent<ToFrame>) => {
    const message = event.data;
    if (message.t === 'html') {
      current = message.seq;
      blocks = show(message.html, label, blocks);
      send({ t: 'shown', seq: current, height: document.documentElement.scrollHeight });
      if (blocks && blocks.list.length > 0) send({ t: 'blocks', seq: current, blocks: blocks.list });
    } else if (message.t === 'fill' && message.seq === current) {
      blocks?.fill(message.at, message.fill);
    } else if (message.t === 'theme') {
      setTheme(message.vars);
    }
  };
  let times: number[] = [];
  const tell = (message: FromFrame) => {
    // A key that is held down repeats. The page would take too many messages for an attack.
    const now = performance.now();
    times = times.filter((time) => now - time < 1000);
    // What the page would refuse is not sent, or an honest click would end the panel.
    if (times.length >= limits.perSecond * 0.75 || !decode(message)) return;
    times.push(now);
    send(message);
  };
  listen(root, tell);
  if (keys) listenToChords(tell);
  send({ t: 'ready' });
}

function show(html: string, label: string, before: Blocks | null): Blocks | null {
  const restore = keep(root);
  const fragment = clean(html);
  if (!fragment) {
    const note = `This panel has more than ${limits.elements.toLocaleString('en')} elements. It is shown as text.`;
    root.replaceChildren(make('p', 'x-problem', note), make('pre', 'x-text', html));
    return null;
  }
  const blocks = new Blocks(fragment, before);
  prepare(fragment);
  nameHeadings(fragment, label);
  root.replaceChildren(fragment);
  restore();
  return blocks;
}

/** One h1, and no level left out: the levels are what screen readers jump by. The look is not changed. */
function nameHeadings(fragment: DocumentFragment, label: string): void {
  const outer: number[] = [];
  const headings = fragment.querySelectorAll('h1, h2, h3, h4, h5, h6');
  const hasTitle = headings[0]?.localName === 'h1';
  headings.forEach((heading, i) => {
    const depth = Number(heading.localName.slice(1));
    while (outer.length > 0 && outer[outer.length - 1]! >= depth) outer.pop();
    outer.push(depth);
    const level = hasTitle ? Math.max(outer.length, i === 0 ? 1 : 2) : outer.length + 1;
    if (level !== depth) heading.setAttribute('aria-level', String(level));
  });
  if (!hasTitle) fragment.prepend(make('h1', 'x-hidden', label));
}

function setTheme(vars: Record<string, string>): void {
  const { style } = document.documentElement;
  style.colorScheme = vars['scheme'] === 'dark' ? 'dark' : 'light';
  for (const [name, value] of Object.entries(vars)) {
    if (/^--[a-z0-9-]+$/.test(name) && /^[#\w\s(),.%'"/-]{1,200}$/.test(value)) style.setProperty(name, value);
  }
}
