// The chat in VS Code: one column, for a side bar and for a tab. VS Code shows files, changes, panels and the log.
import { useEffect, useState } from 'preact/hooks';
import type { FileDiff } from 'acp-conductor-client/link';
import { useKeys } from '../base/keys';
import { useWidth } from '../base/signals';
import { copyText } from '../chat/Chat';
import type { KeptPlace } from '../chat/place';
import type { Store } from '../link/store';
import { ChainBar, LostBar } from '../page/Bars';
import { ChatArea, SessionsNav } from '../page/ChatArea';
import { Help } from '../page/Help';
import { goToRegion } from '../page/regions';
import { Shell } from '../page/Shell';
import { usePage } from '../page/use-page';
import { drawer, overlay } from '../page/view';
import { vscode } from './api';
import { ChatHeader } from './ChatHeader';
import type { Commands } from './commands';
import { Edits } from './Edits';
import { Ended, EndedButtons, restart } from './Ended';

const openFile = (path: string, line?: number) => vscode.postMessage({
  host: 'openFile', path, ...(line === undefined ? {} : { line }),
});

const openDiff = (diff: FileDiff) => vscode.postMessage({ host: 'openDiff', path: diff.path, old: diff.old, new: diff.new });

export interface ChatPageProps {
  store: Store;
  /** The place in the shown session. */
  place: (session: string | null) => KeptPlace;
  /** Tells what the commands of the extension do. */
  onCommands: (commands: Commands | null) => void;
}

export function ChatPage(props: ChatPageProps) {
  return <Shell store={props.store} starting="Starting Conductor…"><Page {...props} /></Shell>;
}

function Page({ store, place, onCommands }: ChatPageProps) {
  const page = usePage(store, true);
  const { chain, session, actions } = page;
  const width = useWidth();
  const layout = width >= 640 ? 'medium' : 'narrow';
  const inDrawer = drawer.value === 'sessions';
  const [reviews, setReviews] = useState(false);
  // A conversation stays readable when its chain has ended.
  const hasRows = page.topic?.entries.value.some(([, entry]) => !['turn', 'settings', 'draft'].includes(entry.kind)) ?? false;
  const ended = chain?.state === 'ended' && !hasRows;

  useEffect(() => {
    onCommands({
      newSession: actions.newSession,
      focus: () => void goToRegion('composer'),
      sessions: () => (drawer.value = 'sessions'),
      cancel: () => {
        if (session !== null) void store.do({ op: 'cancel', session }).catch(() => undefined);
      },
      showSession: actions.openSession,
    });
    return () => onCommands(null);
  });
  useKeys('page', {
    '?': () => void (overlay.value = 'help'),
    Escape: () => {
      if (!inDrawer) return false;
      drawer.value = null;
      return undefined;
    },
  });

  return (
    <div class="page" data-layout={layout} data-state={store.state.value}>
      <ChatHeader page={page} />
      <LostBar state={store.state.value} retryAt={store.retryAt.value} text="Conductor is starting…"
        onRetry={() => store.retryNow()} />
      {chain && !ended && <ChainBar chain={chain} onCopy={copyText}><EndedButtons /></ChainBar>}
      <div class="body">
        <SessionsNav page={page} drawer open={inDrawer} />
        <ChatArea page={page} inert={inDrawer} active={!inDrawer} onFile={openFile} onRestart={restart}
          onDiff={openDiff} onReview={() => setReviews(true)} place={place(session)} short={width < 420}
          instead={ended ? <Ended chain={chain} /> : undefined} />
        {inDrawer && <div class="scrim" onClick={() => (drawer.value = null)} />}
      </div>
      {reviews && <Edits page={page} onFile={openFile} onDiff={openDiff} onClose={() => setReviews(false)} />}
      {overlay.value === 'help' && <Help chat editor onClose={() => (overlay.value = null)} />}
    </div>
  );
}
