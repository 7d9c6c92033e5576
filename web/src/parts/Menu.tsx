// A button that opens a menu, as in the ARIA Authoring Practices.
import { useEffect, useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Button, type ButtonProps } from './Button';
import { Icon, type IconName } from './Icon';

export interface MenuItem {
  id: string;
  label: string;
  about?: string | undefined;
  icon?: IconName | undefined;
  /** One of a group: shows whether it is chosen. */
  checked?: boolean | undefined;
}

export function Menu(props: {
  button: Omit<ButtonProps, 'onClick' | 'expanded' | 'popup' | 'buttonRef'>;
  items: readonly MenuItem[];
  side?: 'up' | 'down';
  align?: 'left' | 'right';
  /** Grows when the menu is to be opened by a key. */
  openCount?: number;
  onSelect: (id: string) => void;
}) {
  const [open, setOpen] = useState(false);
  const place = useRef<HTMLSpanElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const id = useId();
  const off = props.button.disabled !== undefined && props.button.disabled !== false;

  const close = (focus: boolean) => {
    setOpen(false);
    if (focus) button.current?.focus();
  };
  const itemsOf = () => [...(place.current?.querySelectorAll<HTMLElement>('.menu-item') ?? [])];

  // A menu that is shown again does not open by an old key.
  const seen = useRef(props.openCount ?? 0);
  useEffect(() => {
    const count = props.openCount ?? 0;
    if (count > seen.current && !off) setOpen(true);
    seen.current = Math.max(seen.current, count);
  }, [props.openCount]);
  // Before the next key: it belongs to the menu.
  useLayoutEffect(() => {
    if (!open) return undefined;
    const all = itemsOf();
    (all.find((item) => item.getAttribute('aria-checked') === 'true') ?? all[0])?.focus();
    const outside = (event: Event) => {
      if (event.target instanceof Node && !place.current?.contains(event.target)) setOpen(false);
    };
    document.addEventListener('pointerdown', outside);
    return () => document.removeEventListener('pointerdown', outside);
  }, [open]);

  return (
    <span ref={place} class="menu-place" onKeyDown={(event) => {
      if (!open) {
        if (!off && (event.key === 'ArrowDown' || event.key === 'ArrowUp')) {
          event.preventDefault();
          setOpen(true);
        }
        return;
      }
      const all = itemsOf();
      const at = all.findIndex((item) => item === document.activeElement);
      const to = event.key === 'ArrowDown' ? at + 1 : event.key === 'ArrowUp' ? at - 1
        : event.key === 'Home' ? 0 : event.key === 'End' ? all.length - 1 : null;
      if (to !== null) {
        event.preventDefault();
        all[(to + all.length) % all.length]?.focus();
      } else if (event.key === 'Escape') {
        event.preventDefault();
        event.stopPropagation();
        close(true);
      } else if (event.key === 'Tab') {
        close(false);
      } else if (event.key.length === 1 && !event.ctrlKey && !event.altKey && !event.metaKey && event.key !== ' ') {
        const next = [...all.slice(at + 1), ...all.slice(0, at + 1)];
        next.find((item) => item.textContent?.toLowerCase().startsWith(event.key.toLowerCase()))?.focus();
      }
    }}>
      <Button {...props.button} buttonRef={button} popup="menu" expanded={open} controls={open ? id : undefined}
        onClick={() => setOpen(!open)} />
      {open && (
        <div role="menu" id={id} class={`menu ${props.side ?? 'down'} ${props.align ?? 'left'}`}
          aria-label={props.button.label ?? props.button.title}>
          {props.items.map((item) => (
            <button type="button" key={item.id} class="menu-item" tabIndex={-1}
              role={item.checked === undefined ? 'menuitem' : 'menuitemradio'} aria-checked={item.checked}
              onClick={() => {
                close(true);
                props.onSelect(item.id);
              }}>
              {item.checked !== undefined && (
                <Icon name="check" class={item.checked ? '' : 'unseen'} />
              )}
              {item.icon && <Icon name={item.icon} />}
              <span>
                {item.label}
                {item.about && <span class="about">{item.about}</span>}
              </span>
            </button>
          ))}
        </div>
      )}
    </span>
  );
}
