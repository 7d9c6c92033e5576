// The agent that uses MCP servers (see peers/README.md), on the official TypeScript SDKs of ACP and MCP:
// node mcp-agent.mjs [--http] [--eager] [--per-call]

import { Readable, Writable } from "node:stream";
import { parseArgs } from "node:util";
import * as acp from "@agentclientprotocol/sdk";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import * as mcp from "@modelcontextprotocol/sdk/types.js";

const { methods } = acp;
const options = parseArgs({
  options: {
    http: { type: "boolean" },
    eager: { type: "boolean" },
    "per-call": { type: "boolean" },
  },
}).values;
const sessions = new Map(); // id → { servers: name → entry, clients: name → client }
let opened = 0;
let progressTokens = 0;

/** A client of one MCP server, with `progress` by the token of a call; `ready` when it is connected. */
function connect(entry) {
  const client = new Client(
    { name: "mcp-agent-ts", version: "1" },
    { capabilities: { sampling: {}, elicitation: {}, roots: {} } },
  );
  client.setRequestHandler(mcp.CreateMessageRequestSchema, () => ({
    model: "peer",
    role: "assistant",
    content: { type: "text", text: "sampled" },
  }));
  client.setRequestHandler(mcp.ElicitRequestSchema, ({ params }) => ({
    action: "accept",
    content: filledIn(params.requestedSchema),
  }));
  client.setRequestHandler(mcp.ListRootsRequestSchema, () => ({
    roots: [{ uri: "file:///peer-root", name: "peer" }],
  }));
  // Not the SDK's `onprogress`: it forgets a call's listener when the answer comes, and then loses the
  // progress that came just before.
  client.progress = new Map();
  client.setNotificationHandler(mcp.ProgressNotificationSchema, ({ params }) => {
    client.progress.get(params.progressToken)?.(params.progress);
  });
  client.ready = client.connect(transport(entry));
  client.ready.catch(() => {}); // Whoever waits for it will know.
  return client;
}

async function end(client) {
  // Over HTTP the SDK leaves it to us to tell the server. It may be beyond hearing.
  const told = client.transport?.terminateSession?.().catch(() => {});
  await Promise.race([told, new Promise((resolve) => setTimeout(resolve, 1000))]);
  await client.close();
}

function transport(entry) {
  const pairs = (list) => Object.fromEntries(list.map(({ name, value }) => [name, value]));
  if (entry.type === "http") {
    return new StreamableHTTPClientTransport(new URL(entry.url), {
      requestInit: { headers: pairs(entry.headers) },
    });
  }
  if (entry.type !== undefined) throw new Error(`no transport ${entry.type}`);
  const { PATH, HOME, LANG } = process.env;
  // What the SDK would hand on by itself.
  const withheld = { LOGNAME: undefined, SHELL: undefined, TERM: undefined, USER: undefined };
  return new StdioClientTransport({
    command: entry.command,
    args: entry.args,
    env: { ...withheld, PATH, HOME, LANG, ...pairs(entry.env) },
  });
}

/** What a form needs at least. */
function filledIn(schema) {
  const value = (name) => (schema.properties[name].type === "boolean" ? true : "elicited");
  return Object.fromEntries((schema?.required ?? []).map((name) => [name, value(name)]));
}

/** Runs `use` with a client of the server. */
async function withClient({ servers, clients }, name, use) {
  const entry = servers.get(name);
  if (entry === undefined) throw new mcp.McpError(mcp.ErrorCode.InvalidParams, `no server ${name}`);
  if (options["per-call"]) clients.delete(name);
  if (!clients.has(name)) clients.set(name, connect(entry));
  const client = clients.get(name);
  try {
    await client.ready;
    return await use(client);
  } finally {
    if (options["per-call"]) await end(client);
  }
}

async function call(client, tool, args, said, signal) {
  const progressToken = progressTokens++;
  client.progress.set(progressToken, said);
  try {
    const params = { name: tool, arguments: args, _meta: { progressToken } };
    return await client.callTool(params, undefined, { signal });
  } finally {
    client.progress.delete(progressToken);
  }
}

