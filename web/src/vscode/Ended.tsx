// What can be done when the chain has ended or did not start.
import type { Chain } from 'acp-conductor-client/link';
import { Button } from '../parts/Button';
import { Icon } from '../parts/Icon';
import { vscode } from './api';

export const restart = () => vscode.postMessage({ host: 'command', command: 'conductor.start' });

export function EndedButtons() {
  return (
    <>
      <Button kind="main" icon="rotate-cw" onClick={restart}>Restart</Button>
      <Button onClick={() => vscode.postMessage({ host: 'command', command: 'conductor.chooseChain' })}>Choose a chain</Button>
      <Button onClick={() => vscode.postMessage({ host: 'showLog' })}>Show the log</Button>
    </>
  );
}

/** In the place of a chat that has no messages yet. */
export function Ended({ chain }: { chain: Chain }) {
  return (
    <section class="screen" aria-labelledby="ended-title" data-bar="ended">
      <Icon name="unplug" size={28} class="muted" />
      <h2 id="ended-title">The chain does not run</h2>
      <p class="screen-text bar-text">{chain.error ?? 'It has ended.'}</p>
      <div class="buttons"><EndedButtons /></div>
    </section>
  );
}
