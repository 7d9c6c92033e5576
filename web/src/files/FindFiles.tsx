// A box that finds files by the letters of their path.
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { Icon } from '../parts/Icon';
import { plural } from '../base/format';
import { say } from '../base/live';
import { baseName, folderOf } from './paths';
import { reason } from './results';

type Found = { text: string; paths: string[]; error: string | null };

export function FindFiles(props: { find: (text: string) => Promise<string[]>; onOpen: (path: string) => void }) {
  const [text, setText] = useState('');
  const [found, setFound] = useState<Found | null>(null);
  const [at, setAt] = useState(0);
  const input = useRef<HTMLInputElement>(null);
  const list = useRef<HTMLDivElement>(null);
  const id = useId();
  const query = text.trim();
  /** Enter was pressed before the files for the typed letters were known. */
  const enter = useRef(false);

  useEffect(() => {
    enter.current = false;
    if (!query) {
      setFound(null);
      return undefined;
    }
    let stale = false;
    const answer = (next: Found) => {
      if (stale) return;
      if (enter.current && next.paths.length) {
        choose(next.paths[0]);
        return;
      }
      setFound(next);
      setAt(0);
      say(next.error ?? (next.paths.length ? plural(next.paths.length, 'file') : 'No file found'));
    };
    props.find(query).then(
      (paths) => answer({ text: query, paths, error: null }),
      (error: unknown) => answer({ text: query, paths: [], error: reason(error) }),
    );
    return () => {
      stale = true;
    };
  }, [query]);

  const paths = found?.paths ?? [];
  const shown = query !== '' && found !== null;
  const close = () => {
    setText('');
    setFound(null);
  };
  const choose = (path: string | undefined) => {
    if (path === undefined) return;
    close();
    props.onOpen(path);
  };
  const move = (to: number) => {
    if (!paths.length) return;
    const next = (to + paths.length) % paths.length;
    setAt(next);
    list.current?.children[next]?.scrollIntoView({ block: 'nearest' });
  };

  return (
    <div class="find" onFocusOut={(event) => {
      if (!(event.relatedTarget instanceof Node && event.currentTarget.contains(event.relatedTarget))) setFound(null);
    }}>
      <Icon name="search" size={15} class="find-icon" />
      <input ref={input} class="find-box" type="text" role="combobox" aria-label="Find a file" placeholder="Find a file"
        autocomplete="off" spellcheck={false} aria-expanded={shown} aria-controls={`${id}-list`} aria-autocomplete="list"
        aria-activedescendant={shown && paths.length ? `${id}-${at}` : undefined} value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === 'ArrowDown') move(at + 1);
          else if (event.key === 'ArrowUp') move(at - 1);
          else if (event.key === 'Enter' && found?.text !== query) enter.current = true;
          else if (event.key === 'Enter') choose(paths[at]);
          else if (event.key === 'Escape' && text) close();
          else return;
          event.preventDefault();
          event.stopPropagation();
        }} />
      <div ref={list} id={`${id}-list`} class="find-list float" role="listbox" aria-label="Files" hidden={!shown || !paths.length}>
        {paths.map((path, i) => (
          <div key={path} id={`${id}-${i}`} class={`find-row${i === at ? ' chosen' : ''}`} role="option" aria-selected={i === at}
            onPointerDown={(event) => event.preventDefault()} onClick={() => choose(path)}>
            <Icon name="file-text" size={15} class="tree-file" />
            <span class="cut">{baseName(path)}</span>
            <span class="cut muted small grow">{folderOf(path)}</span>
          </div>
        ))}
      </div>
      {shown && !paths.length && (
        <p class="find-list float find-none muted">{found.error ?? `No file has “${found.text}” in its path.`}</p>
      )}
    </div>
  );
}
