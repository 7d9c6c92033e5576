// One word for the link and the chain together.
import type { Chain } from 'acp-conductor-client/link';
import type { LinkState } from '../link/store';
import type { IconName } from '../parts/Icon';

export function chainState(link: LinkState, chain: Chain | null): { word: string; cls: string; icon: IconName } {
  if (link === 'ended') return { word: 'ended', cls: 'is-err', icon: 'unplug' };
  if (link === 'lost') return { word: 'connection lost', cls: 'is-err', icon: 'unplug' };
  if (link === 'connecting' || !chain) return { word: 'connecting', cls: 'muted', icon: 'circle' };
  switch (chain.state) {
    case 'running': return { word: 'connected', cls: 'is-ok', icon: 'circle-check' };
    case 'starting': return { word: 'starting', cls: 'is-accent', icon: 'clock' };
    case 'login': return { word: 'log-in needed', cls: 'is-warn', icon: 'log-in' };
    case 'ended': return { word: 'ended', cls: 'is-err', icon: 'circle-x' };
    default: return { word: chain.state, cls: 'muted', icon: 'circle' };
  }
}
