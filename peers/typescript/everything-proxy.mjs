// A proxy that offers an MCP server to every session (see peers/README.md), in any generation and by hand:
// node everything-proxy.mjs [--form M7] [--proxy P5] [--name everything] [--command "COMMAND ARGUMENT…"]

import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { Link } from "./lines.mjs";
import { Connected, FORMS, Stateless } from "./mcp-forms.mjs";

const SETUPS = ["session/new", "session/load", "session/resume", "session/fork"];
const PROXIES = {
  P5: { initialize: "proxy/initialize", request: "proxy/successor", notification: "proxy/successor" },
  P4: { initialize: "_proxy/initialize", request: "_proxy/successor", notification: "_proxy/successor" },
  P3: {
    initialize: "initialize",
    request: "_proxy/successor/request",
    notification: "_proxy/successor/notification",
  },
};

const EVERYTHING = import.meta.resolve("@modelcontextprotocol/server-everything/dist/index.js");
const { form, proxy, name, command } = parseArgs({
  options: {
    form: { type: "string", default: "M7" },
    proxy: { type: "string", default: "P5" },
    name: { type: "string", default: "everything" },
    command: { type: "string" },
  },
}).values;
const dialect = PROXIES[proxy];
if (dialect === undefined || (form !== "M7" && FORMS[form] === undefined)) {
  const forms = [...Object.keys(FORMS), "M7"].join("|");
  console.error(`usage: everything-proxy.mjs [--form ${forms}] [--proxy P3|P4|P5] [OPTION…]`);
  process.exit(2);
}

const cancels = new Map(); // id of a request that we have not answered → cancel it
const hop = new Link(process.stdin, process.stdout, {
  request(id, method, params) {
    const reply = (outcome) => hop.answer(id, outcome);
    if (method === dialect.request) {
      if (!provider.request(id, params.method, params.params, reply, cancels)) {
        pass(id, predecessor, params.method, params.params, reply);
      }
    } else if (method === dialect.initialize) {
      greet(id, params, reply);
    } else {
      pass(id, successor, method, SETUPS.includes(method) ? withServer(params) : params, reply);
    }
  },
  notification(method, params) {
    if (method === "$/cancel_request") {
      cancels.get(params.requestId)?.();
    } else if (method !== dialect.notification) {
      successor.tell(method, params);
    } else if (!provider.notification(params.method, params.params)) {
      predecessor.tell(params.method, params.params);
    }
  },
  // Nothing else keeps this process, once the servers have gone.
  closed: () => provider.end(),
});

const predecessor = hop;
const successor = {
  ask: (method, params, answered) => hop.ask(dialect.request, enveloped(method, params), answered),
  tell: (method, params) => hop.tell(dialect.notification, enveloped(method, params)),
};
const provider =
  form === "M7" ? new Stateless(successor, open) : new Connected(FORMS[form], successor, open);

// The older ones do not survive an envelope without params.
function enveloped(method, params) {
  return { method, params: proxy === "P5" ? params : (params ?? null) };
}

function pass(id, side, method, params, reply) {
  const asked = side.ask(method, params, (outcome) => {
    cancels.delete(id);
    reply(outcome);
  });
  cancels.set(id, () => hop.tell("$/cancel_request", { requestId: asked }));
}

function greet(id, params, reply) {
  if (proxy !== "P3") return pass(id, successor, "initialize", params, reply);
  const { _meta, ...capabilities } = params.clientCapabilities ?? {};
  if (_meta?.symposium?.proxy === undefined) {
    return reply({ error: { code: -32602, message: "this command requires the proxy capability" } });
  }
  const symposium = { version: "1.0" };
  const asked = { ...params, clientCapabilities: { ...capabilities, _meta: { symposium } } };
  pass(id, successor, "initialize", asked, ({ result, error }) => {
    if (error !== undefined) return reply({ error });
    const said = result.agentCapabilities;
    const marked = { ...said, _meta: { ...said?._meta, symposium: { ...symposium, proxy: true } } };
    reply({ result: { ...result, agentCapabilities: marked } });
  });
}

function withServer(params) {
  const server = provider.declaration(name, crypto.randomUUID());
  return { ...params, mcpServers: [...(params.mcpServers ?? []), server] };
}

/** Starts the MCP server. */
function open(on) {
  const words = command?.split(" ") ?? [process.execPath, fileURLToPath(EVERYTHING), "stdio"];
  const child = spawn(words[0], words.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
  child.on("error", (error) => console.error(error.message));
  const link = new Link(child.stdout, child.stdin, on);
  link.end = () => {
    child.stdin.end();
    const timer = setTimeout(() => child.kill(), 300);
    child.on("exit", () => clearTimeout(timer));
  };
  return link;
}
