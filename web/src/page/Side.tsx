// The right side: files, panels and the log of the chain, as tabs.
import { Files } from '../files/Files';
import type { Store, Topic } from '../link/store';
import { Panels } from '../panels/Panels';
import { Button } from '../parts/Button';
import { Tabs } from '../parts/Tabs';
import { Log } from './Log';
import { openFile, showFile, type SideTab } from './view';

export function Side(props: {
  store: Store;
  chain: Topic;
  tab: SideTab;
  panels: number;
  edits: number;
  /** Whether the tabs are shown; on a narrow page the tabs at the bottom take their place. */
  tabs: boolean;
  visible: boolean;
  onTab: (tab: SideTab) => void;
  onClose: (() => void) | undefined;
}) {
  const shown = (tab: SideTab) => props.visible && props.tab === tab;
  const view = (tab: SideTab, label: string) => ({
    id: `side-view-${tab}`, class: `side-view side-${tab}`, hidden: props.tab !== tab,
    ...(props.tabs ? { role: 'tabpanel' as const, 'aria-labelledby': `side-tab-${tab}` }
      : { role: 'group' as const, 'aria-label': label }),
  });
  return (
    <>
      {props.tabs && (
        <div class="side-head">
          <Tabs label="Right side" prefix="side" current={props.tab}
            onSelect={(id) => props.onTab(id === 'panels' || id === 'log' ? id : 'files')}
            tabs={[
              { id: 'files', label: 'Files', count: props.edits, countLabel: 'to review' },
              { id: 'panels', label: 'Panels', count: props.panels },
              { id: 'log', label: 'Log' },
            ]} />
          <span class="grow" />
          {props.onClose && <Button kind="plain" icon="chevron-right" label="Hide the right side" onClick={props.onClose} />}
        </div>
      )}
      <div {...view('files', 'Files')}><Files store={props.store} open={openFile} /></div>
      <div {...view('panels', 'Panels')}>
        <Panels store={props.store} onFile={showFile} visible={shown('panels')} />
      </div>
      <div {...view('log', 'Log')}>{shown('log') && <Log entries={props.chain.entries.value} />}</div>
    </>
  );
}
