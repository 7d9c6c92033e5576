// The page beside another editor: panels and files fill it, there is no chat.
import { useLayoutEffect } from 'preact/hooks';
import { Files } from '../files/Files';
import type { Store, Topic } from '../link/store';
import { Panels } from '../panels/Panels';
import { Split } from '../parts/Split';
import { BottomTabs } from './BottomTabs';
import { Side } from './Side';
import { narrowTab, openFile, showFile, sideTab, sideWidth } from './view';

export function Companion(props: {
  store: Store; chain: Topic; layout: 'wide' | 'medium' | 'narrow'; panels: number; edits: number;
}) {
  useLayoutEffect(() => {
    sideTab.value = 'panels';
  }, []);
  if (props.layout === 'wide') {
    return (
      <div class="body companion">
        <main class="companion-main" aria-label="Panels" data-region="conversation">
          <Panels store={props.store} onFile={showFile} visible />
        </main>
        <aside class="side" aria-label="Files" data-region="side" style={{ width: `${sideWidth.value}px` }}>
          <Split label="Width of the files" width={sideWidth.value} min={300} max={Math.max(300, innerWidth - 420)}
            onWidth={(width) => (sideWidth.value = width)} />
          <Files store={props.store} open={openFile} />
        </aside>
      </div>
    );
  }
  const narrow = props.layout === 'narrow';
  const tab = narrow ? (narrowTab.value === 'chat' ? 'panels' : narrowTab.value) : sideTab.value;
  return (
    <>
      <div class="body companion">
        <main class="side" aria-label="Files, panels and log" data-region="side">
          <Side store={props.store} chain={props.chain} tab={tab} panels={props.panels} edits={props.edits} tabs={!narrow}
            visible onTab={(next) => (sideTab.value = next)} onClose={undefined} />
        </main>
      </div>
      {narrow && (
        <BottomTabs current={tab} panels={props.panels} edits={props.edits} asks={false} chat={false}
          onTab={(next) => (narrowTab.value = next)} />
      )}
    </>
  );
}
