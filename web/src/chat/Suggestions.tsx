// The list of files or commands below the caret of the composer. The focus stays in the text.
import { useEffect, useRef } from 'preact/hooks';
import { Icon } from '../parts/Icon';

export interface Suggestion {
  value: string;
  about: string;
}

export function Suggestions(props: {
  id: string;
  kind: 'file' | 'command';
  items: readonly Suggestion[];
  active: number;
  onChoose: (value: string) => void;
}) {
  const list = useRef<HTMLUListElement>(null);
  useEffect(() => {
    list.current?.children[props.active]?.scrollIntoView({ block: 'nearest' });
  }, [props.active, props.items]);
  return (
    <ul ref={list} id={props.id} role="listbox" class="suggestions float"
      aria-label={props.kind === 'file' ? 'Files' : 'Commands of the agent'}>
      {props.items.map((item, index) => (
        <li key={item.value} id={`${props.id}-${index}`} role="option" aria-selected={index === props.active}
          class="suggestion"
          onPointerDown={(event) => event.preventDefault()}
          onClick={() => props.onChoose(item.value)}>
          <Icon name={props.kind === 'file' ? 'file' : 'command'} class="muted" size={14} />
          {props.kind === 'file' ? <Path path={item.value} /> : <span class="nowrap">/{item.value}</span>}
          {item.about && <span class="muted small cut">{item.about}</span>}
        </li>
      ))}
    </ul>
  );
}

/** The name first, then its folder: the name is what people look for. */
function Path({ path }: { path: string }) {
  const at = path.lastIndexOf('/') + 1;
  return (
    <>
      <span class="nowrap">{path.slice(at)}</span>
      {at > 0 && <span class="muted small cut">{path.slice(0, at - 1)}</span>}
    </>
  );
}
