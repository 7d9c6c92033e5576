// The conversation of one session: rows, "Show earlier", and the end that the view follows.
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { useAfter } from '../base/signals';
import { useKeys } from '../base/keys';
import type { Topic } from '../link/store';
import { Button } from '../parts/Button';
import { Guarded } from '../parts/Guarded';
import { Icon } from '../parts/Icon';
import { asMarkdown } from './model';
import { usePlace, type KeptPlace } from './place';
import { Row, type RowActions } from './Rows';

/** All but so many rows are behind "Show earlier". */
const shownRows = 200;

export function Conversation(props: {
  topic: Topic;
  place?: KeptPlace | undefined;
  rows: readonly string[];
  loading: boolean;
  running: boolean;
  actions: RowActions;
  empty: preact.ComponentChildren;
}) {
  const { rows, topic } = props;
  const box = useRef<HTMLDivElement>(null);
  const inner = useRef<HTMLDivElement>(null);
  const [limit, setLimit] = useState(shownRows);
  const [follows, setFollows] = useState(true);
  const following = useRef(true);
  const lastSet = useRef(0);
  const slow = useAfter(props.loading, 150);

  const toEnd = () => {
    const element = box.current;
    if (!element) return;
    element.scrollTop = element.scrollHeight;
    lastSet.current = element.scrollTop;
  };
  const follow = (on: boolean) => {
    following.current = on;
    setFollows(on);
    if (on) toEnd();
  };

  const notePlace = usePlace(props.place, rows, box, following, (row) => {
    setFollows(false);
    setLimit((most) => Math.max(most, rows.length - rows.indexOf(row) + 20));
  });

  // Whatever makes the rows higher or the view smaller, the end stays in view.
  useEffect(() => {
    const observer = new ResizeObserver(() => {
      if (following.current) toEnd();
      notePlace();
    });
    if (inner.current) observer.observe(inner.current);
    if (box.current) observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (following.current) toEnd();
  }, [rows]);

  const articles = () => [...(inner.current?.querySelectorAll<HTMLElement>('article') ?? [])];
  const walk = (step: number) => {
    const all = articles();
    const at = all.findIndex((article) => article.contains(document.activeElement));
    const next = at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + step));
    all[next]?.focus();
  };
  const focused = () => articles().find((article) => article.contains(document.activeElement));
  useKeys(box, {
    j: () => walk(1),
    k: () => walk(-1),
    o: () => focused()?.querySelector<HTMLElement>('[data-toggle]')?.click(),
    Enter: (event) => {
      if (!(event.target instanceof HTMLElement) || event.target.tagName !== 'ARTICLE') return false;
      event.target.querySelector<HTMLElement>('[data-toggle]')?.click();
      return undefined;
    },
    c: () => {
      const entry = topic.get(focused()?.dataset['id'] ?? '').peek();
      if (!entry) return false;
      props.actions.onCopy(asMarkdown(entry));
      return undefined;
    },
    End: () => {
      follow(true);
      articles().at(-1)?.focus({ preventScroll: true });
    },
  });

  const first = Math.max(0, rows.length - limit);
  return (
    <div class="conversation-place">
      <div ref={box} class="conversation" role="log" aria-live="off" aria-label="Conversation" tabIndex={0}
        data-following={follows ? 'true' : 'false'}
        onScroll={(event) => {
          const element = event.currentTarget;
          const atEnd = element.scrollHeight - element.clientHeight - element.scrollTop < 24;
          if (atEnd && !following.current) follow(true);
          else if (!atEnd && following.current && element.scrollTop < lastSet.current - 4) {
            following.current = false;
            setFollows(false);
          }
          notePlace();
        }}>
        <div ref={inner} class="column">
          {first > 0 && (
            <p class="earlier">
              <Button icon="arrow-up" onClick={() => {
                following.current = false;
                setFollows(false);
                const before = box.current ? box.current.scrollHeight - box.current.scrollTop : 0;
                setLimit(limit + shownRows);
                requestAnimationFrame(() => {
                  if (box.current) box.current.scrollTop = box.current.scrollHeight - before;
                });
              }}>
                Show earlier ({first})
              </Button>
            </p>
          )}
          {rows.slice(first).map((id) => (
            <Guarded key={id} instead={<p class="row small muted" data-failed><Icon name="info" /> This entry cannot be shown.</p>}>
              <Row id={id} topic={topic} actions={props.actions} />
            </Guarded>
          ))}
          {!rows.length && (props.loading ? slow && <p class="muted loading">Loading session…</p> : props.empty)}
          {props.running && <p class="working small muted" data-working>The agent is working<span class="caret" /></p>}
        </div>
      </div>
      {!follows && (
        <div class="jump">
          <Button icon="arrow-down" onClick={() => follow(true)}>Jump to latest</Button>
        </div>
      )}
    </div>
  );
}
