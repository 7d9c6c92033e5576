// One file: its path, the list of its comments, and its text or why there is none.
import { useState } from 'preact/hooks';
import { plural } from '../base/format';
import { useAfter } from '../base/signals';
import { Button } from '../parts/Button';
import { Icon } from '../parts/Icon';
import { Marked } from '../parts/Marked';
import { countLines } from './blocks';
import { CodeView } from './CodeView';
import type { FilesModel } from './model';
import { baseName, folderOf } from './paths';
import { ThreadCard } from './ThreadCard';
import { placeText, summaryText, type PlacedThread } from './threads';

const none: readonly PlacedThread[] = [];
const scrolled = new Map<string, number>();

export function Viewer(props: { model: FilesModel; path: string; onClose: () => void }) {
  const { model, path } = props;
  const file = model.file(path).value;
  const threads = model.threads.value.get(path) ?? none;
  const current = model.thread.value;
  const target = model.target.value?.path === path ? model.target.value : null;
  const late = useAfter(file.state === 'loading', 150);
  const show = (id: string) => model.open(path, null, id);

  const card = (placed: PlacedThread, orphaned: boolean) => (
    <ThreadCard placed={placed} draft={model.draft(placed.id)} current={placed.id === current} orphaned={orphaned}
      replyWish={model.replyWish.value?.thread === placed.id ? model.replyWish.value.version : 0}
      onWished={() => {
        model.replyWish.value = null;
      }}
      onReply={(text) => model.reply(placed.id, text)}
      onCurrent={() => {
        model.thread.value = placed.id;
      }}
      onFile={(to, line) => model.open(to, line ?? null)} />
  );

  const lines = file.state === 'shown' && !file.note ? countLines(file.text) : null;
  return (
    <div class="viewer">
      <FileHead path={path} lines={lines} threads={threads} current={current} onThread={show} onReload={() => model.reload(path)}
        onWalk={(step) => model.walk(step)} onClose={props.onClose} />
      {file.state === 'loading' && <p class="files-note muted">{late ? `Loading ${path}…` : ''}</p>}
      {file.state === 'failed' && (
        <div class="files-note" role="alert">
          <p class="row is-err"><Icon name="circle-alert" /><span>The file cannot be shown: {file.why}</span></p>
          <Button icon="refresh-cw" onClick={() => model.reload(path)}>Try again</Button>
        </div>
      )}
      {file.state === 'shown' && file.note && (
        <p class="files-note row"><Icon name="info" /><span>{file.note}</span></p>
      )}
      {file.state === 'shown' && (!file.note || file.text)
        ? <CodeView key={path} path={path} text={file.text} threads={threads} current={current} target={target} card={card}
          reach={(version) => model.reach(version)}
          scroll={{ get: () => scrolled.get(path) ?? 0, set: (top) => scrolled.set(path, top) }}
          onSelection={(selection) => model.setSelection(selection)} onThread={show} />
        : file.state !== 'loading' && threads.length > 0 && (
          <div class="viewer-rest">{threads.map((it) => <div class="thread-place" key={it.id}>{card(it, true)}</div>)}</div>
        )}
    </div>
  );
}

function FileHead(props: {
  path: string;
  lines: number | null;
  threads: readonly PlacedThread[];
  current: string | null;
  onThread: (id: string) => void;
  onWalk: (step: 1 | -1) => void;
  onReload: () => void;
  onClose: () => void;
}) {
  const [listed, setListed] = useState(false);
  const { threads } = props;
  const folder = folderOf(props.path);
  return (
    <>
      <div class="file-head">
        <h3 class="file-path cut grow" title={props.path}>
          {folder && <span class="file-folder"><Marked text={`${folder}/`} /></span>}<Marked text={baseName(props.path)} />
        </h3>
        {props.lines !== null && <span class="muted small num file-lines">{plural(props.lines, 'line')}</span>}
        {threads.length > 0 && (
          <span class="file-comments">
            <Button kind="plain" icon="message-square" expanded={listed} controls="file-threads" label={plural(threads.length, 'comment')}
              onClick={() => setListed(!listed)}>{threads.length}</Button>
            <Button kind="plain" icon="arrow-up" label="Previous comment (p)" keys="p" onClick={() => props.onWalk(-1)} />
            <Button kind="plain" icon="arrow-down" label="Next comment (n)" keys="n" onClick={() => props.onWalk(1)} />
          </span>
        )}
        <Button kind="plain" icon="refresh-cw" label={`Read ${baseName(props.path)} again`} onClick={props.onReload} />
        <Button kind="plain" icon="x" label={`Close ${baseName(props.path)}`} onClick={props.onClose} />
      </div>
      {threads.length > 0 && listed && (
        <ul id="file-threads" class="thread-list" role="list" aria-label="Comments in this file">
          {threads.map(({ id, thread }) => (
            <li key={id}>
              <button type="button" class={`thread-item${id === props.current ? ' current' : ''}`} onClick={() => props.onThread(id)}>
                <span class="muted num">{placeText(thread)}</span>
                <span class="cut grow">{summaryText(thread.text) || 'No text'}</span>
                {thread.replies.length > 0 && <span class="muted small">{plural(thread.replies.length, 'reply', 'replies')}</span>}
              </button>
            </li>
          ))}
        </ul>
      )}
    </>
  );
}
