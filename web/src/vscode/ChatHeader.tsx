// The header of the chat in VS Code: the session, the list of sessions, a new one, panels, and a menu.
import { chainState } from '../page/chain-state';
import type { PageData } from '../page/use-page';
import { drawer, overlay } from '../page/view';
import { Button } from '../parts/Button';
import { Icon } from '../parts/Icon';
import { Menu } from '../parts/Menu';
import { vscode } from './api';
import { restart } from './Ended';

export function ChatHeader({ page }: { page: PageData }) {
  const { store, chain, panels, session, actions } = page;
  const state = chainState(store.state.value, chain);
  const title = page.sessions.find(([id]) => id === session)?.[1].title || 'New session';
  const others = page.sessions.filter(([id, one]) => id !== session && one.state === 'asks').length;
  const select = (id: string) => {
    if (id === 'log') vscode.postMessage({ host: 'showLog' });
    else if (id === 'restart') restart();
    else if (id === 'chain') vscode.postMessage({ host: 'command', command: 'conductor.chooseChain' });
    else overlay.value = 'help';
  };
  return (
    <header class="header" data-region="header">
      <Button kind="plain" icon="menu" label={others ? `Sessions, ${others} with a question` : 'Sessions'}
        class={others ? 'asks' : ''} onClick={() => (drawer.value = 'sessions')} />
      <h1 class="header-title"><span class="cut" title={title}>{title}</span></h1>
      <span class={`header-state ${state.cls}`} data-chain-state={chain?.state ?? ''}
        title={`${page.features?.title ?? 'Chain'}: ${state.word}`}>
        <Icon name={state.icon} size={14} />
        <span class="hidden-text">{state.word}</span>
      </span>
      <span class="grow" />
      {panels.length > 0 && (
        <Menu align="right" onSelect={(id) => vscode.postMessage({ host: 'openPanel', id })}
          items={panels.map(([id, panel]) => ({ id, label: panel.label, icon: 'layout-dashboard' as const }))}
          button={{
            kind: 'plain', label: `Panels, ${panels.length}`, title: 'Panels',
            children: <><Icon name="layout-dashboard" /> <span class="badge">{panels.length}</span></>,
          }} />
      )}
      <Button kind="plain" icon="plus" label="New session" onClick={actions.newSession}
        disabled={page.lost || (chain?.state === 'running' ? false : 'The chain is not up.')} />
      <Menu align="right" onSelect={select} button={{ kind: 'plain', icon: 'ellipsis', label: 'More' }} items={[
        { id: 'log', label: 'Show the log', icon: 'scroll-text' },
        { id: 'restart', label: 'Restart the chain', icon: 'rotate-cw' },
        { id: 'chain', label: 'Choose a chain', icon: 'command' },
        { id: 'keys', label: 'Keys', icon: 'circle-question-mark' },
      ]} />
    </header>
  );
}
