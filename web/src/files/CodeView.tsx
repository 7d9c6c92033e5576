// The text of a file: numbers, colours, comment threads between the lines. Of a long file, only what is near is in the page.
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { countMarked } from '../base/suspicious';
import { Icon } from '../parts/Icon';
import { useHighlighted } from '../parts/Code';
import { languageOf, type Line } from '../parts/highlight';
import { drawMarked, MarkedNote } from '../parts/Marked';
import { blocksOf, countLines, longestLine, type Block } from './blocks';
import type { Target } from './model';
import { selectionIn, selectLines, type Selected } from './selection';
import { markRange, placeText, rangeInLine, type PlacedThread } from './threads';

/** The height of a line in files.css. */
const lineHeight = 20;
/** A file with more lines is not in the page as a whole. */
const longFile = 2000;

export interface CodeViewProps {
  path: string;
  text: string;
  threads: readonly PlacedThread[];
  /** The thread that was chosen last. */
  current: string | null;
  target: Target | null;
  /** Whether the target of this version was not reached before. */
  reach: (version: number) => boolean;
  /** Where the file was scrolled to when it was shown before. */
  scroll: { get: () => number; set: (top: number) => void };
  card: (placed: PlacedThread, orphaned: boolean) => ComponentChildren;
  onSelection: (selection: Selected | null) => void;
  onThread: (id: string) => void;
}

export function CodeView(props: CodeViewProps) {
  const { text } = props;
  const box = useRef<HTMLDivElement>(null);
  const lines = useHighlighted(text, languageOf(props.path) ?? '');
  const count = useMemo(() => countLines(text), [text]);
  const widest = useMemo(() => (count > longFile ? longestLine(text) : 0), [text, count]);
  const found = useMemo(() => countMarked(text), [text]);
  const { blocks, orphaned } = useMemo(() => blocksOf(count, props.threads), [count, props.threads]);
  const [marked, setMarked] = useState<number | null>(null);
  const anchor = useRef(1);
  useSelection(box, props.onSelection);

  useLayoutEffect(() => {
    const view = box.current;
    if (view) view.scrollTop = props.scroll.get();
    return () => props.scroll.set(view?.scrollTop ?? 0);
  }, []);

  useEffect(() => {
    const view = box.current;
    if (!view || !props.target || !props.reach(props.target.version)) return;
    const { line, thread } = props.target;
    if (thread !== null) {
      const card = view.querySelector<HTMLElement>(`[data-thread="${CSS.escape(thread)}"]`);
      card?.scrollIntoView({ block: 'center' });
      card?.focus({ preventScroll: true });
    } else if (line !== null) {
      setMarked(line);
      view.scrollTop = topOf(view, Math.min(line, count)) - Math.max(40, view.clientHeight / 3);
    }
  }, [props.target?.version]);

  const onNumber = (event: MouseEvent) => {
    const number = event.target instanceof HTMLElement && event.target.closest('.line-number');
    const row = number && number.closest<HTMLElement>('[data-row]');
    if (!row || !box.current) return;
    const line = Number(row.dataset.row);
    if (!event.shiftKey) anchor.current = line;
    selectLines(box.current, anchor.current, line);
  };

  return (
    <div ref={box} class="code-view" tabIndex={0} role="group" aria-label={`Text of ${props.path}`} onClick={onNumber}
      style={{ '--digits': String(Math.max(3, String(count).length)) }}>
      <MarkedNote found={found} />
      <div class="code-body" style={widest ? { minWidth: `max(100%, calc(${widest + 2}ch + 96px))` } : {}}>
        {blocks.map((block) => (block.kind === 'thread'
          ? <div class="thread-place" key={`thread:${block.placed.id}`}>{props.card(block.placed, false)}</div>
          : <Lines key={`lines:${block.from}`} block={block} lines={lines} threads={props.threads} current={props.current}
            marked={marked !== null && marked >= block.from && marked <= block.to ? marked : null}
            lazy={count > longFile} view={box} onThread={props.onThread} />))}
        {count === 0 && <p class="files-note muted">The file is empty.</p>}
        {orphaned.map((placed) => <div class="thread-place" key={`thread:${placed.id}`}>{props.card(placed, true)}</div>)}
      </div>
    </div>
  );
}

