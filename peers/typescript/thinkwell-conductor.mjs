// The conductor of npm @thinkwell/conductor (dialect P3t), which is a library: here is a program around it.
// node thinkwell-conductor.mjs PROXY… AGENT

import { createInterface } from "node:readline";
import { Conductor, fromCommands } from "@thinkwell/conductor";

const commands = process.argv.slice(2);
if (commands.length === 0) {
  console.error("usage: thinkwell-conductor.mjs PROXY… AGENT");
  process.exit(2);
}

const lines = createInterface({ input: process.stdin, crlfDelay: Infinity });
async function* messages() {
  for await (const line of lines) {
    if (line.trim() !== "") yield JSON.parse(line);
  }
}

// Its connectors start a process; the editor is the one who started us.
const editor = {
  send: (message) => process.stdout.write(`${JSON.stringify(message)}\n`),
  messages: messages(),
  close: async () => {
    lines.close();
    process.stdin.destroy();
  },
};

// No `process.exit` after this: it returns before the components have been stopped.
await new Conductor({ instantiator: fromCommands(commands) }).connect({ connect: async () => editor });
