// A modal dialog on the `<dialog>` element. The browser keeps the focus inside and gives it back.
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';
import { Button } from './Button';

export function Dialog(props: {
  title: string;
  class?: string;
  /** The title is only for screen readers, and there is no close button. */
  bare?: boolean;
  onClose: () => void;
  children: ComponentChildren;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const title = useId();
  useEffect(() => {
    const element = dialog.current;
    const before = document.activeElement;
    element?.showModal();
    return () => {
      element?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog ref={dialog} class={`dialog ${props.class ?? ''}`} aria-labelledby={title}
      onCancel={(event) => {
        event.preventDefault();
        props.onClose();
      }}
      onKeyDown={(event) => {
        // Keys of the page do not act behind a dialog.
        event.stopPropagation();
        if (event.key !== 'Escape' || event.defaultPrevented) return;
        event.preventDefault();
        props.onClose();
      }}
      onClick={(event) => {
        if (event.target === dialog.current) props.onClose();
      }}>
      {props.bare ? <h2 id={title} class="hidden-text">{props.title}</h2> : (
        <div class="dialog-head">
          <h2 id={title}>{props.title}</h2>
          <Button kind="plain" icon="x" label="Close" onClick={props.onClose} />
        </div>
      )}
      {props.bare ? props.children : <div class="dialog-body" tabIndex={0} role="group" aria-label={props.title}>{props.children}</div>}
    </dialog>
  );
}