/** The position of a line. Blocks that are not in the page have their height nevertheless. */
function topOf(view: HTMLElement, line: number): number {
  for (const block of view.querySelectorAll<HTMLElement>('.lines')) {
    const [from, to] = [Number(block.dataset.from), Number(block.dataset.to)];
    if (line >= from && line <= to) return block.offsetTop + (line - from) * lineHeight;
  }
  return 0;
}

function useSelection(box: { current: HTMLElement | null }, onSelection: (selection: Selected | null) => void): void {
  const report = useRef(onSelection);
  report.current = onSelection;
  useEffect(() => {
    let frame = 0;
    const listen = () => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(() => {
        if (box.current) report.current(selectionIn(box.current));
      });
    };
    document.addEventListener('selectionchange', listen);
    return () => {
      cancelAnimationFrame(frame);
      document.removeEventListener('selectionchange', listen);
    };
  }, []);
}

interface LinesProps {
  block: Extract<Block, { kind: 'lines' }>;
  lines: readonly Line[];
  threads: readonly PlacedThread[];
  current: string | null;
  marked: number | null;
  lazy: boolean;
  view: { current: HTMLElement | null };
  onThread: (id: string) => void;
}

function Lines(props: LinesProps) {
  const { from, to } = props.block;
  const place = useRef<HTMLDivElement>(null);
  const [near, setNear] = useState(!props.lazy);
  useEffect(() => {
    if (!props.lazy) {
      setNear(true);
      return undefined;
    }
    const observer = new IntersectionObserver((seen) => setNear(seen.some((it) => it.isIntersecting)),
      { root: props.view.current, rootMargin: '1200px 0px' });
    if (place.current) observer.observe(place.current);
    return () => observer.disconnect();
  }, [props.lazy]);
  const touching = props.threads.filter((it) => it.thread.line <= to && it.thread.endLine >= from);
  // The same elements again, if nothing has changed: a file has many lines.
  const key = `${touching.map((it) => `${it.id} ${it.thread.line} ${it.thread.endLine} ${it.thread.column} ${it.thread.endColumn}`).join()} ${touching.some((it) => it.id === props.current) ? props.current : ''}`;
  const rows = useMemo(() => {
    if (!near) return null;
    const rows = [];
    for (let line = from; line <= to; line++) {
      rows.push(<Row key={line} line={line} pieces={props.lines[line - 1] ?? []} target={line === props.marked}
        threads={touching.filter((it) => it.thread.line <= line && it.thread.endLine >= line)} current={props.current}
        last={props.lines.length} onThread={props.onThread} />);
    }
    return rows;
  }, [near, from, to, props.lines, props.marked, key]);
  return (
    <div ref={place} class="lines" data-from={from} data-to={to} style={near ? { height: '' } : { height: `${(to - from + 1) * lineHeight}px` }}>
      {rows}
    </div>
  );
}

function Row(props: {
  line: number;
  pieces: Line;
  target: boolean;
  threads: readonly PlacedThread[];
  current: string | null;
  last: number;
  onThread: (id: string) => void;
}) {
  const { line, threads } = props;
  const partial = threads.map((it) => rangeInLine(it.thread, line)).find((range) => range !== null);
  const whole = threads.some((it) => rangeInLine(it.thread, line) === null);
  const ends = threads.find((it) => Math.min(it.thread.endLine, props.last) === line);
  const cls = `line${props.target ? ' target' : ''}${threads.length ? ' in-range' : ''}${whole ? ' whole' : ''}`
    + `${threads.some((it) => it.id === props.current) ? ' current' : ''}`;
  return (
    <div class={cls} data-row={line}>
      <span class="line-gutter">
        {ends && (
          <button type="button" class="line-mark" aria-label={`Go to the comment on ${placeText(ends.thread)}`}
            onClick={() => props.onThread(ends.id)}><Icon name="message-square" size={14} /></button>
        )}
        <span class="line-number" data-number={line} aria-hidden="true" />
      </span>
      <code class="line-code">
        {(partial ? markRange(props.pieces, partial) : props.pieces).map((piece) => {
          const marked = 'marked' in piece && piece.marked === true;
          return piece.cls || marked
            ? <span class={`${piece.cls ?? ''}${marked ? ' range' : ''}`}>{drawMarked(piece.text)}</span> : drawMarked(piece.text);
        })}
        {'\n'}
      </code>
    </div>
  );
}
