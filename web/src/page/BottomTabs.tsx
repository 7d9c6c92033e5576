// The views of a narrow page, at the bottom.
import { Icon, type IconName } from '../parts/Icon';
import type { NarrowTab } from './view';

export function BottomTabs(props: {
  current: NarrowTab; panels: number; edits: number; asks: boolean; chat?: boolean; onTab: (tab: NarrowTab) => void;
}) {
  const tabs: ReadonlyArray<{ id: NarrowTab; icon: IconName; label: string; mark: string }> = [
    { id: 'chat', icon: 'message-square', label: 'Chat', mark: props.asks ? '!' : '' },
    { id: 'files', icon: 'folder', label: 'Files', mark: props.edits ? String(props.edits) : '' },
    { id: 'panels', icon: 'layout-dashboard', label: 'Panels', mark: props.panels ? String(props.panels) : '' },
    { id: 'log', icon: 'scroll-text', label: 'Log', mark: '' },
  ];
  return (
    <nav class="bottom-tabs" aria-label="Views">
      {tabs.filter((tab) => props.chat !== false || tab.id !== 'chat').map((tab) => (
        <button type="button" key={tab.id} class="bottom-tab" aria-current={tab.id === props.current ? 'page' : undefined}
          onClick={() => props.onTab(tab.id)}>
          <Icon name={tab.icon} />
          <span>{tab.label}{tab.mark && <> <span class="badge">{tab.mark}</span></>}</span>
        </button>
      ))}
    </nav>
  );
}
