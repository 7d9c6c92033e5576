// What comes into view cannot be answered at once: a click or a key was meant for what was there before.
import { useEffect, useRef, useState } from 'preact/hooks';

/** How long, in milliseconds. */
const hold = 400;

/** Whether what this key names has been in view long enough. Null is nothing. */
export function useReady(key: string | null): boolean {
  const [ready, setReady] = useState<string | null>(null);
  const latest = useRef(key);
  latest.current = key;
  useEffect(() => {
    setReady(null);
    if (key === null) return undefined;
    const timer = setTimeout(() => setReady(latest.current), hold);
    return () => clearTimeout(timer);
  }, [key]);
  return key === null || ready === key;
}
