// The editor with an MCP server of its own (see peers/README.md) on the official TypeScript SDKs:
// node mcp-editor.mjs [--form M5|M6|M7] [--no-server] [--servers JSON] [--load ID] [--prompt TEXT]…
//   -- COMMAND ARGUMENT…

import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import { parseArgs } from "node:util";
import { fromMcpServer } from "@agentclientprotocol/sdk/experimental/mcp-server";
import * as acp from "@agentclientprotocol/sdk/unstable";
import { McpServer } from "@modelcontextprotocol/server";
import * as z from "zod/v4";
import { Connected, FORMS } from "./mcp-forms.mjs";

const { methods } = acp;
const SERVER = "editor-tools";
const { values: options, positionals: command } = parseArgs({
  allowPositionals: true,
  options: {
    form: { type: "string", default: "M7" },
    "no-server": { type: "boolean" },
    servers: { type: "string", default: "[]" },
    load: { type: "string" },
    prompt: { type: "string", multiple: true, default: [] },
  },
});
if (command.length === 0 || !["M5", "M6", "M7"].includes(options.form)) {
  console.error("usage: mcp-editor.mjs [--form M5|M6|M7] [OPTION…] -- COMMAND ARGUMENT…");
  process.exit(2);
}
const child = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
child.on("error", (error) => {
  console.error(error);
  process.exit(1);
});

const unexpected = [];
const texts = [];
let chunks = [];
const app = acp
  .client({ name: "mcp-editor-ts" })
  // The stream has noted it, in the order of arrival; see editor.mjs.
  .onNotification(methods.client.session.update, () => {})
  .onRequest(methods.client.session.requestPermission, ({ params }) => ({
    outcome: { outcome: "selected", optionId: params.options[0].optionId },
  }));
const refuse = (method) => {
  unexpected.push(method);
  throw acp.RequestError.methodNotFound(method);
};

/** Offers the tool by the SDK; returns the declaration for a connection. */
function stateless() {
  const provider = new acp.McpOverAcpProvider();
  app
    .onRequest(methods.client.mcp.message, provider.handleRequest)
    .onRequest("*", ({ method }) => refuse(method));
  const { handler } = fromMcpServer(() => {
    const server = new McpServer(
      { name: SERVER, version: "1" },
      { instructions: "echo says it again" },
    );
    const inputSchema = z.object({ message: z.string() });
    server.registerTool("echo", { inputSchema }, ({ message }) => ({
      content: [{ type: "text", text: message }],
    }));
    return server;
  });
  return (agent) => provider.registerServer(agent, { name: SERVER, handler }).declaration;
}

/** The same by hand, for the forms before the SDK's. */
function connected(form) {
  let agent;
  const consumer = {
    ask: (method, params, answered) =>
      agent.request(method, params).then(
        (result) => answered({ result }),
        ({ code, message }) => answered({ error: { code, message } }),
      ),
    tell: (method, params) => agent.notify(method, params),
  };
  const provider = new Connected(form, consumer, () => new Echo());
  const cancels = new Map();
  let requests = 0;
  app
    .onRequest("*", ({ method, params, signal }) => {
      const id = requests++;
      return new Promise((resolve, reject) => {
        const reply = ({ result, error }) =>
          error === undefined ? resolve(result) : reject(new acp.RequestError(error.code, error.message));
        if (!provider.request(id, method, params, reply, cancels)) refuse(method);
        signal.addEventListener("abort", () => cancels.get(id)?.());
      });
    })
    .onNotification("*", ({ method, params }) => void provider.notification(method, params));
  return (context) => {
    agent = context;
    return provider.declaration(SERVER, crypto.randomUUID());
  };
}

/** A whole MCP server, to be used like a `Link` to one. */
class Echo {
  ask(method, params, answered) {
    answered(this.#answer(method, params));
  }

  tell() {}
  forget() {}
  end() {}

  #answer(method, params) {
    switch (method) {
      case "initialize":
        return {
          result: {
            protocolVersion: params.protocolVersion,
            capabilities: { tools: {} },
            serverInfo: { name: SERVER, version: "1" },
            instructions: "echo says it again",
          },
        };
      case "ping":
        return { result: {} };
      case "tools/list": {
        const properties = { message: { type: "string" } };
        const inputSchema = { type: "object", properties, required: ["message"] };
        return { result: { tools: [{ name: "echo", inputSchema }] } };
      }
      case "tools/call":
        if (params.name !== "echo") return { error: { code: -32602, message: `no tool ${params.name}` } };
        return { result: { content: [{ type: "text", text: params.arguments.message }] } };
      default:
        return { error: { code: -32601, message: `no ${method}` } };
    }
  }
}

const declare = options.form === "M7" ? stateless() : connected(FORMS[options.form]);
const { readable, writable } = acp.ndJsonStream(
  Writable.toWeb(child.stdin),
  Readable.toWeb(child.stdout),
);
const noted = new TransformStream({
  transform(message, controller) {
    const update = message.method === methods.client.session.update && message.params.update;
    if (update?.sessionUpdate === "agent_message_chunk") chunks.push(update.content.text);
    controller.enqueue(message);
  },
});

const summary = { acp: false, texts, unexpected };
await app
  .connectWith({ readable: readable.pipeThrough(noted), writable }, async (agent) => {
    const greeting = await agent.request(methods.agent.initialize, {
      protocolVersion: acp.PROTOCOL_VERSION,
      clientCapabilities: {},
    });
    summary.acp = greeting.agentCapabilities?.mcpCapabilities?.acp === true;

    const mcpServers = JSON.parse(options.servers);
    if (!options["no-server"]) mcpServers.push(declare(agent));
    const setup = { cwd: process.cwd(), mcpServers };
    let sessionId = options.load;
    if (sessionId === undefined) {
      ({ sessionId } = await agent.request(methods.agent.session.new, setup));
    } else {
      await agent.request(methods.agent.session.load, { sessionId, ...setup });
    }
    for (const text of options.prompt) {
      chunks = [];
      await agent.request(methods.agent.session.prompt, { sessionId, prompt: [{ type: "text", text }] });
      texts.push(chunks.join("\n"));
    }
  })
  .catch(({ code, message }) => (summary.error = { code, message }));
console.log(JSON.stringify(summary));

// Closing its input is how an editor tells an agent to leave; a good one does so by itself.
child.stdin.end();
child.on("exit", (code) => process.exit(summary.error ? 1 : (code ?? 1)));
