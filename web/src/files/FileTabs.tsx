// The tabs of the open files and edits: one tab stop, arrows move, Delete or the middle button closes.
import { useLayoutEffect, useRef } from 'preact/hooks';
import { Icon, type IconName } from '../parts/Icon';
import { Marked } from '../parts/Marked';

export interface FileTab {
  id: string;
  name: string;
  /** The whole path, as a tool tip. */
  title: string;
  icon: IconName;
}

export function FileTabs(props: {
  tabs: readonly FileTab[];
  current: string | null;
  onSelect: (id: string) => void;
  onClose: (id: string) => void;
}) {
  const list = useRef<HTMLDivElement>(null);
  const { tabs } = props;
  const at = tabs.findIndex((tab) => tab.id === props.current);
  const focusAfter = useRef(false);

  useLayoutEffect(() => {
    const tab = list.current?.querySelector<HTMLElement>('[aria-selected="true"]');
    tab?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
    if (focusAfter.current) tab?.focus();
    focusAfter.current = false;
  }, [props.current, tabs.length]);

  return (
    <div ref={list} class="file-tabs" role="tablist" aria-label="Open files"
      onKeyDown={(event) => {
        if (event.ctrlKey || event.altKey || event.metaKey || event.shiftKey) return;
        const to = event.key === 'ArrowRight' ? (at + 1) % tabs.length
          : event.key === 'ArrowLeft' ? (at - 1 + tabs.length) % tabs.length
            : event.key === 'Home' ? 0 : event.key === 'End' ? tabs.length - 1 : null;
        const next = to === null ? undefined : tabs[to];
        if (next) {
          focusAfter.current = true;
          props.onSelect(next.id);
        } else if (event.key === 'Delete' && props.current !== null) {
          focusAfter.current = true;
          props.onClose(props.current);
        } else return;
        event.preventDefault();
      }}>
      {tabs.map((tab, i) => (
        <button type="button" role="tab" key={tab.id} class="file-tab" id={`file-tab-${i}`} title={tab.title}
          aria-selected={tab.id === props.current} aria-controls="file-view" tabIndex={tab.id === props.current ? 0 : -1}
          aria-keyshortcuts="Delete"
          onClick={() => props.onSelect(tab.id)}
          onAuxClick={(event) => {
            if (event.button === 1) props.onClose(tab.id);
          }}>
          <Icon name={tab.icon} size={14} />
          <span class="cut"><Marked text={tab.name} /></span>
          <span class="file-tab-close" title={`Close ${tab.name}`} onClick={(event) => {
            event.stopPropagation();
            props.onClose(tab.id);
          }}>
            <Icon name="x" size={14} />
          </span>
        </button>
      ))}
    </div>
  );
}
