// What every page with a chat knows: the chain, the sessions, the shown one, and what can be done with them.
import { useEffect, useMemo, useRef } from 'preact/hooks';
import type { Chain, Entry, Features, Session } from 'acp-conductor-client/link';
import { fileCompletions } from '../files/results';
import type { Store, Topic } from '../link/store';
import { useTopic } from '../link/use';
import { useActions, type Actions } from './actions';
import { currentSession, showSession } from './view';

export type SessionList = ReadonlyArray<readonly [string, Session]>;
type EntryOf<K extends Entry['kind']> = Extract<Entry, { kind: K }>;

export interface PageData {
  store: Store;
  features: Features | null;
  chainTopic: Topic;
  chain: Chain | null;
  sessions: SessionList;
  panelsTopic: Topic;
  panels: ReadonlyArray<readonly [string, EntryOf<'panel'>]>;
  /** The edits that wait for an answer. */
  edits: ReadonlyArray<readonly [string, EntryOf<'edit'>]>;
  /** The id of the shown session. */
  session: string | null;
  /** Its topic. */
  topic: Topic | null;
  actions: Actions;
  findFiles: (text: string) => Promise<string[]>;
  /** Why nothing can be done now, or false. */
  lost: string | false;
}

/** `saved` means that an earlier session can be shown before it is open: its entries are there. */
export function usePage(store: Store, saved = false): PageData {
  const features = store.features.value;
  const chainTopic = useTopic(store, 'chain');
  const sessionsTopic = useTopic(store, 'sessions');
  const panelsTopic = useTopic(store, 'panels');
  const editsTopic = useTopic(store, 'edits');
  const chainEntry = chainTopic.get('chain').value;
  const sessions = sessionsTopic.entries.value.flatMap(([id, entry]): Array<readonly [string, Session]> => (
    entry.kind === 'session' ? [[id, entry]] : []));
  const panels = panelsTopic.entries.value.flatMap(([id, entry]): Array<readonly [string, EntryOf<'panel'>]> => (
    entry.kind === 'panel' ? [[id, entry]] : []));
  const edits = editsTopic.entries.value.flatMap(([id, entry]): Array<readonly [string, EntryOf<'edit'>]> => (
    entry.kind === 'edit' && entry.state === 'open' ? [[id, entry]] : []));
  const session = currentSession.value;
  const topic = useMemo(() => (session === null ? null : store.topic(`session/${session}`)), [store, session]);
  useEffect(() => () => topic?.release(), [topic]);
  const actions = useActions(store);
  const findFiles = useMemo(() => (text: string) => fileCompletions(store, text), [store]);
  useTitle(features?.title ?? '', sessions, session);
  useFirstSession(sessionsTopic.loaded.value, sessions, session, saved);
  return {
    store, features, chainTopic, chain: chainEntry?.kind === 'chain' ? chainEntry : null, sessions, panelsTopic, panels,
    edits, session, topic, actions, findFiles,
    lost: store.state.value !== 'live' ? 'There is no connection to Conductor.' : false,
  };
}

/** The title of the page has a mark while a session asks something. */
function useTitle(chain: string, sessions: SessionList, current: string | null): void {
  const asks = sessions.some(([, session]) => session.state === 'asks');
  const title = sessions.find(([id]) => id === current)?.[1].title;
  useEffect(() => {
    document.title = `${asks ? '! ' : ''}${[title, chain, 'Conductor'].filter(Boolean).join(' – ')}`;
  }, [asks, title, chain]);
}

/** Shows a session that is open, if the address names none. */
function useFirstSession(loaded: boolean, sessions: SessionList, current: string | null, saved: boolean): void {
  const begun = useRef(false);
  const opened = sessions.some(([, session]) => session.state !== 'saved');
  const done = useRef(false);
  /** The sessions when the shown one was last among them. */
  const before = useRef<readonly string[]>([]);
  useEffect(() => {
    if (!loaded || done.current) return;
    const shown = sessions.find(([id]) => id === current)?.[1];
    // Later, the person may have chosen a session.
    done.current = begun.current ? current !== null : shown !== undefined && (saved || shown.state !== 'saved');
    if (done.current) return;
    begun.current = true;
    const first = newest(sessions);
    done.current = first !== null;
    showSession(first);
    // Without a session the agent may not have started yet: its first one is shown when it comes.
  }, [loaded, opened, current]);
  // A new session may be shown a moment before it is in the list.
  const gone = loaded && done.current && current !== null && before.current.includes(current)
    && !sessions.some(([id]) => id === current);
  useEffect(() => {
    if (!gone) before.current = sessions.map(([id]) => id);
  });
  // A session that was closed, here or in another tab; or one that has another id now, as the agent did not know it.
  useEffect(() => {
    if (gone) showSession(newest(sessions.filter(([id]) => !before.current.includes(id))));
  }, [gone]);
}

function newest(sessions: SessionList): string | null {
  const open = sessions.filter(([, session]) => session.state !== 'saved').sort(([, a], [, b]) => b.time - a.time);
  return open[0]?.[0] ?? null;
}
