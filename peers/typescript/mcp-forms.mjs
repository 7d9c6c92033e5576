// The ways of MCP over ACP, from the provider's side: what declares a server, and how the messages travel.

const CANCELLED = { error: { code: -32800, message: "Request cancelled" } };
const notFound = (method) => ({ error: { code: -32601, message: `no ${method}` } });

// M2 to M6 carry method and params; M1 carries the whole MCP message.
const bare = {
  // ACP lets one write `null` for no params, MCP does not.
  unwrap: ({ connectionId, method, params }) => ({ key: connectionId, method, params: params ?? undefined }),
  wrap: (connectionId, { method, params }) => ({ connectionId, method, params }),
  answer: (outcome) => outcome,
  outcome: (answer) => answer,
};
const whole = {
  unwrap: ({ url, message }) => ({ key: url, ...message }),
  wrap: (url, message) => ({ url, message: { jsonrpc: "2.0", ...message } }),
  answer: (outcome, id) => ({ result: { message: { jsonrpc: "2.0", id, ...outcome } } }),
  outcome: ({ result, error }) => {
    if (error !== undefined) return { error };
    const { message } = result;
    return message.error === undefined ? { result: message.result } : { error: message.error };
  },
};
const asUrl = (name, id) => ({ type: "http", name, url: `acp:${id}`, headers: [] });
const both = (method) => ({ request: method, notification: method });
const twoWays = (methods) => ({ in: methods, out: methods });
const underscored = {
  ...bare,
  // A conductor of that time does not survive a message without params.
  wrap: (connectionId, { method, params }) => ({ connectionId, method, params: params ?? null }),
  declare: asUrl,
  ...twoWays(both("_mcp/message")),
  connect: "_mcp/connect",
  disconnect: "_mcp/disconnect",
  server: ({ acp_url }) => acp_url,
  connected: (connection_id) => ({ connection_id }),
  connection: ({ connection_id }) => connection_id,
};
const native = {
  ...bare,
  ...twoWays(both("mcp/message")),
  connect: "mcp/connect",
  disconnect: "mcp/disconnect",
  connected: (connectionId) => ({ connectionId }),
  connection: ({ connectionId }) => connectionId,
};

/** The forms that have connections. Each is as strict as the SDK that spoke it. */
export const FORMS = {
  M1: {
    ...whole,
    declare: asUrl,
    in: { request: "_mcp/client_to_server/request", notification: "_mcp/client_to_server/notification" },
    out: { request: "_mcp/server_to_client/request", notification: "_mcp/server_to_client/notification" },
  },
  M2: {
    ...underscored,
    ...twoWays({ request: "_mcp/request", notification: "_mcp/notification" }),
  },
  M3: underscored,
  M3b: { ...underscored, server: ({ acp_id }) => acp_id },
  M3t: {
    ...underscored,
    server: ({ url }) => url,
    // The consumer has chosen it.
    choose: ({ connectionId }) => connectionId,
    connected: (connectionId) => ({ connectionId }),
    connection: ({ connectionId }) => connectionId,
  },
  M4: {
    ...native,
    declare: (name, uuid) => ({ transport: "acp", name, uuid }),
    server: ({ acpUrl }) => acpUrl.replace(/^acp:/, ""),
  },
  M5: {
    ...native,
    declare: (name, id) => ({ type: "acp", name, id }),
    server: ({ acpId }) => acpId,
  },
  M6: {
    ...native,
    declare: (name, serverId) => ({ type: "acp", name, serverId }),
    server: ({ serverId }) => serverId,
  },
};

/**
 * A provider in one of these forms. `consumer` leads to whoever uses the server, with `ask` and `tell`.
 * `open(on)` starts an MCP server and returns a `Link` to it, which also has `end()`.
 *
 * As in `Stateless`, `request` and `notification` say whether the message was for a server of this provider,
 * and while a request is running, `cancels` has under its id how to cancel it.
 */
export class Connected {
  #form;
  #consumer;
  #open;
  #servers = new Set();
  #connections = new Map(); // key → { link, running: MCP id or hop id of a request → cancel it }

  constructor(form, consumer, open) {
    this.#form = form;
    this.#consumer = consumer;
    this.#open = open;
  }

