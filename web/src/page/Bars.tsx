// Bars below the header: a lost connection, and a chain that starts or has ended.
import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import { duration } from '../base/format';
import { sayNow } from '../base/live';
import { useAfter, useNow } from '../base/signals';
import type { LinkState } from '../link/store';
import type { Chain } from 'acp-conductor-client/link';
import { Button } from '../parts/Button';
import { Icon } from '../parts/Icon';

export function LostBar(props: {
  state: LinkState;
  retryAt: number | null;
  /** Said instead of the reason, where the person cannot do anything. */
  text?: string;
  onRetry: () => void;
}) {
  const gone = props.state === 'lost' || props.state === 'ended';
  const now = useNow(gone);
  const late = useAfter(gone, 150);
  const ended = props.state === 'ended';
  useEffect(() => {
    if (late) sayNow(props.text ?? (ended ? 'Conductor has ended' : 'Connection lost'));
  }, [late, ended]);
  if (!late) return null;
  if (props.text !== undefined) {
    return (
      <section class="bar" aria-label="Connection" data-bar="lost">
        <Icon name="clock" class="is-accent" />
        <span class="grow">{props.text}</span>
      </section>
    );
  }
  const wait = props.retryAt === null ? 0 : Math.max(0, props.retryAt - now);
  return (
    <section class="bar lost" aria-label="Connection" data-bar="lost">
      <Icon name="unplug" class="is-warn" />
      <span class="grow num">
        {ended ? 'Conductor has ended. Start it again and open the address that it prints. '
          : 'Connection lost. What you see stays readable. '}
        {wait >= 1000 ? `Trying again in ${duration(wait)}.` : 'Trying again.'}
      </span>
      <Button onClick={props.onRetry}>Try now</Button>
    </section>
  );
}

export function ChainBar(props: { chain: Chain; onCopy: (text: string) => void; children?: ComponentChildren }) {
  const { chain } = props;
  const slow = useAfter(chain.state === 'starting', 150);
  const text = chain.error ?? 'The chain has ended. Start Conductor again.';
  const ended = chain.state === 'ended';
  useEffect(() => {
    if (ended) sayNow(text);
  }, [ended, text]);
  if (chain.state === 'starting' && slow) {
    return (
      <section class="bar" aria-label="Chain" data-bar="starting">
        <Icon name="clock" class="is-accent" />
        <span>Starting {chain.components.join(', ') || 'the chain'}…</span>
      </section>
    );
  }
  if (!ended) return null;
  return (
    <section class="bar err" aria-label="Chain" data-bar="ended">
      <Icon name="circle-alert" class="is-err" />
      <span class="grow bar-text">{text}</span>
      {props.children}
      <Button icon="copy" onClick={() => props.onCopy(text)}>Copy details</Button>
    </section>
  );
}
