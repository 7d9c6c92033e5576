// The transport of the chat in VS Code: the extension holds the state and is always there.
import type { ToServer, Transport, TransportEvents } from 'acp-conductor-client/link';
import { onMessage, vscode } from './api';

/** After so many milliseconds without an answer the page asks again: the extension may have had no chain to answer for. */
export const patience = 4000;

export class VsCodeTransport implements Transport {
  private events: TransportEvents | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    onMessage((message) => {
      if (typeof message['frame'] === 'string') {
        clearTimeout(this.timer);
        this.events?.frame(message['frame']);
      } else if (message['closed'] === true) this.lose();
    });
  }

  open(events: TransportEvents): void {
    this.close();
    this.events = events;
    this.timer = setTimeout(() => this.lose(), patience);
    queueMicrotask(() => {
      // Only the extension can answer, so there is no secret.
      if (this.events === events) events.opened('');
    });
  }

  send(message: ToServer): boolean {
    if (!this.events) return false;
    vscode.postMessage({ link: message });
    return true;
  }

  close(): void {
    clearTimeout(this.timer);
    this.events = null;
  }

  private lose(): void {
    const { events } = this;
    this.close();
    events?.closed('lost');
  }
}
