// What the page shows: the session, the open file, tabs and drawers. In a browser the session is in the address.
import { signal } from '@preact/signals';

export type SideTab = 'files' | 'panels' | 'log';
export type Drawer = 'sessions' | 'side' | null;
export type NarrowTab = 'chat' | SideTab;

function sessionOfAddress(): string | null {
  return new URLSearchParams(location.hash.slice(1)).get('session');
}

export const currentSession = signal<string | null>(null);
export const sideTab = signal<SideTab>('files');
export const sideWidth = signal(480);
/** Whether the right side is shown beside the chat on a wide page. */
export const sideShown = signal(true);
export const drawer = signal<Drawer>(null);
export const narrowTab = signal<NarrowTab>('chat');
export const overlay = signal<'help' | 'palette' | null>(null);
export const openFile = signal<{ path: string; line?: number; version: number } | null>(null);
/** The menu that a key opens. */
export const openSelect = signal({ id: '', count: 0 });

/** Keeps the id of the shown session where the next page finds it. */
let keep: (id: string | null) => void = () => undefined;

/** A page in an editor has no address. It is told the session, and where to keep it. */
export function startViewAt(session: string | null, keepSession: (id: string | null) => void): void {
  currentSession.value = session;
  keep = keepSession;
}

/** `takesKey` takes the key of a new log-in from the address, and tells whether there was one. */
export function startView(takesKey: () => boolean): void {
  startViewAt(sessionOfAddress(), (id) => {
    const hash = id === null ? '' : `#${new URLSearchParams({ session: id }).toString()}`;
    history.replaceState(history.state, '', `${location.pathname}${location.search}${hash}`);
  });
  addEventListener('hashchange', () => {
    const session = takesKey() && sessionOfAddress() === null ? currentSession.value : sessionOfAddress();
    showSession(session);
  });
}

export function showSession(id: string | null): void {
  currentSession.value = id;
  keep(id);
}

export function layoutOf(width: number): 'wide' | 'medium' | 'narrow' {
  return width >= 1120 ? 'wide' : width >= 640 ? 'medium' : 'narrow';
}

/** Shows a tab of the right side, wherever it is on this width. */
export function showSide(tab: SideTab): void {
  sideTab.value = tab;
  const layout = layoutOf(innerWidth);
  if (layout === 'wide') sideShown.value = true;
  else if (layout === 'medium') drawer.value = 'side';
  else narrowTab.value = tab;
}

/** Opens a file in the viewer. */
export function showFile(path: string, line?: number): void {
  const version = (openFile.peek()?.version ?? 0) + 1;
  openFile.value = line === undefined ? { path, version } : { path, line, version };
  showSide('files');
}
