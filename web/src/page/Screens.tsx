// Screens in the place of the page: no log-in, another version, and the first moment.
import type { ComponentChildren } from 'preact';
import { useAfter } from '../base/signals';
import { Button } from '../parts/Button';
import { Icon, type IconName } from '../parts/Icon';

function Screen(props: { icon: IconName; title: string; children: ComponentChildren }) {
  return (
    <main class="screen full">
      <Icon name={props.icon} size={28} class="muted" />
      <h1>{props.title}</h1>
      {props.children}
    </main>
  );
}

export function NeedsLogIn(props: { onRetry: () => void }) {
  return (
    <Screen icon="log-in" title="Log-in needed">
      <p class="screen-text">
        Open the address that <code>conductor</code> printed in the terminal. It ends with <code>#key=…</code> and logs
        this browser in.
      </p>
      <p class="screen-text muted">The log-in ends with the program. After a restart, use the new address.</p>
      <Button icon="refresh-cw" onClick={props.onRetry}>Try again</Button>
    </Screen>
  );
}

export function Outdated() {
  return (
    <Screen icon="refresh-cw" title="This page is older than Conductor">
      <p class="screen-text">Conductor was updated since this page was loaded.</p>
      <Button kind="main" onClick={() => location.reload()}>Load the page again</Button>
    </Screen>
  );
}

export function Connecting(props: { text: string; onRetry: () => void; failed: boolean }) {
  const late = useAfter(true, 150);
  return (
    <main class="screen full">
      <h1 class="hidden-text">Conductor</h1>
      {props.failed ? (
        <>
          <Icon name="unplug" size={28} class="muted" />
          <p class="screen-text">Conductor does not answer. Start it again and open the address that it prints.</p>
          <Button icon="refresh-cw" onClick={props.onRetry}>Try again</Button>
        </>
      ) : late && <p class="muted">{props.text}</p>}
    </main>
  );
}