  declaration(name, id) {
    const entry = this.#form.declare(name, id);
    this.#servers.add(entry.url ?? id);
    return entry;
  }

  request(id, method, params, reply, cancels) {
    const form = this.#form;
    if (method === form.connect) {
      if (!this.#servers.has(form.server(params))) return false;
      const key = form.choose?.(params) ?? `connection-${crypto.randomUUID()}`;
      this.#connect(key);
      reply({ result: form.connected(key) });
      return true;
    }
    if (method === form.disconnect) {
      const known = this.#disconnect(form.connection(params));
      if (known) reply({ result: {} });
      return known;
    }
    if (method !== form.in.request) return false;
    const inner = form.unwrap(params);
    const connection = this.#connection(inner.key);
    if (connection === undefined) return false;

    // Without an id of its own, the request is known to the consumer by that of the hop.
    const name = inner.id ?? id;
    const done = (answer) => {
      connection.running.delete(name);
      cancels.delete(id);
      reply(answer);
    };
    const asked = connection.link.ask(inner.method, inner.params, (outcome) =>
      done(form.answer(outcome, inner.id)),
    );
    // A server does not answer what was cancelled, but ACP wants each request answered.
    const cancel = (reason) => {
      connection.link.forget(asked);
      connection.link.tell("notifications/cancelled", { requestId: asked, reason });
      done(CANCELLED);
    };
    connection.running.set(name, cancel);
    cancels.set(id, cancel);
    return true;
  }

  notification(method, params) {
    const form = this.#form;
    if (method === form.disconnect) return this.#disconnect(form.connection(params));
    if (method !== form.in.notification) return false;
    const inner = form.unwrap(params);
    const connection = this.#connection(inner.key);
    if (connection === undefined) return false;
    if (inner.method === "notifications/cancelled") {
      const { running } = connection;
      // Most forms lose the MCP id on the way; then it can only be the one that is running.
      const [only] = running.size === 1 ? running.values() : [];
      (running.get(inner.params.requestId) ?? only)?.(inner.params.reason);
    } else {
      connection.link.tell(inner.method, inner.params);
    }
    return true;
  }

  end() {
    for (const { link } of this.#connections.values()) link.end();
  }

  #connection(key) {
    // M1 does not connect.
    if (this.#form.connect === undefined && this.#servers.has(key) && !this.#connections.has(key)) {
      this.#connect(key);
    }
    return this.#connections.get(key);
  }

  #connect(key) {
    const form = this.#form;
    const link = this.#open({
      request: (id, method, params) =>
        this.#consumer.ask(form.out.request, form.wrap(key, { id, method, params }), (answer) =>
          link.answer(id, form.outcome(answer)),
        ),
      notification: (method, params) =>
        this.#consumer.tell(form.out.notification, form.wrap(key, { method, params })),
      closed: () => this.#connections.delete(key),
    });
    this.#connections.set(key, { link, running: new Map() });
  }

  #disconnect(key) {
    const connection = this.#connections.get(key);
    connection?.link.end();
    return connection !== undefined;
  }
}

const META = "io.modelcontextprotocol/";
const MODERN = "2026-07-28";
/** What these results must have in that version. */
const uncached = { ttlMs: 0, cacheScope: "private" };
const CACHEABLE = /^(server\/discover|.*\/list|resources\/read)$/;

/**
 * A provider in the form M7, which has no connections, around one MCP server that wants one. What the server
 * asks becomes `input_required`.
 */
export class Stateless {
  #consumer;
  #open;
  #serverId = `mcp-server:${crypto.randomUUID()}`;
  #server; // { link, greeting: outcome of the handshake, waiting: who wants to know it }
  #active = new Map(); // requestId → operation
  #paused = new Map(); // requestState → operation
  #states = 0;

  constructor(consumer, open) {
    this.#consumer = consumer;
    this.#open = open;
  }

