// Hooks that follow a topic while a part is shown.
import { useEffect, useMemo } from 'preact/hooks';
import type { Store, Topic } from './store';

export function useTopic(store: Store, name: string): Topic {
  const topic = useMemo(() => store.topic(name), [store, name]);
  useEffect(() => () => topic.release(), [topic]);
  return topic;
}
