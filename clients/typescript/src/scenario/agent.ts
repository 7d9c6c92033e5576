// A mock agent for scenarios: a function answers each prompt.
//
//   import { mockAgent } from 'acp-conductor-client/scenario/agent';
//
//   mockAgent(async (turn) => {
//     if (turn.text === 'Hello, world') await turn.say('Hello, user');
//   });
import { Readable, Writable } from 'node:stream';
import { agent, methods, ndJsonStream, type AgentContext, type PermissionOption } from '@agentclientprotocol/sdk';
import { McpServers, type ToolResult } from './mcp';

/** One prompt, and what the agent can do about it. */
export class Turn {
  constructor(
    /** The text of the prompt. */
    readonly text: string,
    readonly session: string,
    /** The folder of the session. */
    readonly folder: string,
    private readonly editor: AgentContext,
    private readonly servers: McpServers,
    /** Aborted when the person cancels the turn. */
    readonly signal: AbortSignal,
  ) {}

  /** Sends text as a message of the agent. */
  async say(text: string): Promise<void> {
    await this.update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text } });
  }

  /** Sends an update of the session, as ACP describes it. */
  async update(update: Record<string, unknown>): Promise<void> {
    await this.notify('session/update', { sessionId: this.session, update });
  }

  /** Sends a log message (`_scp/log`). */
  async log(level: 'debug' | 'info' | 'warn' | 'error', message: string, data?: unknown): Promise<void> {
    await this.notify('_scp/log', data === undefined ? { level, message } : { level, message, data });
  }

  /** Asks for a permission. Returns the id of the chosen option, or null if the turn was cancelled. */
  async ask(title: string, options: PermissionOption[] = yesOrNo): Promise<string | null> {
    const answer = await this.editor.request(methods.client.session.requestPermission, {
      sessionId: this.session, toolCall: { toolCallId: `ask-${title}`, title, kind: 'other', status: 'pending' }, options,
    });
    return answer.outcome.outcome === 'selected' ? answer.outcome.optionId : null;
  }

  /** The names of the tools that an MCP server of the session offers. */
  async tools(server: string): Promise<string[]> {
    return this.servers.tools(server);
  }

  /** Calls a tool of an MCP server of the session, and reports the call to the editor. */
  async callTool(server: string, tool: string, args: unknown): Promise<ToolResult> {
    const toolCallId = `${server}-${tool}-${this.servers.calls += 1}`;
    const title = `${server}: ${tool}`;
    await this.update({ sessionUpdate: 'tool_call', toolCallId, title, kind: 'other', status: 'in_progress', rawInput: args });
    const result = await this.servers.call(server, tool, args);
    await this.update({
      sessionUpdate: 'tool_call_update', toolCallId, status: result.isError ? 'failed' : 'completed',
      content: [{ type: 'content', content: { type: 'text', text: result.text } }],
    });
    return result;
  }

  /** Sends a request of any kind toward the editor. */
  async request(method: string, params: unknown): Promise<unknown> {
    return this.editor.request(method, params);
  }

  /** Sends a notification of any kind toward the editor. */
  async notify(method: string, params: unknown): Promise<void> {
    await this.editor.notify(method, params);
  }
}

const yesOrNo: PermissionOption[] = [
  { optionId: 'allow', name: 'Allow once', kind: 'allow_once' },
  { optionId: 'reject', name: 'Reject', kind: 'reject_once' },
];

/** Runs an agent on standard input and output. `answer` is called for each prompt. */
export function mockAgent(answer: (turn: Turn) => Promise<void> | void): void {
  const sessions = new Map<string, { folder: string; servers: McpServers; cancel: AbortController }>();
  const app = agent({ name: 'mock-agent' })
    .onRequest(methods.agent.initialize, () => ({
      protocolVersion: 1, agentCapabilities: {}, authMethods: [], agentInfo: { name: 'mock-agent', version: '1' },
    }))
    .onRequest(methods.agent.session.new, ({ params }) => {
      const sessionId = `session-${sessions.size + 1}`;
      sessions.set(sessionId, { folder: params.cwd, servers: new McpServers(params.mcpServers), cancel: new AbortController() });
      return { sessionId };
    })
    .onRequest(methods.agent.session.prompt, async ({ params, client }) => {
      const session = sessions.get(params.sessionId);
      if (!session) throw new Error(`there is no session ${params.sessionId}`);
      session.cancel = new AbortController();
      const text = params.prompt.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join('\n');
      const { signal } = session.cancel;
      await answer(new Turn(text, params.sessionId, session.folder, client, session.servers, signal));
      return { stopReason: signal.aborted ? 'cancelled' : 'end_turn' };
    })
    .onNotification(methods.agent.session.cancel, ({ params }) => sessions.get(params.sessionId)?.cancel.abort());
  // The types of Node and of the web name the same streams.
  const output = Writable.toWeb(process.stdout) as WritableStream<Uint8Array>;
  const input = Readable.toWeb(process.stdin) as ReadableStream<Uint8Array>;
  void app.connect(ndJsonStream(output, input)).closed.then(async () => {
    await Promise.all([...sessions.values()].map(({ servers }) => servers.stop()));
    process.exit(0);
  });
}
