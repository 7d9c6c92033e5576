// The files of the project: a tree, the open files with the comments on their lines, and edits to review.
import { useSignalEffect, type ReadonlySignal } from '@preact/signals';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import '../style/files.css';
import { rescueFocus } from '../base/focus';
import { useKeys } from '../base/keys';
import type { Store } from '../link/store';
import { Button } from '../parts/Button';
import { EditReview } from './EditReview';
import { FileTabs, type FileTab } from './FileTabs';
import { FindFiles } from './FindFiles';
import { FilesModel } from './model';
import { shortNames } from './paths';
import { fileCompletions } from './results';
import { Tree } from './Tree';
import { Viewer } from './Viewer';

export { fileCompletions } from './results';

/** With more room, the tree is beside the text. With less, one of them is shown. */
const wideFrom = 700;

/** Open files, drafts and selections live as long as the page, also while a narrow page hides the files. */
const models = new WeakMap<Store, FilesModel>();

function modelOf(store: Store): FilesModel {
  const known = models.get(store);
  if (known) return known;
  const made = new FilesModel(store);
  models.set(store, made);
  return made;
}

export interface OpenRequest {
  path: string;
  line?: number;
  version: number;
}

export function Files(props: { store: Store; open: ReadonlySignal<OpenRequest | null> }) {
  const { store } = props;
  const model = useMemo(() => modelOf(store), [store]);
  const box = useRef<HTMLDivElement>(null);
  const wide = useWide(box);
  // Beside the text the tree is shown unless it was hidden. In its place it is shown only on demand.
  const [beside, setBeside] = useState(true);
  const [instead, setInstead] = useState(false);

  useSignalEffect(() => {
    const request = props.open.value;
    if (request) model.openOnce(request.version, request.path, request.line ?? null);
  });
  useSignalEffect(() => {
    // Something came to the front.
    if (model.active.value !== null || model.target.value !== null) setInstead(false);
  });
  useKeys(box, {
    n: () => model.walk(1),
    p: () => model.walk(-1),
    r: () => model.wishReply(),
  });

  const tabs = model.tabs.value;
  const active = model.active.value;
  const names = shortNames(tabs.filter((tab) => !model.isEdit(tab)));
  const shownTabs: FileTab[] = tabs.map((tab) => {
    const edit = model.edit(tab)?.edit;
    return model.isEdit(tab)
      ? { id: tab, name: edit?.label || 'Edit', title: `Edit: ${edit?.label ?? ''}`, icon: 'file-diff' }
      : { id: tab, name: names.get(tab) ?? tab, title: tab, icon: 'file-text' };
  });
  const edit = active === null ? null : model.edit(active);
  const treeShown = active === null || (wide ? beside : instead);
  const viewShown = active !== null && (wide || !instead);
  const openFile = (path: string) => {
    setInstead(false);
    model.open(path);
  };
  const close = (tab: string) => {
    model.close(tab);
    requestAnimationFrame(() => rescueFocus(box.current, '.file-tab[aria-selected="true"]', '[tabindex="0"]', 'button'));
  };
  const toggle = () => (wide ? setBeside(!beside) : setInstead(!instead));
  const waiting = model.edits.value.filter(([id, it]) => it.state === 'open' && id !== edit?.id);

  return (
    <div ref={box} class={`files${wide ? ' wide' : ''}`}>
      <h2 class="hidden-text">Files</h2>
      <div class="files-bar">
        {active !== null && (
          <Button kind="plain" icon={treeShown ? 'folder-open' : 'folder'} pressed={treeShown}
            label={treeShown ? 'Hide the tree of files' : 'Show the tree of files'} onClick={toggle} />
        )}
        <FindFiles find={(text) => fileCompletions(store, text)} onOpen={openFile} />
        {treeShown && <Button kind="plain" icon="refresh-cw" label="List the files again" onClick={() => model.tree.refresh()} />}
      </div>
      {waiting.map(([id, it]) => (
        <div class="files-waiting" key={id} role="group" aria-label="Edit to review">
          <span class="grow cut">Edit to review: {it.label || it.files[0]?.path}</span>
          <Button onClick={() => model.openEdit(id)}>Review</Button>
        </div>
      ))}
      <div class="files-parts">
        {treeShown && (
          <div class="files-tree">
            <Tree tree={model.tree} active={model.activeFile} threads={model.threads.value} onOpen={openFile} />
          </div>
        )}
        {viewShown && (
          <div class="files-view">
            <FileTabs tabs={shownTabs} current={active} onSelect={(tab) => model.select(tab)} onClose={close} />
            <div id="file-view" class="file-view" role="tabpanel" aria-labelledby={`file-tab-${tabs.indexOf(active)}`}>
              {edit
                ? <EditReview key={edit.id} edit={edit.edit} onAnswer={(accept) => model.answer(edit.id, accept)} onOpen={openFile}
                  blocked={store.state.value === 'live' ? null : 'The connection is lost.'} onClose={() => close(active)} />
                : model.isEdit(active)
                  ? <p class="files-note muted">The edit is gone.</p>
                  : <Viewer key={active} model={model} path={active} onClose={() => close(active)} />}
            </div>
          </div>
        )}
      </div>
    </div>
  );
}

function useWide(box: { current: HTMLElement | null }): boolean {
  const [wide, setWide] = useState(false);
  useEffect(() => {
    if (!box.current) return undefined;
    const observer = new ResizeObserver(([entry]) => setWide((entry?.contentRect.width ?? 0) >= wideFrom));
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  return wide;
}
