// The editor of the interop story (see peers/README.md) on the official TypeScript SDK:
// node editor.mjs -- COMMAND ARGUMENT…

import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

const { methods } = acp;
const [dashes, command, ...args] = process.argv.slice(2);
if (dashes !== "--" || command === undefined) {
  console.error("usage: editor.mjs -- COMMAND ARGUMENT…");
  process.exit(2);
}
const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
child.on("error", (error) => {
  console.error(error);
  process.exit(1);
});

const events = [];
const answered = [];
let understood = 0;
let saidWaiting;
const waiting = new Promise((resolve) => (saidWaiting = resolve));

// The SDK starts the handler of each message without waiting for the one before, and settles an
// answer at once, so its callbacks do not tell the order of arrival. The stream does.
const note = (message) => {
  if (message.method === methods.client.session.update) {
    const { sessionUpdate, content } = message.params.update;
    events.push({ update: sessionUpdate, text: content?.text });
  } else if (message.method !== undefined) {
    events.push({ asked: message.method });
  } else if (message.error !== undefined) {
    events.push({ error: message.error.message });
  } else if (message.result?.stopReason !== undefined) {
    events.push({ answer: message.result.stopReason });
  }
};
const { readable, writable } = acp.ndJsonStream(
  Writable.toWeb(child.stdin),
  Readable.toWeb(child.stdout),
);
const noted = new TransformStream({
  transform(message, controller) {
    note(message);
    controller.enqueue(message);
  },
});

const client = acp
  .client({ name: "typescript-editor" })
  .onNotification(methods.client.session.update, ({ params }) => {
    understood += 1;
    // A marking proxy may have written something before the word.
    if (params.update.content?.text?.endsWith("waiting")) saidWaiting();
  })
  .onRequest(methods.client.session.requestPermission, ({ method, params }) => {
    answered.push(method);
    return { outcome: { outcome: "selected", optionId: params.options[0].optionId } };
  })
  .onRequest(methods.client.fs.readTextFile, ({ method, params }) => {
    answered.push(method);
    return { content: `words of ${params.path}` };
  });

const stream = { readable: readable.pipeThrough(noted), writable };
await client.connectWith(stream, async (agent) => {
  const greeting = await agent.request(methods.agent.initialize, {
    protocolVersion: acp.PROTOCOL_VERSION,
    clientCapabilities: { fs: { readTextFile: true } },
  });
  const { sessionId } = await agent.request(methods.agent.session.new, {
    cwd: process.cwd(),
    mcpServers: [],
  });
  const prompt = (text) =>
    agent.request(methods.agent.session.prompt, { sessionId, prompt: [{ type: "text", text }] });

  await prompt("count to 50");
  const waited = prompt("wait");
  await waiting;
  await agent.notify(methods.agent.session.cancel, { sessionId });
  await waited;

  const { protocolVersion, agentInfo } = greeting;
  console.log(
    JSON.stringify({ protocolVersion, agent: agentInfo?.name, understood, answered, events }),
  );
});

// Closing its input is how an editor tells an agent to leave; a good one does so by itself.
child.stdin.end();
child.on("exit", (code) => process.exit(code ?? 1));
