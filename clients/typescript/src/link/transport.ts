// A way to the server. A transport is one connection at a time; the store decides when to open it again.
import type { ToServer } from './types';

/** Why there is no connection: it broke, the port is closed, the user has to log in, or the page is of another version. */
export type ClosedReason = 'lost' | 'refused' | 'login' | 'version';

export interface TransportEvents {
  /** The connection stands. The first message must be `hello` with this token. */
  opened(token: string): void;
  /** A frame: one message, or an array of them, as JSON. */
  frame(text: string): void;
  closed(reason: ClosedReason): void;
}

export interface Transport {
  /** Opens a connection. An earlier one is closed without a word. */
  open(events: TransportEvents): void;
  /** False: there is no connection, the caller keeps the message. */
  send(message: ToServer): boolean;
  close(): void;
}
