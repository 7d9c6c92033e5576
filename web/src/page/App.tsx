// The page: header, sessions, chat, right side, and how they are arranged at each width.
import { useSignalEffect } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { typesInFiles, useKeys } from '../base/keys';
import { useWidth } from '../base/signals';
import { copyText } from '../chat/Chat';
import type { Store, Topic } from '../link/store';
import { useTopic } from '../link/use';
import { Split } from '../parts/Split';
import { toast } from '../parts/Toast';
import { ChainBar, LostBar } from './Bars';
import { ChatArea, SessionsNav } from './ChatArea';
import { Companion } from './Companion';
import { Drawn } from './Drawn';
import { Header } from './Header';
import { Help } from './Help';
import { BottomTabs } from './BottomTabs';
import { Palette } from './Palette';
import { paletteItems } from './palette-items';
import { goToRegion, moveRegion } from './regions';
import { Shell } from './Shell';
import { Side } from './Side';
import { usePage } from './use-page';
import {
  drawer, layoutOf, narrowTab, openSelect, overlay, showFile, showSide, sideShown, sideTab, sideWidth,
} from './view';

export function App({ store }: { store: Store }) {
  return <Shell store={store} starting="Connecting to Conductor…"><Page store={store} /></Shell>;
}

function Page({ store }: { store: Store }) {
  const page = usePage(store);
  const { features, chain, chainTopic, sessions, actions, findFiles } = page;
  const companion = features?.chat === false;
  const filesTopic = useTopic(store, 'files');
  const panels = page.panels.length;
  const edits = page.edits.length;
  const layout = layoutOf(useWidth());

  useRequests(page.panelsTopic, filesTopic, companion);
  usePageKeys();
  useFirstFocus(companion ? null : page.session);

  const shared = (
    <>
      {overlay.value === 'help' && <Help chat={!companion} onClose={() => (overlay.value = null)} />}
      {overlay.value === 'palette' && (
        <Palette items={paletteItems({ sessions, chat: !companion, actions })} findFiles={findFiles} onFile={showFile}
          onClose={() => (overlay.value = null)} />
      )}
    </>
  );
  const header = (
    <Header title={features?.title ?? ''} chain={chain} link={store.state.value} layout={layout} companion={companion}
      panels={panels} sideShown={sideShown.value} onSessions={() => (drawer.value = 'sessions')} onSide={showSide}
      onToggleSide={() => (sideShown.value = !sideShown.value)} onHelp={() => (overlay.value = 'help')}
      onPalette={() => (overlay.value = 'palette')} />
  );
  const bars = (
    <>
      <LostBar state={store.state.value} retryAt={store.retryAt.value} onRetry={() => store.retryNow()} />
      {chain && <ChainBar chain={chain} onCopy={copyText} />}
    </>
  );
  const frame = { class: 'page', 'data-layout': layout, 'data-state': store.state.value };
  if (companion) {
    return (
      <div {...frame}>
        {header}{bars}
        <Companion store={store} chain={chainTopic} layout={layout} panels={panels} edits={edits} />
        {shared}
      </div>
    );
  }

  const wide = layout === 'wide';
  const narrow = layout === 'narrow';
  const inDrawer = wide ? null : drawer.value;
  const chatHidden = narrow && narrowTab.value !== 'chat';
  const side = wide ? sideShown.value : narrow ? narrowTab.value !== 'chat' : inDrawer === 'side';
  // On a narrow page the view is the main part.
  const SideTag = narrow ? 'main' : 'aside';
  const tab = narrow && narrowTab.value !== 'chat' ? narrowTab.value : sideTab.value;
  return (
    <div {...frame}>
      {chain?.state !== 'login' && !chatHidden && (
        <a class="skip" href="#composer" onClick={(event) => {
          event.preventDefault();
          goToRegion('composer');
        }}>Go to the composer</a>
      )}
      {header}{bars}
      <div class="body">
        <SessionsNav page={page} drawer={!wide} open={inDrawer === 'sessions'} />
        <ChatArea page={page} hidden={chatHidden} inert={inDrawer !== null} active={!chatHidden && inDrawer === null}
          onFile={showFile} onReview={() => showSide('files')} />
        <Drawn name="side" open={inDrawer === 'side'}>
          <SideTag class={`side${layout === 'medium' ? ' drawer right' : ''}`} aria-label="Files, panels and log"
            data-region="side" hidden={!side} style={wide ? { width: `${sideWidth.value}px` } : { width: '' }}>
            {wide && (
              <Split label="Width of the right side" width={sideWidth.value} min={300}
                max={Math.max(300, innerWidth - 620)} onWidth={(width) => (sideWidth.value = width)} />
            )}
            <Side store={store} chain={chainTopic} tab={tab} panels={panels} edits={edits} tabs={!narrow} visible={side}
              onTab={(next) => (sideTab.value = next)}
              onClose={layout === 'medium' ? () => (drawer.value = null) : undefined} />
          </SideTag>
        </Drawn>
        {inDrawer !== null && <div class="scrim" onClick={() => (drawer.value = null)} />}
      </div>
      {narrow && (
        <BottomTabs current={narrowTab.value} panels={panels} edits={edits}
          asks={sessions.some(([, one]) => one.state === 'asks')} onTab={(next) => {
            narrowTab.value = next;
            if (next !== 'chat') sideTab.value = next;
          }} />
      )}
      {shared}
    </div>
  );
}