const scripts = {
  servers: async ({ servers }) =>
    [...servers.values()].map(({ name, type }) => ({ name, transport: type ?? "stdio" })),
  tools: (session, name) =>
    withClient(session, name, async (client) => names((await client.listTools()).tools)),
  resources: (session, name) =>
    withClient(session, name, async (client) => names((await client.listResources()).resources)),
  prompts: (session, name) =>
    withClient(session, name, async (client) => names((await client.listPrompts()).prompts)),
  instructions: (session, name) =>
    withClient(session, name, async (client) => ({
      instructions: client.getInstructions() ?? null,
      name: client.getServerVersion().name,
    })),
  call: (session, name, [tool, args], say) =>
    withClient(session, name, async (client) => {
      const { isError, content } = await call(client, tool, args, (it) => say(`progress ${it}`));
      return { isError: isError ?? false, content };
    }),
  cancel: (session, name, [tool, args]) =>
    withClient(session, name, async (client) => {
      const control = new AbortController();
      const cancel = () => control.abort("cancelled by the peer");
      const timer = setTimeout(cancel, 500);
      try {
        await call(client, tool, args, cancel, control.signal);
        return { error: { code: 0, message: "answered before it could be cancelled" } };
      } catch (error) {
        if (!control.signal.aborted) throw error;
        return "cancelled";
      } finally {
        clearTimeout(timer);
      }
    }),
};

async function play(session, text, say) {
  const [, verb, name, tool, args] = text.match(/^(\w+)(?: (\S+)(?: (\S+)(?: (.*))?)?)?$/s) ?? [];
  if (!Object.hasOwn(scripts, verb)) return `heard ${text}`;
  try {
    return await scripts[verb](session, name, [tool, JSON.parse(args ?? "{}")], say);
  } catch (error) {
    // The SDK writes the code into the message, too.
    const code = error instanceof mcp.McpError ? error.code : mcp.ErrorCode.ConnectionClosed;
    return { error: { code, message: error.message.replace(`MCP error ${code}: `, "") } };
  }
}

const names = (list) => list.map(({ name }) => name).sort();

/** Compact, with the keys in order, so that all agents write the same. */
const compact = (value) =>
  JSON.stringify(value, (_, it) =>
    it === null || typeof it !== "object" || Array.isArray(it)
      ? it
      : Object.fromEntries(Object.entries(it).sort(([a], [b]) => (a < b ? -1 : 1))),
  );

async function open(sessionId, mcpServers) {
  await close(sessionId);
  const servers = new Map(mcpServers.map((it) => [it.name, it]));
  const session = { servers, clients: new Map() };
  sessions.set(sessionId, session);
  if (!options.eager) return;
  const list = (name) => withClient(session, name, (client) => client.listTools());
  await Promise.all([...servers.keys()].map(list)).catch(async (error) => {
    await close(sessionId);
    throw acp.RequestError.internalError(undefined, error.message);
  });
}

async function close(sessionId) {
  const clients = [...(sessions.get(sessionId)?.clients.values() ?? [])];
  sessions.delete(sessionId);
  await Promise.all(clients.map(end));
}

const agent = acp
  .agent({ name: "mcp-agent-ts" })
  .onRequest(methods.agent.initialize, () => ({
    protocolVersion: acp.PROTOCOL_VERSION,
    agentCapabilities: {
      loadSession: true,
      sessionCapabilities: { close: {} },
      ...(options.http && { mcpCapabilities: { http: true, sse: true } }),
    },
    agentInfo: { name: "mcp-agent-ts", version: "1" },
  }))
  .onRequest(methods.agent.session.new, async ({ params }) => {
    opened += 1;
    const sessionId = `mcp-session-${opened}`;
    await open(sessionId, params.mcpServers);
    return { sessionId };
  })
  .onRequest(methods.agent.session.load, async ({ params }) => {
    await open(params.sessionId, params.mcpServers);
    return {};
  })
  .onRequest(methods.agent.session.close, async ({ params }) => {
    await close(params.sessionId);
    return {};
  })
  .onRequest(methods.agent.session.prompt, async ({ params, client }) => {
    const { sessionId } = params;
    if (!sessions.has(sessionId)) throw acp.RequestError.invalidParams(undefined, "no such session");
    const say = (text) =>
      client.notify(methods.client.session.update, {
        sessionId,
        update: { sessionUpdate: "agent_message_chunk", content: { type: "text", text } },
      });
    const text = params.prompt.find((it) => it.type === "text")?.text ?? "";
    const said = await play(sessions.get(sessionId), text, say);
    await say(typeof said === "string" ? said : compact(said));
    return { stopReason: "end_turn" };
  });

const editor = agent.connect(
  acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)),
);
await editor.closed;
await Promise.all([...sessions.keys()].map(close));
