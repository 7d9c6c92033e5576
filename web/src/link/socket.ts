// The transport of the page in a browser: log-in with the key of the address, then a WebSocket.
import type { ClosedReason, ToServer, Transport, TransportEvents } from 'acp-conductor-client/link';

/** Names in localStorage have the port, because another port is another program. */
const tokenName = () => `conductor-token-${location.port || '80'}`;

function storedToken(): string | null {
  try {
    return localStorage.getItem(tokenName());
  } catch {
    return null;
  }
}

function storeToken(token: string | null): void {
  try {
    if (token === null) localStorage.removeItem(tokenName());
    else localStorage.setItem(tokenName(), token);
  } catch {
    // Without storage, the token holds until the page is closed.
  }
}

/** Takes the key from the fragment, and removes it from the address and from the history. */
export function takeKey(): string | null {
  const fragment = new URLSearchParams(location.hash.slice(1));
  const key = fragment.get('key');
  if (key === null) return null;
  fragment.delete('key');
  const rest = fragment.toString();
  history.replaceState(history.state, '', `${location.pathname}${location.search}${rest ? `#${rest}` : ''}`);
  return key;
}

type LogIn = { token: string } | 'refused' | 'later' | 'login';

async function logIn(key: string): Promise<LogIn> {
  try {
    const answer = await fetch('/api/login', {
      method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ key }),
    });
    // Too many tries: the key may still be right.
    if (answer.status === 429) return 'later';
    if (!answer.ok) return answer.status >= 500 ? 'refused' : 'login';
    const body: unknown = await answer.json();
    const token = typeof body === 'object' && body !== null && 'token' in body ? body.token : null;
    return typeof token === 'string' ? { token } : 'login';
  } catch {
    return 'refused';
  }
}

/** Why the socket did not open: browsers do not tell, so ask without one. */
async function whyNoSocket(): Promise<'refused' | 'login' | 'lost'> {
  try {
    const answer = await fetch('/api/link', { method: 'POST', cache: 'no-store' });
    // The page is logged in, but there was no room for it.
    if (answer.status === 426) return 'lost';
    return answer.status === 401 || answer.status === 403 ? 'login' : 'refused';
  } catch {
    return 'refused';
  }
}

/** The codes with which the server closes a connection that it does not accept. */
const notLoggedIn = 4401;
const otherVersion = 4400;

export class WebSocketTransport implements Transport {
  private socket: WebSocket | null = null;
  private turn = 0;
  private token: string | null = storedToken();
  /** The token that the server did not accept. */
  private refused: string | null = null;

  constructor(private key: string | null) {}

  /** The next connection logs in with this key. */
  useKey(key: string): void {
    this.key = key;
  }

  open(events: TransportEvents): void {
    this.close();
    void this.start(events, this.turn);
  }

  send(message: ToServer): boolean {
    if (this.socket?.readyState !== WebSocket.OPEN) return false;
    this.socket.send(JSON.stringify(message));
    return true;
  }

  close(): void {
    this.turn += 1;
    this.socket?.close();
    this.socket = null;
  }

  private async start(events: TransportEvents, turn: number): Promise<void> {
    if (this.key !== null) {
      const answer = await logIn(this.key);
      if (turn !== this.turn) return;
      if (answer === 'refused') return events.closed('refused');
      if (answer === 'later') return events.closed('lost');
      this.key = null;
      if (answer !== 'login') {
        this.token = answer.token;
        storeToken(this.token);
      }
    }
    // Another tab may have logged in since.
    const stored = storedToken();
    const token = this.token ?? (stored === this.refused ? null : stored);
    if (token === null) return events.closed('login');
    this.token = token;
    this.listen(new WebSocket(`${location.origin.replace(/^http/, 'ws')}/api/link`), token, events, turn);
  }

  private listen(socket: WebSocket, token: string, events: TransportEvents, turn: number): void {
    this.socket = socket;
    let opened = false;
    socket.onopen = () => {
      opened = true;
      if (turn === this.turn) events.opened(token);
    };
    socket.onmessage = (event) => {
      if (turn === this.turn && typeof event.data === 'string') events.frame(event.data);
    };
    socket.onclose = async (event) => {
      if (turn !== this.turn) return;
      this.socket = null;
      let reason: ClosedReason = 'lost';
      if (event.code === notLoggedIn) {
        reason = 'login';
        this.refused = token;
      } else if (event.code === otherVersion) reason = 'version';
      else if (!opened) reason = await whyNoSocket();
      if (turn !== this.turn) return;
      if (reason === 'login') this.token = null;
      events.closed(reason);
    };
  }
}
