// A button with an optional icon. A button with an icon only needs a label.
import type { ComponentChildren, Ref } from 'preact';
import { Icon, type IconName } from './Icon';

export interface ButtonProps {
  /** `plain` has no border, `main` is the one that the user most likely wants. */
  kind?: 'normal' | 'main' | 'plain' | undefined;
  icon?: IconName | undefined;
  /** The name of a button without text. It is also its tool tip. */
  label?: string | undefined;
  /** More about it, as a tool tip. */
  title?: string | undefined;
  /** Why it cannot be used now. The button stays focusable and says the reason. */
  disabled?: boolean | string | undefined;
  onClick?: ((event: MouseEvent) => void) | undefined;
  class?: string | undefined;
  id?: string | undefined;
  buttonRef?: Ref<HTMLButtonElement> | undefined;
  expanded?: boolean | undefined;
  controls?: string | undefined;
  pressed?: boolean | undefined;
  popup?: 'menu' | 'dialog' | 'listbox' | undefined;
  keys?: string | undefined;
  children?: ComponentChildren;
}

export function Button(props: ButtonProps) {
  const off = props.disabled !== undefined && props.disabled !== false;
  const reason = typeof props.disabled === 'string' ? props.disabled : undefined;
  const only = props.children === undefined || props.children === null;
  return (
    <button type="button" id={props.id} ref={props.buttonRef ?? null}
      class={`button ${props.kind ?? 'normal'}${only ? ' only-icon' : ''} ${props.class ?? ''}`}
      aria-label={props.label} title={reason ?? props.title ?? (only ? props.label : undefined)}
      aria-disabled={off ? 'true' : undefined} aria-expanded={props.expanded} aria-controls={props.controls}
      aria-pressed={props.pressed} aria-haspopup={props.popup} aria-keyshortcuts={props.keys}
      onClick={(event) => {
        if (off) event.preventDefault();
        else props.onClick?.(event);
      }}>
      {props.icon && <Icon name={props.icon} />}
      {!only && <span class="button-text">{props.children}</span>}
    </button>
  );
}
