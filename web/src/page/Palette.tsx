// The palette of Ctrl+K: sessions, files and commands in one list.
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { Dialog } from '../parts/Dialog';
import { Icon, type IconName } from '../parts/Icon';

export interface PaletteItem {
  id: string;
  group: string;
  icon: IconName;
  label: string;
  about?: string | undefined;
  keys?: string | undefined;
  run: () => void;
}

/** Whether all words of the query are in the text. */
function matches(item: PaletteItem, query: string): boolean {
  const text = `${item.label} ${item.about ?? ''}`.toLowerCase();
  return query.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

export function Palette(props: {
  items: readonly PaletteItem[];
  findFiles: (text: string) => Promise<string[]>;
  onFile: (path: string) => void;
  onClose: () => void;
}) {
  const [query, setQuery] = useState('');
  const [files, setFiles] = useState<readonly string[]>([]);
  const [active, setActive] = useState(0);
  const id = useId();
  const list = useRef<HTMLDivElement>(null);

  useEffect(() => {
    setActive(0);
    if (!query.trim()) {
      setFiles([]);
      return undefined;
    }
    let current = true;
    props.findFiles(query.trim()).then((found) => current && setFiles(found.slice(0, 20)), () => current && setFiles([]));
    return () => {
      current = false;
    };
  }, [query]);
  useEffect(() => {
    list.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: 'nearest' });
  }, [active]);

  const fileItems = files.map((path): PaletteItem => ({
    id: `file:${path}`, group: 'Files', icon: 'file', label: path.slice(path.lastIndexOf('/') + 1),
    about: path.includes('/') ? path.slice(0, path.lastIndexOf('/')) : undefined, run: () => props.onFile(path),
  }));
  const found = [...props.items.filter((item) => matches(item, query.trim())), ...fileItems];
  const groups = [...new Set(found.map((item) => item.group))];
  const ordered = groups.flatMap((group) => found.filter((item) => item.group === group));
  const choose = (item: PaletteItem | undefined) => {
    if (!item) return;
    props.onClose();
    // The dialog gives the focus back first.
    setTimeout(item.run, 0);
  };
  return (
    <Dialog title="Find a session, a file or a command" class="palette" bare onClose={props.onClose}>
      <div class="palette-query">
        <Icon name="search" class="muted" />
        <input type="text" role="combobox" aria-expanded="true" aria-controls={id} aria-autocomplete="list"
          aria-label="Find a session, a file or a command" placeholder="Find a session, a file or a command" value={query}
          aria-activedescendant={ordered.length ? `${id}-${active}` : undefined} autoFocus spellcheck={false}
          onInput={(event) => setQuery(event.currentTarget.value)}
          onKeyDown={(event) => {
            const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0;
            if (step && ordered.length) {
              event.preventDefault();
              setActive((active + step + ordered.length) % ordered.length);
            } else if (event.key === 'Enter') {
              event.preventDefault();
              choose(ordered[active]);
            }
          }} />
      </div>
      <div ref={list} id={id} role="listbox" aria-label="Results" class="palette-list">
        {groups.map((group) => (
          <div key={group} role="group" aria-label={group}>
            <p class="palette-group small muted" aria-hidden="true">{group}</p>
            {ordered.map((item, index) => item.group === group && (
              <div key={item.id} id={`${id}-${index}`} role="option" aria-selected={index === active} class="palette-item"
                onPointerMove={() => setActive(index)} onClick={() => choose(item)}>
                <Icon name={item.icon} class="muted" />
                <span class="nowrap cut">{item.label}</span>
                {item.about && <span class="muted small cut grow">{item.about}</span>}
                {item.keys && <kbd>{item.keys}</kbd>}
              </div>
            ))}
          </div>
        ))}
      </div>
      {!ordered.length && <p class="palette-none muted">Nothing found.</p>}
    </Dialog>
  );
}
