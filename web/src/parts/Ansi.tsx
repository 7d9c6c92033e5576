// The output of a terminal, with its colours.
import { useMemo } from 'preact/hooks';
import '../style/code.css';
import { ansiSpans } from './ansi-spans';

export function Ansi(props: { text: string }) {
  const spans = useMemo(() => ansiSpans(props.text), [props.text]);
  return (
    <pre class="ansi" tabIndex={0} role="group" aria-label="Output">
      {spans.map((span) => (span.cls ? <span class={span.cls}>{span.text}</span> : span.text))}
    </pre>
  );
}
