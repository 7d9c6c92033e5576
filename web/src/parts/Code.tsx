// A block of code: language, copy button. Long lines scroll inside.
import { Fragment } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import '../style/code.css';
import { say } from '../base/live';
import { Button } from './Button';
import { highlight, knownLanguage, languageOf, plainLines, type Line } from './highlight';

export { highlight, type Line } from './highlight';

export interface CodeProps {
  text: string;
  language?: string | undefined;
  /** A file name: it is shown, and its ending tells the language. */
  file?: string | undefined;
  /** More text comes: not highlighted yet. */
  open?: boolean | undefined;
}

export function Code(props: CodeProps) {
  const text = props.text.endsWith('\n') ? props.text.slice(0, -1) : props.text;
  const language = props.language || (props.file ? languageOf(props.file) : null) || '';
  const lines = useHighlighted(text, language, props.open === true);
  const name = props.file ?? (language || 'text');
  return (
    <div class="code-block">
      <div class="code-head">
        <span class="code-name">{name}</span>
        <CopyButton text={text} />
      </div>
      <pre class="code" tabIndex={0} role="group" aria-label={`Code, ${name}`}>
        <code>{lines.map((line, i) => <Fragment key={i}><Pieces line={line} />{'\n'}</Fragment>)}</code>
      </pre>
    </div>
  );
}

/** The pieces of one line. */
export function Pieces(props: { line: Line }) {
  return <>{props.line.map((piece) => (piece.cls ? <span class={piece.cls}>{piece.text}</span> : piece.text))}</>;
}

export function CopyButton(props: { text: string }) {
  const [done, setDone] = useState('');
  useEffect(() => {
    if (!done) return undefined;
    const timer = setTimeout(() => setDone(''), 2000);
    return () => clearTimeout(timer);
  }, [done]);
  const copy = async () => {
    let result = 'Copied';
    await navigator.clipboard.writeText(props.text).catch(() => (result = 'Not copied'));
    setDone(result);
    say(result);
  };
  return (
    <Button kind="plain" class="copy" icon={done === 'Copied' ? 'check' : 'copy'} onClick={copy}>
      {done || 'Copy'}
    </Button>
  );
}

/** A text of this length is highlighted before it is shown. A longer one is shown first. */
const atOnce = 16 * 1024;

/** The highlighted lines. A long text is plain first, and is highlighted when the page has time. */
export function useHighlighted(text: string, language: string, open = false): Line[] {
  const now = open || knownLanguage(language) === null || text.length <= atOnce;
  const first = useMemo(
    () => (now && !open ? highlight(text, language) : plainLines(text)),
    [text, language, now, open],
  );
  const [later, setLater] = useState<{ of: Line[]; lines: Line[] } | null>(null);
  useEffect(() => {
    if (now) return undefined;
    return whenIdle(() => setLater({ of: first, lines: highlight(text, language) }));
  }, [first, now]);
  return later?.of === first ? later.lines : first;
}

function whenIdle(run: () => void): () => void {
  if ('requestIdleCallback' in globalThis) {
    const id = requestIdleCallback(run, { timeout: 1000 });
    return () => cancelIdleCallback(id);
  }
  const id = setTimeout(run, 50);
  return () => clearTimeout(id);
}
