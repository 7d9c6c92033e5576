// What is selected in the text of a file, as lines and columns. Columns count characters, from 1.

export type Selected = [number, number, number, number];

/** The selection inside of this element, or null if there is none. */
export function selectionIn(view: HTMLElement): Selected | null {
  const selection = document.getSelection();
  if (!selection || selection.rangeCount === 0 || selection.isCollapsed) return null;
  const range = selection.getRangeAt(0);
  if (!view.contains(range.commonAncestorContainer)) return null;
  const start = placeOf(range.startContainer, range.startOffset);
  const end = placeOf(range.endContainer, range.endOffset);
  if (!start || !end || (start[0] === end[0] && start[1] === end[1])) return null;
  return [...start, ...end];
}

function placeOf(node: Node, offset: number): [number, number] | null {
  const element = node instanceof Element ? node : node.parentElement;
  let row = element?.closest<HTMLElement>('[data-row]') ?? null;
  if (!row) {
    // The end of a selection of whole lines is often before the next row, in the element around the rows.
    const next = element?.childNodes[offset];
    row = next instanceof HTMLElement ? next.closest<HTMLElement>('[data-row]') : null;
    return row ? [Number(row.dataset.row), 1] : null;
  }
  const line = Number(row.dataset.row);
  const code = row.querySelector('code');
  if (!code || !(code === node || code.contains(node))) return [line, 1];
  const before = document.createRange();
  before.setStart(code, 0);
  before.setEnd(node, offset);
  const text = before.toString();
  return [line, [...text.replace(/\n$/, '')].length + 1];
}

/** Selects whole lines, as a click on their numbers does. */
export function selectLines(view: HTMLElement, from: number, to: number): void {
  const code = (line: number) => view.querySelector(`[data-row="${line}"] code`);
  const [first, last] = [code(Math.min(from, to)), code(Math.max(from, to))];
  if (!first || !last) return;
  const range = document.createRange();
  range.setStart(first, 0);
  range.setEnd(last, last.childNodes.length);
  const selection = document.getSelection();
  selection?.removeAllRanges();
  selection?.addRange(range);
}
