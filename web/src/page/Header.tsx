// The header: the chain with its state, and the switches of the page.
import { nextTheme, setTheme, themeChoice } from '../base/theme';
import type { LinkState } from '../link/store';
import type { Chain } from 'acp-conductor-client/link';
import { Button } from '../parts/Button';
import { Icon } from '../parts/Icon';
import { chainState } from './chain-state';

export interface HeaderProps {
  title: string;
  chain: Chain | null;
  link: LinkState;
  layout: 'wide' | 'medium' | 'narrow';
  companion: boolean;
  panels: number;
  sideShown: boolean;
  onSessions: () => void;
  onSide: (tab: 'files' | 'panels' | 'log') => void;
  onToggleSide: () => void;
  onHelp: () => void;
  onPalette: () => void;
}

const themes = {
  system: { icon: 'monitor', label: 'Theme: as the system' },
  light: { icon: 'sun', label: 'Theme: light' },
  dark: { icon: 'moon', label: 'Theme: dark' },
} as const;

export function Header(props: HeaderProps) {
  const state = chainState(props.link, props.chain);
  const theme = themes[themeChoice.value];
  const wide = props.layout === 'wide';
  const components = props.chain?.components ?? [];
  return (
    <header class="header" data-region="header">
      {!wide && !props.companion && (
        <Button kind="plain" icon="menu" label="Sessions" onClick={props.onSessions} />
      )}
      <h1 class="header-title">
        {wide && <><span class="brand">Conductor</span><Icon name="chevron-right" size={14} class="muted" /></>}
        <span class="cut" title={components.length ? components.join(' → ') : props.title}>{props.title || 'Conductor'}</span>
      </h1>
      <span class={`header-state ${state.cls}`} data-chain-state={props.chain?.state ?? ''}>
        <Icon name={state.icon} size={14} />
        <span class={props.layout === 'narrow' ? 'hidden-text' : ''}>{state.word}</span>
      </span>
      {props.companion && props.layout !== 'narrow' && (
        <span class="muted cut">Shows panels and files for the chat in your editor</span>
      )}
      <span class="grow" />
      {props.layout === 'medium' && !props.companion && (
        <>
          <Button kind="plain" icon="folder" onClick={() => props.onSide('files')}>Files</Button>
          <Button kind="plain" icon="layout-dashboard" onClick={() => props.onSide('panels')}>
            Panels{props.panels > 0 && <> <span class="badge">{props.panels}</span></>}
          </Button>
        </>
      )}
      {wide && <Button kind="plain" icon="search" keys="Control+K" onClick={props.onPalette}>Find <kbd>Ctrl+K</kbd></Button>}
      <Button kind="plain" icon={theme.icon} label={theme.label}
        onClick={() => setTheme(nextTheme(themeChoice.value))} />
      <Button kind="plain" icon="circle-question-mark" label="Keys" onClick={props.onHelp} />
      {wide && !props.companion && (
        <Button kind="plain" icon="panel-right" label="Right side" pressed={props.sideShown} onClick={props.onToggleSide} />
      )}
    </header>
  );
}