  declaration(name) {
    return { type: "acp", name, serverId: this.#serverId };
  }

  request(id, method, params, reply, cancels) {
    if (method !== "mcp/message" || params.serverId !== this.#serverId) return false;
    const { requestId } = params;
    if (this.#active.has(requestId)) {
      reply({ error: { code: -32602, message: `${requestId} is running` } });
      return true;
    }
    const inner = stripped(params.params);
    const operation = this.#paused.get(inner.requestState) ?? { method: params.method };
    this.#paused.delete(inner.requestState);
    this.#active.set(requestId, operation);
    operation.requestId = requestId;
    operation.progressToken = inner._meta?.progressToken;
    operation.capabilities = params.params?._meta?.[`${META}clientCapabilities`] ?? {};
    operation.reply = (outcome) => {
      this.#active.delete(requestId);
      cancels.delete(id);
      reply(outcome);
    };
    cancels.set(id, () => {
      operation.reply(CANCELLED);
      if (operation.asked === undefined) return;
      this.#server.link.forget(operation.asked);
      this.#server.link.tell("notifications/cancelled", { requestId: operation.asked });
    });

    if (operation.question !== undefined) {
      const { question } = operation;
      operation.question = undefined;
      this.#server.link.answer(question, { result: inner.inputResponses?.input });
    } else {
      this.#greeted((greeting) => {
        // It may have been cancelled while the server came up.
        if (this.#active.get(requestId) === operation) this.#start(operation, inner, greeting);
      });
    }
    return true;
  }

  notification() {
    return false; // The consumer has none.
  }

  end() {
    this.#server?.link.end();
  }

  #start(operation, params, greeting) {
    const settle = ({ result, error }) => {
      if (error !== undefined) return operation.reply({ result: { error } });
      const cache = CACHEABLE.test(operation.method) ? uncached : {};
      operation.reply({ result: { result: { ...cache, ...result, resultType: "complete" } } });
    };
    if (greeting.error !== undefined) {
      operation.reply({ error: { code: -33002, message: greeting.error.message } });
    } else if (operation.method === "server/discover") {
      const { capabilities, instructions, serverInfo } = greeting.result;
      const _meta = { [`${META}serverInfo`]: serverInfo };
      settle({ result: { supportedVersions: [MODERN], capabilities, instructions, _meta } });
    } else {
      operation.asked = this.#server.link.ask(operation.method, params, settle);
    }
  }

  /** Calls `then` with the outcome of the handshake, once it has been made. */
  #greeted(then) {
    if (this.#server === undefined) {
      const link = this.#open({
        request: (id, method, params) => this.#asked(id, method, params),
        notification: (method, params) => this.#told(method, params),
        closed: () => (this.#server = undefined),
      });
      const server = { link, waiting: [], greeting: undefined };
      this.#server = server;
      const clientInfo = { name: "everything-proxy", version: "1" };
      // Each request says what its consumer can do; the server wants to know once and for all.
      const capabilities = { sampling: {}, elicitation: {} };
      const hello = { protocolVersion: "2025-11-25", capabilities, clientInfo };
      link.ask("initialize", hello, (outcome) => {
        if (outcome.error === undefined) link.tell("notifications/initialized");
        server.greeting = outcome;
        for (const it of server.waiting) it(outcome);
      });
    }
    if (this.#server.greeting !== undefined) then(this.#server.greeting);
    else this.#server.waiting.push(then);
  }

  /** The server's question pauses the only call that it can be about. */
  #asked(id, method, params) {
    const [operation, ...others] = [...this.#active.values()].filter((it) => it.asked !== undefined);
    const [capability] = method.split("/");
    if (method === "ping") {
      this.#server.link.answer(id, { result: {} });
    } else if (others.length > 0 || operation?.capabilities[capability] === undefined) {
      this.#server.link.answer(id, notFound(method));
    } else {
      const requestState = `state-${this.#states++}`;
      operation.question = id;
      this.#paused.set(requestState, operation);
      const inputRequests = { input: { method, params } };
      const result = { resultType: "input_required", inputRequests, requestState };
      operation.reply({ result: { result } });
    }
  }

  /** Only what belongs to a request may be told. */
  #told(method, params) {
    if (method !== "notifications/progress") return;
    for (const { requestId, progressToken } of this.#active.values()) {
      if (progressToken === params.progressToken) {
        this.#consumer.tell("mcp/message", { serverId: this.#serverId, requestId, method, params });
      }
    }
  }
}

/** The params without what only MCP 2026-07-28 has in `_meta`. */
function stripped(params) {
  if (params?._meta === undefined) return params ?? {};
  const kept = Object.entries(params._meta).filter(([key]) => !key.startsWith(META));
  return { ...params, _meta: Object.fromEntries(kept) };
}
