// The test's end of an agent that does what a test says.
import { createServer } from 'node:net';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { until } from './until.mjs';

const usual = {
  initialize: () => ({ protocolVersion: 1, agentCapabilities: {}, agentInfo: { name: 'scripted', version: '1' } }),
  'session/new': (_, agent) => ({ sessionId: `s${(agent.sessions += 1)}` }),
  'session/prompt': () => ({ stopReason: 'end_turn' }),
};

/** An answer that is an error. */
export class Refusal {
  constructor(error) {
    this.error = error;
  }
}

/** An answer that the test sends itself. */
export const later = Symbol('later');

/**
 * Waits for an agent. `answers` has a function for each method: it gets the params and the agent, and returns the result,
 * a `Refusal` or `later`. `program` starts the agent; `words` is its command in a chain.
 */
export async function scripted(t, answers = {}) {
  const all = { ...usual, ...answers };
  const waiting = new Map();
  const changed = new Set();
  let count = 0;
  const agent = {
    sessions: 0,
    /** Everything that came from the editor. */
    messages: [],
    peer: null,
    /** Sends a text as it is. */
    raw: (text) => agent.peer.write(text),
    send: (message) => agent.raw(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`),
    notify: (method, params) => agent.send({ method, params }),
    update: (sessionId, update) => agent.notify('session/update', { sessionId, update }),
    say: (sessionId, text, sessionUpdate = 'agent_message_chunk') =>
      agent.update(sessionId, { sessionUpdate, content: { type: 'text', text } }),
    /** Sends a request, and waits for its answer: a message with `result` or `error`. */
    request: (method, params, id = `test-${(count += 1)}`) =>
      new Promise((resolve) => {
        waiting.set(id, resolve);
        agent.send({ id, method, params });
      }),
    /** The messages of a method, as soon as there are so many. */
    heard: (method, number = 1) =>
      until(
        (check) => {
          changed.add(check);
          return () => changed.delete(check);
        },
        () => {
          const found = agent.messages.filter((it) => it.method === method);
          return found.length >= number && found;
        },
        `${number} messages ${method}`,
      ),
  };
  const receive = async (message) => {
    agent.messages.push(message);
    for (const check of [...changed]) check();
    if (message.method === undefined) return waiting.get(message.id)?.(message);
    if (message.id === undefined) return undefined;
    const answer = all[message.method];
    const result = answer
      ? await answer(message.params, agent, message)
      : new Refusal({ code: -32601, message: 'no such method' });
    if (result === later) return undefined;
    return agent.send({ id: message.id, ...(result instanceof Refusal ? { error: result.error } : { result }) });
  };
  const server = createServer((socket) => {
    agent.peer = socket;
    socket.on('error', () => {});
    createInterface({ input: socket }).on('line', (line) => void receive(JSON.parse(line)));
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  t.after(() => {
    agent.peer?.destroy();
    server.close();
  });
  const script = fileURLToPath(new URL('pipe-agent.mjs', import.meta.url));
  const port = String(server.address().port);
  agent.program = { command: process.execPath, args: [script, port] };
  agent.words = `${process.execPath} ${script} ${port}`;
  return agent;
}
