// The connection to a program that speaks ACP, by the official SDK.
//
// Messages are handled in the order in which they arrive: the next one is delivered when the one before was handled.
// Updates of sessions do not pass through the SDK: it checks them more strictly than agents write them.
import type { AnyMessage, ClientConnection, Stream } from '@agentclientprotocol/sdk';
import { at, isObject, text } from './json';
import { type Ended, RunningProgram } from './process';
import type { Program } from './program';
import { messageOf, type Outcome, RpcError, type RpcErrorObject, toRpcError } from './rpc-error';

/** While more bytes than that wait to be written, nothing is read. */
const mostQueued = 16 * 1024 * 1024;
/** The largest message. */
const mostBytes = 256 * 1024 * 1024;

export interface ConnectionHandlers {
  /** Performs a request of the agent. An error is the answer. The signal aborts when the agent cancels the request. */
  request(method: string, params: unknown, signal: AbortSignal): Promise<unknown>;
  notification(method: string, params: unknown): void;
  ended: Ended;
  stderr(line: string): void;
  trace(direction: 'in' | 'out', message: unknown): void;
}

/** Gets the answer to a request, or null if the program has ended without one. */
type Then = (outcome: Outcome | null) => void;

export class Connection {
  private readonly program: RunningProgram | null;
  private sdk: ClientConnection | null = null;
  /** Requests that were made before the connection was there. */
  private early: Array<{ method: string; params: unknown; then: Then }> = [];
  /** Requests that lost their connection. They are told when it is known why. */
  private readonly lost: Then[] = [];
  private isEnded = false;
  /** Our requests that have no answer yet. */
  private readonly open = new Set<unknown>();
  /** Called when the message that was delivered last was handled. */
  private handled: () => void = () => {};

  constructor(program: Program, private readonly handlers: ConnectionHandlers) {
    this.program = this.run(program);
    if (this.program) void this.connect(this.program);
  }

  /** Starts the program. Null if it cannot even be tried: an argument with a zero character, or an empty name. */
  private run(program: Program): RunningProgram | null {
    try {
      return new RunningProgram(program, (line) => this.handlers.stderr(line), (why) => this.end(why));
    } catch (error) {
      queueMicrotask(() => this.end(`cannot start '${program.command}': ${messageOf(error)}`));
      return null;
    }
  }

  private end(why: string | null): void {
    this.isEnded = true;
    this.handlers.ended(why);
    this.sdk?.close(new Error('the program has ended'));
    for (const { then } of this.early.splice(0)) then(null);
    for (const then of this.lost.splice(0)) then(null);
  }

  /** Sends a request. The callback gets its answer, before any message that follows the answer is handled. */
  ask(method: string, params: unknown, then: Then): void {
    if (this.isEnded) return then(null);
    if (!this.sdk) {
      this.early.push({ method, params, then });
      return;
    }
    const { signal } = this.sdk;
    const finish = (outcome: Outcome) => {
      if (signal.aborted && !this.isEnded) return void this.lost.push(then);
      try {
        then(this.isEnded ? null : outcome);
      } catch (error) {
        this.handlers.stderr(`the answer to ${method} could not be handled: ${messageOf(error)}`);
      }
      this.handled();
    };
    this.sdk.agent.request(method, params).then(
      (ok) => finish({ ok }),
      (error: unknown) => finish({ error: errorObject(error) }),
    );
  }

  notify(method: string, params: unknown): void {
    // A connection that is closed tells so by `ended`.
    void this.sdk?.agent.notify(method, params).catch(() => {});
  }

  /** Ends the program and all of its processes. */
  async stop(): Promise<void> {
    await this.program?.stop();
  }

  private async connect(program: RunningProgram): Promise<void> {
    // Loaded when it is needed: an editor that only starts up should not wait for it.
    const { client, ndJsonStream, RequestError } = await import('@agentclientprotocol/sdk');
    if (this.isEnded) return;
    const lines = ndJsonStream(outputTo(program), inputFrom(program), { maxMessageBytes: mostBytes });
    const app = client()
      .onNotification('*', ({ method, params }) => {
        this.notification(method, params);
        this.handled();
      })
      .onRequest('*', async ({ method, params, signal }) => {
        // What the handler does before it waits is done before the next message.
        const result = this.handlers.request(method, params, signal);
        this.handled();
        try {
          return await result;
        } catch (error) {
          const { code, message, data } = toRpcError(error);
          throw new RequestError(code, message, data);
        }
      });
    const sdk = app.connect(this.inOrder(lines));
    this.sdk = sdk;
    void sdk.closed.then(() => {
      if (!this.isEnded) program.abandon(closeReason(sdk.signal.reason));
    });
    for (const { method, params, then } of this.early.splice(0)) this.ask(method, params, then);
  }

