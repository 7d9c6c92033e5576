// What the user can do with sessions and the log-in. A failure is shown as a message.
import { useMemo, useState } from 'preact/hooks';
import { results } from 'acp-conductor-client/link';
import type { Store } from '../link/store';
import { toast } from '../parts/Toast';
import { currentSession, drawer, narrowTab, showSession } from './view';
import { goToRegion } from './regions';

export interface Actions {
  newSession: () => void;
  openSession: (id: string) => void;
  closeSession: (id: string) => void;
  listSessions: () => void;
  logIn: (id: string) => void;
  /** The log-in that is under way. */
  loggingIn: string | null;
}

export function useActions(store: Store): Actions {
  const [loggingIn, setLoggingIn] = useState<string | null>(null);
  const plain = useMemo(() => {
    const failed = (error: unknown) => toast('err', error instanceof Error ? error.message : String(error));
    const show = (id: string) => {
      showSession(id);
      drawer.value = null;
      narrowTab.value = 'chat';
    };
    return {
      newSession() {
        store.do({ op: 'newSession' }).then((id) => {
          show(results.newSession(id, 'newSession'));
          requestAnimationFrame(() => goToRegion('composer'));
        }).catch(failed);
      },
      openSession(id: string) {
        show(id);
        const entry = store.topic('sessions');
        const session = entry.get(id).peek();
        entry.release();
        if (session?.kind === 'session' && ['saved', 'failed'].includes(session.state)) store.do({ op: 'openSession', session: id }).catch(failed);
      },
      closeSession(id: string) {
        store.do({ op: 'closeSession', session: id }).then(() => {
          if (currentSession.value === id) showSession(null);
        }).catch(failed);
      },
      listSessions() {
        store.do({ op: 'listSessions' }).catch(failed);
      },
      logIn(login: string) {
        setLoggingIn(login);
        store.do({ op: 'logIn', login }).catch(failed).finally(() => setLoggingIn(null));
      },
    };
  }, [store]);
  return { ...plain, loggingIn };
}
