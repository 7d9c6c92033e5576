// An agent that does what a test says. The test is at the other end of a socket: it sends messages for the editor, and
// gets everything that the agent receives. A message with `exit` ends the agent. The test answers the methods that it names; all others are answered at once.

import { connect } from 'node:net';
import { createInterface } from 'node:readline';

const test = connect(process.argv[2]);
const tell = (message) => test.write(`${JSON.stringify(message)}\n`);
const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);

const held = process.argv.slice(3);
let sessions = 0;
const answers = {
  initialize: () => ({ protocolVersion: 1, agentCapabilities: {}, agentInfo: { name: 'scripted-agent', version: '1' } }),
  'session/new': () => ({ sessionId: `s${++sessions}` }),
  'session/prompt': () => ({ stopReason: 'end_turn' }),
};

createInterface({ input: process.stdin }).on('line', (line) => {
  const message = JSON.parse(line);
  tell(message);
  if (message.method === undefined || message.id === undefined) return;
  if (held.includes(message.method)) return;
  const answer = answers[message.method];
  if (answer) send({ id: message.id, result: answer() });
  else send({ id: message.id, error: { code: -32601, message: `no method ${message.method}` } });
}).on('close', () => process.exit(0));

createInterface({ input: test }).on('line', (line) => {
  const message = JSON.parse(line);
  if (message.exit !== undefined) process.exit(message.exit);
  if (message.stderr === undefined) send(message);
  else process.stderr.write(`${message.stderr}\n`);
});
test.on('error', () => {});
