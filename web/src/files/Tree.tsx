// The tree of the project's files, with the keyboard of the ARIA Authoring Practices: one tab stop, arrows move.
import { useEffect, useRef } from 'preact/hooks';
import { Button } from '../parts/Button';
import { Icon } from '../parts/Icon';
import { Marked } from '../parts/Marked';
import { plural } from '../base/format';
import { useAfter } from '../base/signals';
import type { Row, TreeModel } from './tree-model';
import type { PlacedThread } from './threads';

export function Tree(props: {
  tree: TreeModel;
  /** The file in front. */
  active: string | null;
  threads: Map<string, PlacedThread[]>;
  onOpen: (path: string) => void;
}) {
  const { tree } = props;
  const box = useRef<HTMLDivElement>(null);
  const typed = useRef({ text: '', at: 0 });
  const rows = tree.rows.value;
  const root = tree.root.value;
  const late = useAfter(root === null, 150);
  const entries = rows.filter((row) => row.note === null);
  const current = entries.find((row) => row.path === tree.current.value) ?? entries[0];
  const rowElement = (path: string) => box.current?.querySelector<HTMLElement>(`[data-path="${CSS.escape(path)}"]`);

  useEffect(() => {
    if (props.active) rowElement(props.active)?.scrollIntoView({ block: 'nearest' });
  }, [props.active, rows.length]);

  const focus = (row: Row | undefined) => {
    if (!row) return;
    tree.current.value = row.path;
    rowElement(row.path)?.focus();
  };
  const use = (row: Row) => {
    tree.current.value = row.path;
    if (row.folder) tree.toggle(row.path);
    else props.onOpen(row.path);
  };
  const find = (letter: string, from: number) => {
    const now = performance.now();
    const text = now - typed.current.at < 700 ? typed.current.text + letter : letter;
    typed.current = { text, at: now };
    const begin = text.length > 1 ? from : from + 1;
    const round = [...entries.slice(begin), ...entries.slice(0, begin)];
    focus(round.find((row) => row.name.toLowerCase().startsWith(text)));
  };

  const onKeyDown = (event: KeyboardEvent) => {
    if (!current || event.ctrlKey || event.altKey || event.metaKey) return;
    const at = entries.indexOf(current);
    switch (event.key) {
      case 'ArrowDown': focus(entries[at + 1]); break;
      case 'ArrowUp': focus(entries[at - 1]); break;
      case 'Home': focus(entries[0]); break;
      case 'End': focus(entries.at(-1)); break;
      case 'ArrowRight':
        if (current.folder && !current.open) tree.toggle(current.path, true);
        else if (current.folder && (entries[at + 1]?.level ?? 0) > current.level) focus(entries[at + 1]);
        break;
      case 'ArrowLeft':
        if (current.folder && current.open) tree.toggle(current.path, false);
        else focus(entries.slice(0, at).findLast((row) => row.level < current.level));
        break;
      case '*':
        for (const row of entries) if (row.folder && row.level === current.level) tree.toggle(row.path, true);
        break;
      case 'Enter': case ' ': use(current); break;
      default:
        if (event.key.length !== 1 || 'npr?'.includes(event.key)) return;
        find(event.key.toLowerCase(), at);
    }
    event.preventDefault();
  };

  if (root === null) return <p class="files-note muted">{late ? 'Loading files…' : ''}</p>;
  if (root.failed !== null) {
    return (
      <div class="files-note" role="alert">
        <p class="is-err">The folder cannot be read: {root.failed}</p>
        <Button icon="refresh-cw" onClick={() => tree.refresh()}>Try again</Button>
      </div>
    );
  }
  if (root.empty) return <p class="files-note muted">The folder of the project is empty.</p>;
  return (
    <div ref={box} class="tree" role="tree" aria-label="Files of the project" onKeyDown={onKeyDown}>
      {rows.map((row) => (row.note !== null
        ? <p class={`tree-row tree-note muted level-${Math.min(row.level, 12)}`} key={row.path} role="none">{row.note}</p>
        : <TreeRow key={row.path} row={row} active={row.path === props.active} stop={row === current}
          comments={countIn(props.threads, row)} onUse={() => use(row)} />))}
    </div>
  );
}

function TreeRow(props: { row: Row; active: boolean; stop: boolean; comments: number; onUse: () => void }) {
  const { row } = props;
  const icon = row.folder ? (row.open ? 'folder-open' : 'folder') : 'file-text';
  return (
    <div class={`tree-row level-${Math.min(row.level, 12)}${props.active ? ' active' : ''}`} role="treeitem"
      data-path={row.path} aria-level={row.level} aria-posinset={row.place} aria-setsize={row.size}
      aria-expanded={row.folder ? row.open : undefined} aria-selected={props.active} tabIndex={props.stop ? 0 : -1}
      onClick={props.onUse}>
      <Icon name="chevron-right" size={14} class={`tree-arrow${row.folder ? '' : ' unseen'}${row.open ? ' open' : ''}`} />
      <Icon name={icon} size={15} class={row.folder ? 'tree-folder' : 'tree-file'} />
      <span class="cut grow" title={row.path}><Marked text={row.name} /></span>
      {props.comments > 0 && (
        <span class="badge comments" title={plural(props.comments, 'comment')}>
          {props.comments}<span class="hidden-text"> {props.comments === 1 ? 'comment' : 'comments'}</span>
        </span>
      )}
    </div>
  );
}

/** How many comments a file has, or all files in a closed folder. */
function countIn(threads: Map<string, PlacedThread[]>, row: Row): number {
  if (!row.folder) return threads.get(row.path)?.length ?? 0;
  if (row.open) return 0;
  let count = 0;
  for (const [path, list] of threads) if (path.startsWith(`${row.path}/`)) count += list.length;
  return count;
}
