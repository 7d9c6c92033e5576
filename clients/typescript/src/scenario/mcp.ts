// The MCP servers of a session, as a mock agent uses them: programs that speak JSON lines.
import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { McpServer } from '@agentclientprotocol/sdk';

export interface ToolResult {
  text: string;
  isError: boolean;
}

interface Answer {
  result?: unknown;
  error?: { message?: string };
}

export class McpServers {
  /** How many tools were called. */
  calls = 0;
  private readonly started = new Map<string, Promise<Server>>();

  constructor(private readonly servers: McpServer[]) {}

  async tools(name: string): Promise<string[]> {
    const list = await (await this.server(name)).request('tools/list', {});
    const tools: unknown = isRecord(list) ? list['tools'] : undefined;
    return Array.isArray(tools) ? tools.flatMap((tool) => (isRecord(tool) ? [String(tool['name'])] : [])) : [];
  }

  async call(name: string, tool: string, args: unknown): Promise<ToolResult> {
    const result = await (await this.server(name)).request('tools/call', { name: tool, arguments: args });
    const content: unknown = isRecord(result) ? result['content'] : undefined;
    const texts = Array.isArray(content) ? content.flatMap((block) => (isRecord(block) && typeof block['text'] === 'string' ? [block['text']] : [])) : [];
    return { text: texts.join('\n'), isError: isRecord(result) && result['isError'] === true };
  }

  async stop(): Promise<void> {
    await Promise.all([...this.started.values()].map(async (server) => (await server).stop()));
  }

  private server(name: string): Promise<Server> {
    const known = this.started.get(name);
    if (known) return known;
    const found = this.servers.find((server) => server.name === name);
    if (!found || !('command' in found)) {
      const names = this.servers.map((server) => server.name).join(', ');
      throw new Error(`the session has no MCP server '${name}' on standard input and output. It has: ${names || 'none'}`);
    }
    const started = Server.start(found.command, found.args, Object.fromEntries(found.env.map((one) => [one.name, one.value])));
    this.started.set(name, started);
    return started;
  }
}

class Server {
  private readonly waiting = new Map<number, (answer: Answer) => void>();
  private last = 0;

  private constructor(private readonly child: ChildProcessWithoutNullStreams) {
    createInterface({ input: child.stdout }).on('line', (line) => {
      const message: unknown = JSON.parse(line);
      if (!isRecord(message) || typeof message['id'] !== 'number' || 'method' in message) return;
      this.waiting.get(message['id'])?.(message);
      this.waiting.delete(message['id']);
    });
    child.once('exit', (code) => {
      for (const answer of this.waiting.values()) answer({ error: { message: `the MCP server has ended (${code})` } });
    });
    child.stderr.pipe(process.stderr);
  }

  static async start(command: string, args: string[], env: Record<string, string>): Promise<Server> {
    const server = new Server(spawn(command, args, { env: { ...process.env, ...env } }));
    await server.request('initialize', {
      protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'mock-agent', version: '1' },
    });
    server.write({ method: 'notifications/initialized' });
    return server;
  }

  async request(method: string, params: unknown): Promise<unknown> {
    const id = this.last += 1;
    const answer = await new Promise<Answer>((resolve) => {
      this.waiting.set(id, resolve);
      this.write({ id, method, params });
    });
    if (answer.error) throw new Error(`${method}: ${answer.error.message ?? 'failed'}`);
    return answer.result;
  }

  async stop(): Promise<void> {
    this.child.stdin.end();
    if (this.child.exitCode === null && this.child.signalCode === null) await once(this.child, 'exit');
  }

  private write(message: Record<string, unknown>): void {
    this.child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
