// A row of tabs as in the ARIA Authoring Practices: one tab stop, arrows move, the shown tab follows the focus.
import type { ComponentChildren } from 'preact';
import { useRef } from 'preact/hooks';

export interface Tab {
  id: string;
  label: string;
  /** A number beside the label, such as open questions. Zero is not shown. */
  count?: number;
  countLabel?: string;
  icon?: ComponentChildren;
}

export function Tabs(props: {
  label: string;
  tabs: readonly Tab[];
  current: string;
  /** The ids of the tabs and of what they show begin with it. */
  prefix: string;
  class?: string;
  onSelect: (id: string) => void;
}) {
  const list = useRef<HTMLDivElement>(null);
  const move = (to: number) => {
    const tab = props.tabs[(to + props.tabs.length) % props.tabs.length];
    if (!tab) return;
    props.onSelect(tab.id);
    list.current?.querySelector<HTMLElement>(`#${props.prefix}-tab-${CSS.escape(tab.id)}`)?.focus();
  };
  const at = props.tabs.findIndex((tab) => tab.id === props.current);
  return (
    <div ref={list} role="tablist" aria-label={props.label} class={`tabs ${props.class ?? ''}`}
      onKeyDown={(event) => {
        if (event.altKey || event.ctrlKey || event.metaKey) return;
        const to = event.key === 'ArrowRight' ? at + 1 : event.key === 'ArrowLeft' ? at - 1
          : event.key === 'Home' ? 0 : event.key === 'End' ? props.tabs.length - 1 : null;
        if (to === null) return;
        event.preventDefault();
        move(to);
      }}>
      {props.tabs.map((tab) => (
        <button type="button" role="tab" key={tab.id} class="tab" id={`${props.prefix}-tab-${tab.id}`}
          aria-selected={tab.id === props.current} aria-controls={`${props.prefix}-view-${tab.id}`}
          tabIndex={tab.id === props.current ? 0 : -1} onClick={() => props.onSelect(tab.id)}>
          {tab.icon}
          <span>{tab.label}</span>
          {!!tab.count && (
            <span class="badge">
              {tab.count}
              {tab.countLabel && <span class="hidden-text"> {tab.countLabel}</span>}
            </span>
          )}
        </button>
      ))}
    </div>
  );
}
