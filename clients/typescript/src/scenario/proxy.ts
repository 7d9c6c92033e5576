// A mock proxy for scenarios: it passes everything on, and acts on prompts and on what the person does.
//
//   import { mockProxy } from 'acp-conductor-client/scenario/proxy';
//
//   mockProxy({ prompt: async (prompt, proxy) => proxy.toAgent('session/prompt', prompt) });
import { createInterface } from 'node:readline';

type Params = Record<string, unknown>;

/** What the proxy does. Everything else passes unchanged. */
export interface ProxyActions {
  /** Answers a prompt of the editor. `proxy.toAgent('session/prompt', prompt)` passes it on. */
  prompt?(prompt: Params, proxy: MockProxy): Promise<unknown>;
  /** Takes a notification of the editor about a panel or a comment. */
  event?(method: string, params: Params, proxy: MockProxy): void;
}

interface Message {
  id?: unknown;
  method?: string;
  params?: Params;
  result?: unknown;
  error?: unknown;
}

/** How the proxy speaks with its neighbours. */
export class MockProxy {
  private readonly waiting = new Map<string, (answer: Message) => void>();
  private last = 0;

  constructor(private readonly actions: ProxyActions) {}

  /** Sends a request toward the agent. Rejects with the error object of the answer. */
  toAgent(method: string, params: Params): Promise<unknown> {
    return this.ask('proxy/successor', { method, params });
  }

  /** Sends a request toward the editor. Rejects with the error object of the answer. */
  toEditor(method: string, params: Params): Promise<unknown> {
    return this.ask(method, params);
  }

  /** Sends a log message (`_scp/log`). */
  log(level: 'debug' | 'info' | 'warn' | 'error', message: string): void {
    this.write({ method: '_scp/log', params: { level, message } });
  }

  /** Takes one message of the conductor. */
  receive(message: Message): void {
    const { id, method, params = {} } = message;
    if (method === undefined) {
      const answer = this.waiting.get(String(id));
      this.waiting.delete(String(id));
      answer?.(message);
    } else if (method === 'proxy/successor') {
      const { method: inner, params: given } = params;
      this.pass(id, { method: String(inner), params: given as Params });
    } else if (method === 'session/prompt' && this.actions.prompt) {
      this.actions.prompt(params, this).then(
        (result) => this.write({ id, result }),
        (error: unknown) => this.write({ id, error: isError(error) ? error : { code: -32603, message: String(error) } }),
      );
    } else {
      if (id === undefined) this.actions.event?.(method, params, this);
      // The proxy sends no request that the conductor could cancel by its id.
      if (method === '$/cancel_request') return;
      const inner = method === 'proxy/initialize' ? 'initialize' : method;
      this.pass(id, { method: 'proxy/successor', params: { method: inner, params } });
    }
  }

  /** Passes a request or a notification on, and its answer back. */
  private pass(id: unknown, message: Message): void {
    if (id === undefined) this.write(message);
    else this.send(message, ({ result, error }) => this.write(error === undefined ? { id, result } : { id, error }));
  }

  private ask(method: string, params: Params): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.send({ method, params }, ({ result, error }) => (error === undefined ? resolve(result) : reject(error)));
    });
  }

  private send(message: Message, answer: (answer: Message) => void): void {
    const id = `proxy-${this.last += 1}`;
    this.waiting.set(id, answer);
    this.write({ id, ...message });
  }

  private write(message: Message): void {
    process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  }
}

function isError(value: unknown): value is { code: number; message: string } {
  return typeof value === 'object' && value !== null && 'code' in value && 'message' in value;
}

/** Runs a proxy on standard input and output, in the newest generation of the proxy protocol. */
export function mockProxy(actions: ProxyActions): MockProxy {
  const proxy = new MockProxy(actions);
  createInterface({ input: process.stdin })
    .on('line', (line) => proxy.receive(JSON.parse(line) as Message))
    .on('close', () => process.exit(0));
  return proxy;
}