/** Components bring panels to the front and open files. */
function useRequests(panels: Topic, files: Topic, companion: boolean): void {
  const front = useRef(0);
  const version = useRef<number | null>(null);
  useSignalEffect(() => {
    let highest = 0;
    for (const [, entry] of panels.entries.value) if (entry.kind === 'panel') highest = Math.max(highest, entry.front);
    const isNew = highest > front.current;
    front.current = highest;
    // A reply that is being written stays in view.
    if (!isNew || typesInFiles()) return;
    if (companion) {
      sideTab.value = 'panels';
      narrowTab.value = 'panels';
    } else if (layoutOf(innerWidth) === 'wide') showSide('panels');
    // Otherwise a drawer would cover the chat.
  });
  useSignalEffect(() => {
    if (!files.loaded.value) return;
    const entry = files.get('/open').value;
    const next = entry?.kind === 'openFile' ? entry.version : 0;
    // What was asked for before this page was opened is old.
    if (version.current !== null && entry?.kind === 'openFile' && next > version.current) {
      if (typesInFiles()) toast('ok', `A component wants to show ${entry.path}.`);
      else showFile(entry.path, entry.line ?? undefined);
    }
    version.current = next;
  });
}

/** The person begins to write at once. On a touch screen, a keyboard would cover half of the page. */
function useFirstFocus(session: string | null): void {
  const done = useRef(false);
  useEffect(() => {
    if (done.current || session === null) return;
    done.current = true;
    const isFree = document.activeElement === null || document.activeElement === document.body;
    if (isFree && matchMedia('(hover: hover)').matches) goToRegion('composer');
  }, [session]);
}

function usePageKeys(): void {
  const toRegion = (name: string) => {
    const layout = layoutOf(innerWidth);
    if (layout === 'narrow') narrowTab.value = name === 'side' ? sideTab.value : 'chat';
    if (layout !== 'wide' && name === 'sessions') drawer.value = 'sessions';
    else if (layout === 'medium') drawer.value = name === 'side' ? 'side' : null;
    else if (layout === 'wide' && name === 'side') sideShown.value = true;
    requestAnimationFrame(() => goToRegion(name));
  };
  const select = (id: string) => (openSelect.value = { id, count: openSelect.value.count + 1 });
  useKeys('page', {
    'Ctrl+K': () => void (overlay.value = 'palette'),
    '?': () => void (overlay.value = 'help'),
    F6: () => moveRegion(1),
    'Shift+F6': () => moveRegion(-1),
    'Alt+1': () => toRegion('sessions'),
    'Alt+2': () => toRegion('conversation'),
    'Alt+3': () => toRegion('composer'),
    'Alt+4': () => toRegion('side'),
    'Alt+M': () => void select('mode'),
    'Alt+L': () => void select('model'),
    Escape: () => {
      if (drawer.value === null) return false;
      drawer.value = null;
      return undefined;
    },
  });
}
