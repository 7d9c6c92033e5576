// Shows the HTML of one panel in a sandboxed frame. If anything is wrong with the frame, it is replaced by the text.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { Button } from '../parts/Button';
import { safeAddress } from '../parts/links';
import { limits, type FromFrame, type Inputs } from '../panel-frame/messages';
import { Channel } from './channel';
import { frames } from './frames';
import { Painter } from './painter';

export interface PanelHostProps {
  id: string;
  label: string;
  contents: string;
  theme: Record<string, string>;
  onEvent(widget: string, event: string, value: string | boolean | null, inputs: Inputs | null): void;
  onFile(path: string, line?: number): void;
  onLink(href: string): void;
  /** Keys that are not for the panel, if they are wanted: `F1`, `Ctrl+Shift+P`, `Escape`. */
  onKeys?(keys: string): void;
}

export function PanelHost(props: PanelHostProps) {
  const [problem, setProblem] = useState<{ text: string; retry: boolean } | null>(null);
  if (props.contents.length > limits.html) {
    return <AsText text="This panel is larger than 1 MB." contents={props.contents} />;
  }
  if (problem) {
    const retry = problem.retry ? () => setProblem(null) : undefined;
    return <AsText text={problem.text} contents={props.contents} onRetry={retry} />;
  }
  return <Frame {...props} onProblem={setProblem} />;
}

function Frame(props: PanelHostProps & { onProblem(problem: { text: string; retry: boolean }): void }) {
  const frame = useRef<HTMLIFrameElement>(null);
  const channel = useRef<Channel | null>(null);
  const painter = useRef<Painter | null>(null);
  const [shown, setShown] = useState(false);
  const source = useMemo(() => frames.panel(), []);
  const latest = useRef(props);
  latest.current = props;

  // Before the frame can load.
  useLayoutEffect(() => {
    const made: Channel = new Channel(props.label, {
      message: (message) => {
        if (message.t === 'blocks') painter.current?.paint(message.seq, message.blocks, latest.current.theme);
        else take(message, latest.current, frame.current);
      },
      attack: (reason) => latest.current.onProblem({ text: `This panel was stopped: ${reason}.`, retry: false }),
      silent: () => latest.current.onProblem({ text: 'This panel did not appear in time.', retry: true }),
      shown: () => setShown(true),
    }, props.onKeys !== undefined);
    channel.current = made;
    painter.current = new Painter((seq, at, fill) => made.fill(seq, at, fill));
    return () => made.close();
  }, []);
  useEffect(() => channel.current?.show(props.contents), [props.contents]);
  useEffect(() => {
    channel.current?.theme(props.theme);
    painter.current?.repaint(props.theme);
  }, [props.theme]);

  return (
    <iframe ref={frame} class="panel-frame" title={props.label} data-shown={shown}
      sandbox="allow-scripts" allow="" referrerpolicy="no-referrer"
      onLoad={(event) => channel.current?.loaded(event.currentTarget)} {...source} />
  );
}

function take(message: FromFrame, props: PanelHostProps, frame: HTMLIFrameElement | null): void {
  if (message.t === 'event') props.onEvent(message.widget, message.kind, message.value, message.inputs ?? null);
  else if (message.t === 'open') props.onFile(message.file, message.line ?? undefined);
  else if (message.t === 'link') {
    if (safeAddress(message.href)) props.onLink(message.href);
  } else if (message.t === 'chord') props.onKeys?.(message.keys);
  else if (message.t === 'key' && props.onKeys) props.onKeys(`${message.shift ? 'Shift+' : ''}${message.key}`);
  else if (message.t === 'key') {
    // Keys in a frame do not reach the page by themselves.
    const event = { key: message.key, shiftKey: message.shift, bubbles: true, cancelable: true };
    frame?.dispatchEvent(new KeyboardEvent('keydown', event));
  }
}

const longestText = 200_000;

function AsText(props: { text: string; contents: string; onRetry?: (() => void) | undefined }) {
  const cut = props.contents.length > longestText;
  return (
    <div class="panel-text">
      <p role="alert">{props.text} This is its source{cut ? ', the beginning of it' : ''}.</p>
      {props.onRetry && <Button onClick={props.onRetry}>Try again</Button>}
      <pre tabIndex={0} role="group" aria-label="Source of the panel">{props.contents.slice(0, longestText)}</pre>
    </div>
  );
}
