// The log of the chain: what its components said about themselves.
import { useEffect, useRef } from 'preact/hooks';
import { clockSeconds } from '../base/format';
import { own } from '../base/own';
import type { Entries } from '../link/store';
import { Icon, type IconName } from '../parts/Icon';

const levels: Record<string, { icon: IconName; cls: string }> = {
  error: { icon: 'circle-alert', cls: 'is-err' }, warn: { icon: 'triangle-alert', cls: 'is-warn' },
  info: { icon: 'info', cls: 'muted' }, debug: { icon: 'circle', cls: 'muted' },
};

export function Log(props: { entries: Entries }) {
  const box = useRef<HTMLDivElement>(null);
  const lines = props.entries.flatMap(([id, entry]) => (entry.kind === 'log' ? [{ id, ...entry }] : []));
  const shown = lines.slice(-500);
  useEffect(() => {
    const element = box.current;
    if (element && element.scrollHeight - element.scrollTop - element.clientHeight < 200) {
      element.scrollTop = element.scrollHeight;
    }
  }, [lines.length]);
  if (!lines.length) {
    return <p class="side-empty muted">Components write here what they do. There is nothing yet.</p>;
  }
  return (
    <div ref={box} class="log" role="log" aria-live="off" aria-label="Log" tabIndex={0}>
      {lines.length > shown.length && (
        <p class="small muted log-more">The last {shown.length} of {lines.length} lines.</p>
      )}
      {shown.map((line) => {
        const level = own(levels, line.level) ?? { icon: 'info' as const, cls: 'muted' };
        return (
          <div key={line.id} class="log-line" data-level={line.level}>
            <Icon name={level.icon} class={level.cls} size={14} />
            <span class="hidden-text">{line.level}</span>
            <span class="num muted">{clockSeconds(line.time)}</span>
            <span class="log-text">{line.component && <strong>{line.component} </strong>}{line.text}</span>
          </div>
        );
      })}
    </div>
  );
}
