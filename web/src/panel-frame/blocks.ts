// Code, differences and diagrams in a panel. The page highlights code, and another frame draws diagrams.
import { limits, type Block, type Fill } from './messages';
import { make, reachable } from './widgets';

/** The places of the blocks that wait for the page. */
export class Blocks {
  readonly list: Block[] = [];
  private readonly places: HTMLElement[] = [];
  private readonly known = new Map<string, Fill>();

  /** `before` has the blocks of the HTML that is replaced: what is the same looks the same at once. */
  constructor(root: DocumentFragment, before: Blocks | null) {
    let length = 0;
    for (const pre of root.querySelectorAll<HTMLElement>('pre')) {
      const text = (pre.textContent ?? '').replace(/^\n/, '').replace(/\n$/, '');
      const language = pre.classList.contains('c-mermaid') ? 'mermaid' : (pre.getAttribute('data-language') ?? '');
      reachable(pre, language ? `Code, ${language}` : 'Code');
      if (pre.classList.contains('c-diff')) drawDiff(pre, text);
      length += text.length;
      const wanted = language === 'mermaid' || (pre.classList.contains('c-code') && language !== '');
      if (!wanted || length > limits.blocks || this.list.length >= limits.blockCount) continue;
      this.list.push({ language: language.slice(0, 40), text });
      this.places.push(pre);
      const fill = before?.known.get(this.keyOf(this.list.length - 1));
      if (fill) this.fill(this.list.length - 1, fill);
    }
  }

  private keyOf(at: number): string {
    return `${this.list[at]?.language}\n${this.list[at]?.text}`;
  }

  fill(at: number, fill: Fill): void {
    const place = this.places[at];
    if (!place) return;
    this.known.set(this.keyOf(at), fill);
    if ('lines' in fill) drawLines(place, fill.lines);
    else if ('svg' in fill) drawPicture(place, fill.svg, fill.width, fill.height);
    else if (!place.previousElementSibling?.matches('.x-problem')) place.before(make('p', 'x-problem', fill.problem));
  }
}

function drawLines(place: HTMLElement, lines: Array<Array<[string, string | null]>>): void {
  const code = document.createElement('code');
  lines.forEach((line, i) => {
    if (i > 0) code.append('\n');
    for (const [text, cls] of line) code.append(cls ? make('span', cls, text) : text);
  });
  place.replaceChildren(code);
}

/** An image runs no script and loads nothing, so the drawing is safe also if the drawer was deceived. */
function drawPicture(place: HTMLElement, svg: string, width: number, height: number): void {
  const image = document.createElement('img');
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  image.width = Math.ceil(width);
  image.height = Math.ceil(height);
  // Texts stay readable: a wide diagram scrolls.
  image.style.minWidth = `${Math.ceil(width * 0.65)}px`;
  const source = place.textContent ?? '';
  image.alt = `Diagram: ${source.trim().split('\n')[0]?.slice(0, 80) ?? ''}`;
  const before = place.closest('.x-diagram')?.querySelector('img');
  if (before) {
    if (before.src !== image.src) before.replaceWith(image);
    return;
  }
  const figure = make('figure', 'x-diagram');
  const box = make('div', 'x-picture');
  reachable(box, 'Diagram');
  box.append(image);
  const details = document.createElement('details');
  details.append(make('summary', '', 'Source of the diagram'));
  place.replaceWith(figure);
  details.append(place);
  figure.append(box, details);
}

const signs: Record<string, [string, string]> = { '+': ['ins', 'x-ins'], '-': ['del', 'x-del'] };

function drawDiff(pre: HTMLElement, text: string): void {
  const code = document.createElement('code');
  for (const line of text.split('\n')) {
    const head = /^(@@|\+\+\+ |--- |diff |index )/.test(line);
    const [tag, cls] = head ? ['span', 'x-head'] : (signs[line.charAt(0)] ?? ['span', 'x-same']);
    const row = make(tag, cls);
    // The sign is a text of its own, with a colour of its own.
    row.append(make('span', 'x-sign', head ? '' : line.charAt(0)), `${head ? line : line.slice(1)}\n`);
    code.append(row);
  }
  pre.replaceChildren(code);
  pre.setAttribute('aria-label', 'Changes');
}
