// The sessions and commands of the palette.
import { setTheme } from '../base/theme';
import type { Session } from 'acp-conductor-client/link';
import type { Actions } from './actions';
import type { PaletteItem } from './Palette';
import { goToRegion } from './regions';
import { openSelect, overlay, showSide } from './view';

export function paletteItems(from: {
  sessions: ReadonlyArray<readonly [string, Session]>; chat: boolean; actions: Actions;
}): PaletteItem[] {
  const command = (id: string, icon: PaletteItem['icon'], label: string, run: () => void, keys?: string): PaletteItem => ({
    id, group: 'Commands', icon, label, run, keys,
  });
  const select = (id: string) => (openSelect.value = { id, count: openSelect.value.count + 1 });
  const chat: PaletteItem[] = from.chat ? [
    ...from.sessions.map(([id, session]): PaletteItem => ({
      id: `session:${id}`, group: 'Sessions', icon: 'message-square', label: session.title || 'New session',
      about: session.state === 'idle' ? undefined : session.state, run: () => from.actions.openSession(id),
    })),
    command('new', 'plus', 'New session', from.actions.newSession),
    command('compose', 'message-square', 'Write a message', () => goToRegion('composer'), 'Alt+3'),
    command('mode', 'chevron-down', 'Choose the mode', () => select('mode'), 'Alt+M'),
    command('model', 'chevron-down', 'Choose the model', () => select('model'), 'Alt+L'),
  ] : [];
  return [
    ...chat,
    command('files', 'folder', 'Show files', () => showSide('files')),
    command('panels', 'layout-dashboard', 'Show panels', () => showSide('panels')),
    command('log', 'scroll-text', 'Show the log', () => showSide('log')),
    command('light', 'sun', 'Theme: light', () => setTheme('light')),
    command('dark', 'moon', 'Theme: dark', () => setTheme('dark')),
    command('system', 'monitor', 'Theme: as the system', () => setTheme('system')),
    command('help', 'circle-question-mark', 'Show keys', () => (overlay.value = 'help'), '?'),
  ];
}