  private notification(method: string, params: unknown): void {
    try {
      this.handlers.notification(method, params);
    } catch (error) {
      // A message of the agent must not end the program that reads it.
      this.handlers.stderr(`${method} could not be handled: ${messageOf(error)}`);
    }
  }

  /** Delivers one message at a time to the SDK, and updates of sessions directly. */
  private inOrder(lines: Stream): Stream {
    const reader = lines.readable.getReader();
    const writer = lines.writable.getWriter();
    let wait: Promise<void> | undefined;
    const readable = new ReadableStream<AnyMessage>({
      pull: async (controller) => {
        await wait;
        for (;;) {
          const { done, value } = await reader.read();
          if (done) return controller.close();
          this.handlers.trace('in', value);
          const message = this.wellFormed(value);
          if (!message) continue;
          if ('method' in message && message.method === 'session/update' && !('id' in message)) {
            this.notification(message.method, message.params);
            continue;
          }
          wait = new Promise((resolve) => {
            this.handled = resolve;
            // The SDK handles a message that is malformed without us.
            setImmediate(resolve);
          });
          return controller.enqueue(message);
        }
      },
      cancel: (why) => reader.cancel(why),
    }, { highWaterMark: 0 });
    const writable = new WritableStream<AnyMessage>({
      write: (message) => {
        if ('method' in message && 'id' in message) this.open.add(message.id);
        this.handlers.trace('out', message);
        return writer.write(message);
      },
    });
    return { readable, writable };
  }

  /** The message, with an answer as the SDK expects it. An answer that nobody waits for is left out. */
  private wellFormed(message: AnyMessage): AnyMessage | undefined {
    if (!isObject(message) || 'method' in message || !('id' in message)) return message;
    if (!this.open.delete(message.id)) return undefined;
    const { id } = message;
    const error = at(message, 'error');
    if (error === undefined || error === null) {
      return 'result' in message ? { jsonrpc: '2.0', id, result: message.result } : {
        jsonrpc: '2.0', id, error: { code: -32603, message: 'the answer has neither a result nor an error' },
      };
    }
    const code = at(error, 'code');
    return {
      jsonrpc: '2.0', id,
      error: {
        code: Number.isInteger(code) ? Number(code) : -32603,
        message: text(at(error, 'message')) ?? 'an error without a message',
        data: at(error, 'data') ?? (isObject(error) ? undefined : error),
      },
    };
  }
}

/** The bytes that the program writes. */
function inputFrom({ input, output }: RunningProgram): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>({
    start: (controller) => {
      output.on('data', (bytes: Uint8Array) => {
        controller.enqueue(bytes);
        // An agent that does not read its answers cannot fill the memory with them.
        if (input.writableLength > mostQueued) {
          output.pause();
          input.once('drain', () => output.resume());
        }
      });
      const close = () => {
        output.removeAllListeners('data');
        try {
          controller.close();
        } catch {
          // It was closed already.
        }
      };
      output.once('end', close);
      output.once('close', close);
    },
    cancel: () => {
      output.removeAllListeners('data');
      output.resume();
    },
  });
}

/** The bytes that the program reads. */
function outputTo({ input }: RunningProgram): WritableStream<Uint8Array> {
  return new WritableStream<Uint8Array>({
    // Nothing waits here: `input` knows how much waits. A program that does not read any more says so by its end.
    write: (bytes) => {
      if (input.writable) input.write(bytes);
    },
  });
}

/** Why a program that still runs cannot be used. */
function closeReason(reason: unknown): string {
  const why = reason instanceof Error && reason.name === 'MessageTooLargeError'
    ? `a message is larger than ${mostBytes / 1024 / 1024} MiB`
    : 'the program has closed its output';
  return `the connection was closed: ${why}`;
}

function errorObject(error: unknown): RpcErrorObject {
  const code = at(error, 'code');
  if (error instanceof Error && typeof code === 'number') {
    return new RpcError(code, error.message, at(error, 'data')).toObject();
  }
  return { code: -32603, message: messageOf(error) };
}
