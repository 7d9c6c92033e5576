// All panels: a tab for each, the newest in front, a button that closes the shown one.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import '../style/panels.css';
import { rescueFocus } from '../base/focus';
import { say } from '../base/live';
import { colours, themeTokens } from '../base/theme';
import type { Store } from '../link/store';
import type { Entry } from 'acp-conductor-client/link';
import { Button } from '../parts/Button';
import { Dialog } from '../parts/Dialog';
import { Icon } from '../parts/Icon';
import { Tabs } from '../parts/Tabs';
import { PanelHost } from './PanelHost';

export interface PanelsProps {
  store: Store;
  onFile(path: string, line?: number): void;
  visible: boolean;
}

type Panel = Extract<Entry, { kind: 'panel' }> & { id: string };

/** Frames of panels that are not shown keep their state, but not more than these. */
const mostFrames = 8;

export function Panels(props: PanelsProps) {
  const { store } = props;
  const topic = useMemo(() => store.topic('panels'), [store]);
  useEffect(() => () => topic.release(), [topic]);
  const panels: Panel[] = [];
  for (const [id, entry] of topic.entries.value) if (entry.kind === 'panel') {
    panels.push({ ...entry, id, label: entry.label.trim() || id || 'Panel' });
  }
  const names = useNames();
  const [current, setCurrent] = useCurrent(panels);
  const opened = useOpened(panels, current, props.visible);
  const [link, setLink] = useState<string | null>(null);
  const vars = useMemo(() => themeTokens(), [colours.value]);

  const tab = current === null ? '' : `panel-tab-${names(current)}`;
  useEffect(() => document.getElementById(tab)?.scrollIntoView({ block: 'nearest', inline: 'nearest' }), [tab]);

  const closed = useRef(false);
  useEffect(() => {
    if (closed.current) rescueFocus(document, '.panels [role="tab"][aria-selected="true"]', '#side-tab-panels', '.header button');
    closed.current = false;
  }, [panels.length]);

  if (panels.length === 0) return topic.loaded.value ? <Empty /> : null;
  const shown = panels.find((panel) => panel.id === current) ?? panels[0]!;
  const close = () => {
    closed.current = true;
    store.do({ op: 'closePanel', panel: shown.id }).catch(() => undefined);
  };
  return (
    <div class="panels" onKeyDown={(event) => {
      const onTab = event.target instanceof Element && event.target.getAttribute('role') === 'tab';
      if (event.key === 'Delete' && onTab) close();
    }}>
      <div class="panels-bar">
        <Tabs label="Panels" prefix="panel" current={names(shown.id)} class="panels-tabs"
          tabs={panels.map((panel) => ({ id: names(panel.id), label: panel.label }))}
          onSelect={(name) => setCurrent(panels.find((panel) => names(panel.id) === name)?.id ?? null)} />
        <Button kind="plain" icon="x" label={`Close panel ${shown.label}`} onClick={close} />
      </div>
      {inStableOrder(panels, names).map((panel) => (
        <div key={panel.id} class="panel-view" role="tabpanel" id={`panel-view-${names(panel.id)}`}
          aria-labelledby={`panel-tab-${names(panel.id)}`} hidden={panel !== shown}>
          {opened.has(panel.id) && (
            <PanelHost key={panel.id} id={panel.id} label={panel.label} contents={panel.contents} theme={vars}
              onEvent={(widget, event, value, inputs) => {
                store.do({ op: 'panelEvent', panel: panel.id, widget, event, value, inputs })
                  .catch(() => say('The event was not sent.'));
              }}
              onFile={props.onFile} onLink={setLink} />
          )}
        </div>
      ))}
      {link !== null && <AskLink href={link} onClose={() => setLink(null)} />}
    </div>
  );
}

/** Ids of components can be any text. Ids of elements cannot. */
function useNames(): (id: string) => string {
  const names = useRef(new Map<string, string>());
  return (id) => {
    const known = names.current.get(id) ?? String(names.current.size + 1);
    names.current.set(id, known);
    return known;
  };
}

/**
 * In the order in which they were seen first, which never changes: a frame that is moved in the page is loaded again, in
 * browsers without `moveBefore`. The order of the tabs is that of the topic.
 */
function inStableOrder(panels: Panel[], names: (id: string) => string): Panel[] {
  // Gives the new ones their names.
  const numbers = new Map(panels.map((panel) => [panel, Number(names(panel.id))]));
  return panels.toSorted((a, b) => numbers.get(a)! - numbers.get(b)!);
}

/** The panel that is shown: the one that was brought to the front last, or that the user has chosen since then. */
function useCurrent(panels: Panel[]): [string | null, (id: string | null) => void] {
  const [current, setCurrent] = useState<string | null>(null);
  const seen = useRef(-1);
  const front = panels.reduce<Panel | null>((best, panel) => (!best || panel.front > best.front ? panel : best), null);
  useEffect(() => {
    if (!front || front.front <= seen.current) return;
    seen.current = front.front;
    setCurrent(front.id);
  }, [front?.id, front?.front]);
  const known = panels.some((panel) => panel.id === current);
  return [known ? current : (front?.id ?? null), setCurrent];
}

/** The panels that have a frame: those that were shown, the last ones first. */
function useOpened(panels: Panel[], current: string | null, visible: boolean): Set<string> {
  const order = useRef<string[]>([]);
  if (visible && current !== null && order.current[0] !== current) {
    order.current = [current, ...order.current.filter((id) => id !== current)].slice(0, mostFrames);
  }
  return new Set(order.current.filter((id) => panels.some((panel) => panel.id === id)));
}

function Empty() {
  return (
    <div class="panels-empty">
      <Icon name="layout-dashboard" />
      <p>There is no panel yet. Components of the chain show panels here, for example a walkthrough.</p>
    </div>
  );
}

function AskLink(props: { href: string; onClose(): void }) {
  const url = new URL(props.href);
  const open = () => {
    window.open(url.href, '_blank', 'noopener,noreferrer');
    props.onClose();
  };
  return (
    <Dialog title="Open this link?" onClose={props.onClose}>
      <p>The panel wants to open <strong>{url.host || url.pathname}</strong>.</p>
      <p class="panels-address"><code>{url.href}</code></p>
      <p class="panels-actions">
        <Button onClick={props.onClose}>Cancel</Button>
        <Button kind="main" icon="external-link" onClick={open}>Open link</Button>
      </p>
    </Dialog>
  );
}
