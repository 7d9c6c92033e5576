// The proxy of the interop story (see peers/README.md) on the official TypeScript SDK, which has names
// for the proxy methods but no proxy role: an agent app that handles every method is close enough.
// node proxy.mjs [--mark TEXT]

import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk/unstable";

const { methods } = acp;
const { proxy_initialize: INITIALIZE, proxy_successor: SUCCESSOR } = acp.PROXY_METHODS;
const [flag, mark] = process.argv.slice(2);
if (flag !== undefined && (flag !== "--mark" || mark === undefined)) {
  console.error("usage: proxy.mjs [--mark TEXT]");
  process.exit(2);
}

// Plain is the editor's side, an envelope is the agent's: what comes plain leaves in an envelope, and
// what comes in an envelope leaves plain.
const turn = (method, params) => {
  if (method === SUCCESSOR) return marked(params.method, params.params);
  const [name, inner] = marked(method === INITIALIZE ? "initialize" : method, params);
  return [SUCCESSOR, { method: name, params: inner }];
};

const marked = (method, params) => {
  if (mark !== undefined && method === methods.agent.session.prompt) {
    return [method, { ...params, prompt: [...params.prompt, { type: "text", text: mark }] }];
  }
  if (mark !== undefined && params?.update?.sessionUpdate === "agent_message_chunk") {
    const content = { ...params.update.content, text: `${mark}:${params.update.content.text}` };
    return [method, { ...params, update: { ...params.update, content } }];
  }
  return [method, params];
};

acp
  .agent({ name: "typescript-proxy" })
  .onRequest("*", ({ method, params, signal, client }) =>
    // The signal is how the SDK shows `$/cancel_request`; it sends one with the id of the next hop.
    client.request(...turn(method, params), { cancellationSignal: signal }),
  )
  .onNotification("*", ({ method, params, client }) => {
    if (method !== methods.protocol.cancelRequest) return client.notify(...turn(method, params));
  })
  .connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
