// The screen that is shown when the agent needs a log-in.
import type { Login } from 'acp-conductor-client/link';
import { Button } from '../parts/Button';
import { Icon } from '../parts/Icon';

export function LogIn(props: {
  agent: string;
  logins: readonly Login[];
  error: string | null;
  busy: string | null;
  onLogIn: (id: string) => void;
  onCopy: (text: string) => void;
  /** Starts the chain again, where the page can do so. */
  onRestart?: (() => void) | undefined;
}) {
  return (
    <section class="screen" aria-labelledby="log-in-title">
      <Icon name="log-in" size={28} class="muted" />
      <h2 id="log-in-title">{props.agent} needs a log-in</h2>
      {props.error && <p class="is-err screen-text">{props.error}</p>}
      <ul role="list" class="logins">
        {props.logins.map((login) => (
          <li key={login.id} class="login">
            <div class="grow">
              <p><strong>{login.name}</strong></p>
              {login.about && <p class="muted">{login.about}</p>}
              {login.command !== null && (
                <p class="login-command">
                  Run this in a terminal, then start Conductor again: <code>{login.command}</code>
                </p>
              )}
            </div>
            {login.command === null
              ? (
                <Button kind="main" disabled={props.busy === login.id ? 'The log-in is under way.' : false}
                  onClick={() => props.onLogIn(login.id)}>
                  {props.busy === login.id ? 'Logging in' : 'Log in'}
                </Button>
              ) : (
                <Button icon="copy" onClick={() => props.onCopy(login.command ?? '')}>Copy command</Button>
              )}
          </li>
        ))}
      </ul>
      {props.onRestart && <Button icon="rotate-cw" onClick={props.onRestart}>Restart the chain</Button>}
      {!props.logins.length && <p class="muted screen-text">The agent offers no way to log in. See its documentation.</p>}
    </section>
  );
}
