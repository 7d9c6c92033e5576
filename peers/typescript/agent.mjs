// The agent of the interop story (see peers/README.md) on the official TypeScript SDK.

import path from "node:path";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

const { methods } = acp;
const sessions = new Map(); // id → { cwd, cancel }

const agent = acp
  .agent({ name: "typescript-agent" })
  .onRequest(methods.agent.initialize, () => ({
    protocolVersion: acp.PROTOCOL_VERSION,
    agentCapabilities: {},
    agentInfo: { name: "typescript-agent", version: "1" },
  }))
  .onRequest(methods.agent.session.new, ({ params }) => {
    const sessionId = `typescript-session-${sessions.size + 1}`;
    sessions.set(sessionId, { cwd: params.cwd, cancel: () => {} });
    return { sessionId };
  })
  .onRequest(methods.agent.session.prompt, async ({ params, client }) => {
    const { sessionId } = params;
    const heard = params.prompt.filter((it) => it.type === "text").map((it) => it.text);
    const update = (update) => client.notify(methods.client.session.update, { sessionId, update });
    const say = (text) =>
      update({ sessionUpdate: "agent_message_chunk", content: { type: "text", text } });

    if (heard[0] === "wait") {
      const cancelled = new Promise((resolve) => (sessions.get(sessionId).cancel = resolve));
      await say("waiting");
      await cancelled;
      return { stopReason: "cancelled" };
    }

    const count = heard[0]?.match(/^count to (\d+)$/)?.[1];
    if (count === undefined) throw acp.RequestError.invalidParams();
    await say(`heard ${heard.join(" ")}`);
    for (let number = 1; number <= count; number++) await say(String(number));
    await update({ sessionUpdate: "tool_call", toolCallId: "call-1", title: "Read peer.txt" });

    const permission = await client.request(methods.client.session.requestPermission, {
      sessionId,
      toolCall: { toolCallId: "call-1" },
      options: [
        { optionId: "allow", name: "Allow", kind: "allow_once" },
        { optionId: "reject", name: "Reject", kind: "reject_once" },
      ],
    });
    await say(`permission ${permission.outcome.optionId ?? "none"}`);

    const file = await client.request(methods.client.fs.readTextFile, {
      sessionId,
      path: path.join(sessions.get(sessionId).cwd, "peer.txt"),
    });
    await say(`file ${file.content}`);
    return { stopReason: "end_turn" };
  })
  .onNotification(methods.agent.session.cancel, ({ params }) => {
    sessions.get(params.sessionId)?.cancel();
  });

agent.connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
