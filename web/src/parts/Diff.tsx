// The difference of two texts: signs as text, changed words marked, long unchanged parts left out.
import { useMemo, useState } from 'preact/hooks';
import '../style/diff.css';
import { countMarked } from '../base/suspicious';
import { Code } from './Code';
import { compare, parseUnified, type DiffLine, type Hunk } from './diff-lines';
import { highlight, languageOf, type Line, type Piece } from './highlight';
import { drawMarked, MarkedNote } from './Marked';

export { diffStat } from './diff-lines';

/** More lines are shown on demand. */
const firstLines = 400;
/** Longer texts are not highlighted. */
const longestHighlighted = 64 * 1024;

export interface DiffProps {
  /** Null for a new file. */
  old: string | null;
  new: string;
  path?: string | undefined;
}

export function Diff(props: DiffProps) {
  const diff = useMemo(() => compare(props.old ?? '', props.new), [props.old, props.new]);
  const language = props.path ? languageOf(props.path) : null;
  const colours = useMemo(() => {
    if (!language || (props.old ?? '').length + props.new.length > longestHighlighted) return null;
    return { before: highlight(props.old ?? '', language), after: highlight(props.new, language) };
  }, [props.old, props.new, language]);
  if (!diff) {
    return (
      <div class="diff">
        <p class="diff-note">The texts are too long to compare. This is the new text.</p>
        <Code text={props.new} file={props.path} />
      </div>
    );
  }
  if (diff.hunks.length === 0) {
    const ending = (props.old ?? '') !== props.new;
    return <p class="diff-note">{ending ? 'Only the line break at the end differs.' : 'There is no difference.'}</p>;
  }
  const colour = (line: DiffLine) =>
    line.kind === 'del' ? colours?.before[line.before! - 1] : colours?.after[line.after! - 1];
  const label = `Changes${props.path ? ` of ${props.path}` : ''}`;
  return <Hunks hunks={diff.hunks} skipped={diff.skipped} label={label} colour={colour} />;
}

/** A unified diff, such as the output of `git diff`. */
export function UnifiedDiff(props: { text: string }) {
  const files = useMemo(() => parseUnified(props.text), [props.text]);
  if (files.length === 0) return <Code text={props.text} language="diff" />;
  return (
    <>
      {files.map((file, i) => (
        <div key={i}>
          {file.path && <p class="diff-path">{file.path}</p>}
          <Hunks hunks={file.hunks} skipped={0} label={`Changes${file.path ? ` of ${file.path}` : ''}`} />
        </div>
      ))}
    </>
  );
}

interface HunksProps {
  hunks: Hunk[];
  skipped: number;
  label: string;
  colour?: ((line: DiffLine) => Line | undefined) | undefined;
}

function Hunks(props: HunksProps) {
  const [all, setAll] = useState(false);
  // Also those in lines that are not shown yet.
  const found = useMemo(() => props.hunks.reduce((sum, hunk) => (
    sum + hunk.lines.reduce((inner, line) => inner + countMarked(line.text), 0)), 0), [props.hunks]);
  const total = props.hunks.reduce((sum, hunk) => sum + hunk.lines.length, 0);
  let left = all ? Infinity : firstLines;
  return (
    <div class="diff">
      <MarkedNote found={found} />
      <div class="diff-lines" tabIndex={0} role="group" aria-label={props.label}>
        <div class="diff-table">
          {props.hunks.map((hunk, i) => {
            if (left <= 0) return null;
            const lines = hunk.lines.slice(0, left);
            left -= lines.length;
            return (
              <div key={i}>
                {(hunk.skipped > 0 || hunk.title) && <Skipped lines={hunk.skipped} title={hunk.title} />}
                {lines.map((line, j) => <Row key={j} line={line} colour={props.colour?.(line)} />)}
              </div>
            );
          })}
          {left > 0 && props.skipped > 0 && <Skipped lines={props.skipped} title="" />}
        </div>
      </div>
      {left <= 0 && total > firstLines && (
        <button type="button" class="button plain diff-more" onClick={() => setAll(true)}>
          Show all {total.toLocaleString('en')} lines
        </button>
      )}
    </div>
  );
}

function Skipped(props: { lines: number; title: string }) {
  const count = props.lines === 1 ? '1 line not shown' : `${props.lines} lines not shown`;
  return (
    <div class="diff-skip">
      <span>{props.lines > 0 && count}{props.title && <code> {props.title}</code>}</span>
    </div>
  );
}

const signs = { same: ' ', del: '−', ins: '+' };

function Row(props: { line: DiffLine; colour: Line | undefined }) {
  const { line } = props;
  const whole = props.colour?.map((piece) => piece.text).join('') === line.text;
  const pieces: Piece[] = whole && props.colour ? props.colour : [{ text: line.text, cls: null }];
  const text = <>{cutPieces(pieces, line.changed).map(drawPiece)}{'\n'}</>;
  return (
    <div class={`diff-row diff-${line.kind}`}>
      <span class="diff-number" aria-hidden="true" data-line={line.before ?? ''} />
      <span class="diff-number" aria-hidden="true" data-line={line.after ?? ''} />
      <span class="diff-sign">{signs[line.kind]}</span>
      {line.kind === 'ins' ? <ins>{text}</ins> : line.kind === 'del' ? <del>{text}</del> : <span>{text}</span>}
    </div>
  );
}

type CutPiece = Piece & { changed: boolean };

function drawPiece(piece: CutPiece) {
  const cls = [piece.cls, piece.changed ? 'diff-word' : null].filter(Boolean).join(' ');
  return cls ? <span class={cls}>{drawMarked(piece.text)}</span> : drawMarked(piece.text);
}

/** Cuts pieces at the borders of the changed parts. */
export function cutPieces(pieces: Piece[], changed: Array<[number, number]>): CutPiece[] {
  const borders = changed.flat();
  const result: CutPiece[] = [];
  let at = 0;
  for (const piece of pieces) {
    const end = at + piece.text.length;
    const cuts = [at, ...borders.filter((it) => it > at && it < end), end];
    for (let i = 1; i < cuts.length; i++) {
      const [from, to] = [cuts[i - 1]!, cuts[i]!];
      const inside = changed.some(([begin, stop]) => from >= begin && to <= stop);
      if (to > from) result.push({ text: piece.text.slice(from - at, to - at), cls: piece.cls, changed: inside });
    }
    at = end;
  }
  return result;
}
