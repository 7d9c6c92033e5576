// The list of sessions: those that are open, and earlier ones that can be loaded.
import { useEffect, useRef } from 'preact/hooks';
import { rescueFocus } from '../base/focus';
import { ago } from '../base/format';
import { own } from '../base/own';
import { useNow } from '../base/signals';
import type { Session } from 'acp-conductor-client/link';
import { Button } from '../parts/Button';
import { Icon, type IconName } from '../parts/Icon';

export interface SessionsProps {
  sessions: ReadonlyArray<readonly [string, Session]>;
  current: string | null;
  canLoad: boolean;
  disabled: string | false;
  onNew: () => void;
  onOpen: (id: string) => void;
  onClose: (id: string) => void;
  onRefresh: () => void;
}

const marks: Record<string, { icon: IconName; word: string; cls: string }> = {
  running: { icon: 'circle-dot', word: 'running', cls: 'is-accent' },
  asks: { icon: 'circle-question-mark', word: 'asks', cls: 'is-warn' },
  failed: { icon: 'circle-x', word: 'failed', cls: 'is-err' },
  loading: { icon: 'clock', word: 'loading', cls: 'muted' },
};

export function Sessions(props: SessionsProps) {
  const now = useNow(true, 60_000);
  const newest = [...props.sessions].sort(([, a], [, b]) => b.time - a.time);
  const open = newest.filter(([, session]) => session.state !== 'saved');
  const saved = newest.filter(([, session]) => session.state === 'saved');
  const list = useRef<HTMLDivElement>(null);
  const closed = useRef(false);
  useEffect(() => {
    if (closed.current) rescueFocus(list.current?.parentElement ?? null, '.session-open', '.new-session');
    closed.current = false;
  }, [open.length]);
  const close = (id: string) => {
    closed.current = true;
    props.onClose(id);
  };
  const item = ([id, session]: readonly [string, Session]) => (
    <Item key={id} session={session} current={id === props.current} now={now} disabled={props.disabled}
      onOpen={() => props.onOpen(id)} onClose={session.state === 'saved' ? undefined : () => close(id)} />
  );
  return (
    <>
      <div class="sessions-head">
        <h2>Sessions</h2>
        <Button icon="plus" kind="plain" class="new-session" disabled={props.disabled} onClick={props.onNew}>New</Button>
      </div>
      <div ref={list} class="sessions-list">
        {open.length > 0 && <ul role="list">{open.map(item)}</ul>}
        {!open.length && !saved.length && <p class="muted small sessions-empty">No sessions yet.</p>}
        {(saved.length > 0 || props.canLoad) && (
          <>
            <div class="sessions-group">
              <h3 class="small muted">Earlier</h3>
              {props.canLoad && (
                <Button kind="plain" icon="refresh-cw" label="Look for earlier sessions" disabled={props.disabled}
                  onClick={props.onRefresh} />
              )}
            </div>
            {saved.length > 0 ? <ul role="list">{saved.map(item)}</ul>
              : <p class="muted small sessions-empty">None found.</p>}
          </>
        )}
      </div>
    </>
  );
}

function Item(props: {
  session: Session; current: boolean; now: number; disabled: string | false; onOpen: () => void;
  onClose: (() => void) | undefined;
}) {
  const { session } = props;
  const mark = own(marks, session.state);
  const title = session.title || 'New session';
  return (
    <li class={`session${props.current ? ' current' : ''}`} data-session-state={session.state}>
      <button type="button" class="session-open" aria-current={props.current ? 'true' : undefined} onClick={props.onOpen}>
        <span class="session-title cut" title={title}>{title}</span>
        <span class="session-line small muted">
          {mark && <span class={`session-mark ${mark.cls}`}><Icon name={mark.icon} size={12} />{mark.word}</span>}
          <span class="num">{session.time > 0 ? ago(session.time, props.now) : ''}</span>
        </span>
      </button>
      {props.onClose && (
        <Button kind="plain" icon="x" class="session-close" label={`Close ${title}`} disabled={props.disabled}
          onClick={props.onClose} />
      )}
    </li>
  );
}
