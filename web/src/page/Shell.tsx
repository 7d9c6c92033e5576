// Around every page: what is shown in its place while there is no connection, messages, and live regions.
import type { ComponentChildren } from 'preact';
import type { Store } from '../link/store';
import { Live } from '../parts/Live';
import { Toasts } from '../parts/Toast';
import { Connecting, NeedsLogIn, Outdated } from './Screens';

export function Shell(props: { store: Store; starting: string; children: ComponentChildren }) {
  const { store } = props;
  return (
    <>
      {store.outdated.value ? <Outdated />
        : store.needsLogin.value ? <NeedsLogIn onRetry={() => store.retryNow()} />
          : store.features.value !== null ? props.children
            : <Connecting text={props.starting} failed={store.state.value === 'ended'} onRetry={() => store.retryNow()} />}
      <Toasts />
      <Live />
    </>
  );
}
