// Small helpers around signals and effects.
import { useEffect, useState } from 'preact/hooks';

/** The width of the window. */
export function useWidth(): number {
  const [width, setWidth] = useState(innerWidth);
  useEffect(() => {
    const listen = () => setWidth(innerWidth);
    addEventListener('resize', listen);
    return () => removeEventListener('resize', listen);
  }, []);
  return width;
}

/** The time now, renewed every `ms` while `running`. */
export function useNow(running: boolean, ms = 1000): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    if (!running) return undefined;
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), ms);
    return () => clearInterval(timer);
  }, [running, ms]);
  return now;
}

/** True after `ms` while `on` holds. For texts that must not flash. */
export function useAfter(on: boolean, ms: number): boolean {
  const [late, setLate] = useState(false);
  useEffect(() => {
    setLate(false);
    if (!on) return undefined;
    const timer = setTimeout(() => setLate(true), ms);
    return () => clearTimeout(timer);
  }, [on, ms]);
  return on && late;
}

/** Calls back once, `ms` after the last call. */
export function debounce<T extends unknown[]>(ms: number, run: (...args: T) => void) {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let last: T | undefined;
  const flush = () => {
    clearTimeout(timer);
    timer = undefined;
    const args = last;
    last = undefined;
    if (args) run(...args);
  };
  const call = (...args: T) => {
    last = args;
    clearTimeout(timer);
    timer = setTimeout(flush, ms);
  };
  const cancel = () => {
    clearTimeout(timer);
    last = undefined;
  };
  return { call, flush, cancel };
}
