// A drawer: moves the focus into it when it opens, and back when it closes.
import type { VNode } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { goToRegion } from './regions';

export function Drawn(props: { name: string; open: boolean; children: VNode }) {
  const before = useRef<Element | null>(null);
  useEffect(() => {
    if (!props.open) return undefined;
    before.current = document.activeElement;
    goToRegion(props.name);
    return () => {
      if (before.current instanceof HTMLElement && before.current.isConnected) before.current.focus();
    };
  }, [props.open]);
  return props.children;
}
