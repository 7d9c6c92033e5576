// The keyboard: maps of keys with scopes. Keys without a modifier never act while the user types.
import { useEffect, useRef } from 'preact/hooks';

/** What a key does. Returning `false` means: not used, let others have it. */
export type KeyAction = (event: KeyboardEvent) => void | boolean;

/** Keys as `Ctrl+K`, `Shift+F6`, `Alt+1`, `j`, `?`, `Escape`. `Ctrl` is also the command key of a Mac. */
export type KeyMap = Record<string, KeyAction>;

/** `page`, or an element: the keys act while the focus is inside of it. */
export type KeyScope = 'page' | { readonly current: HTMLElement | null };

/** With Alt, many keyboards write other signs: the key itself counts. An ASCII sign, such as @, is meant. */
function withAlt(event: KeyboardEvent): string {
  const found = /^(Digit|Key)(.)$/.exec(event.code ?? '');
  if (!found?.[2]) return event.key;
  return found[1] === 'Digit' || (event.key.length === 1 && event.key > '\u007f') ? found[2] : event.key;
}

/** The name of a pressed key, as it is written in a `KeyMap`. */
export function keyName(event: KeyboardEvent): string {
  const key = event.key === ' ' ? 'Space' : event.altKey ? withAlt(event) : event.key;
  const parts: string[] = [];
  if (event.ctrlKey || event.metaKey) parts.push('Ctrl');
  if (event.altKey) parts.push('Alt');
  // With a printable sign, Shift is already part of the sign.
  if (event.shiftKey && (key.length > 1 || event.ctrlKey || event.metaKey || event.altKey)) parts.push('Shift');
  const withModifier = parts.some((part) => part !== 'Shift');
  parts.push(key.length === 1 && withModifier ? key.toUpperCase() : key);
  return parts.join('+');
}

/** Whether the user types text at this place. */
export function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable || target instanceof HTMLTextAreaElement) return true;
  if (target instanceof HTMLSelectElement) return true;
  return target instanceof HTMLInputElement && !['button', 'checkbox', 'radio', 'submit'].includes(target.type);
}

/** Whether the user types something in the files, such as a reply. Then the files stay as they are. */
export function typesInFiles(): boolean {
  const place = globalThis.document?.activeElement ?? null;
  if (!place?.closest('.files') || !isTyping(place)) return false;
  return !(place instanceof HTMLInputElement) || place.value !== '';
}

/** Whether the key acts also while the user types. */
function actsWhileTyping(name: string): boolean {
  return /^(Ctrl|Alt)\+/.test(name) || /^(Shift\+)?F\d+$/.test(name) || name === 'Escape';
}

/** Handles one event by a map. Returns whether it was used. */
export function handleKey(event: KeyboardEvent, map: KeyMap): boolean {
  if (event.defaultPrevented || event.isComposing) return false;
  const name = keyName(event);
  const action = Object.hasOwn(map, name) ? map[name] : undefined;
  if (!action) return false;
  if (isTyping(event.target) && !actsWhileTyping(name)) return false;
  if (action(event) === false) return false;
  event.preventDefault();
  return true;
}

/** Handles keys while the part is shown. Inner scopes come before outer ones, the page comes last. */
export function useKeys(scope: KeyScope, map: KeyMap): void {
  const latest = useRef(map);
  latest.current = map;
  useEffect(() => {
    const target: HTMLElement | Document | null = scope === 'page' ? document : scope.current;
    if (!target) return undefined;
    const listen = (event: Event) => {
      if (event instanceof KeyboardEvent) handleKey(event, latest.current);
    };
    target.addEventListener('keydown', listen);
    return () => target.removeEventListener('keydown', listen);
  }, [scope]);
}
