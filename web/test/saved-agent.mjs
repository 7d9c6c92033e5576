// An agent with one earlier session, which it can list and load. Its permission question hides what the command does.
import { createInterface } from 'node:readline';

const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
const update = (sessionId, kind, text) => send({ method: 'session/update', params: {
  sessionId, update: { sessionUpdate: kind, content: { type: 'text', text } } } });

const waiting = new Map();
const answers = {
  initialize: () => ({ protocolVersion: 1, agentInfo: { name: 'saved-agent', version: '1' },
    agentCapabilities: { loadSession: true, sessionCapabilities: { list: {} } } }),
  'session/new': () => ({ sessionId: 'new' }),
  'session/list': () => ({ sessions: [{ sessionId: 'old', cwd: process.cwd(), title: 'The earlier session' }] }),
  'session/load': ({ sessionId }) => {
    update(sessionId, 'user_message_chunk', 'What was that?');
    update(sessionId, 'agent_message_chunk', 'It was an **earlier** answer.');
    return {};
  },
  'session/prompt': async ({ sessionId }) => {
    const answer = await new Promise((done) => {
      waiting.set('ask', done);
      send({ id: 'ask', method: 'session/request_permission', params: {
        sessionId,
        toolCall: { toolCallId: 't', title: 'Clean up', kind: 'execute', status: 'pending',
          rawInput: { command: 'rm –rf build\u202e txt' } },
        options: [{ optionId: 'y', name: 'Allow', kind: 'allow_once' }, { optionId: 'n', name: 'Reject', kind: 'reject_once' }],
      } });
    });
    update(sessionId, 'agent_message_chunk', `The answer was ${answer.result?.outcome?.optionId ?? 'cancelled'}.`);
    return { stopReason: 'end_turn' };
  },
};

createInterface({ input: process.stdin }).on('line', async (line) => {
  const message = JSON.parse(line);
  if (message.method === undefined) waiting.get(message.id)?.(message);
  else if (message.id !== undefined) {
    const answer = answers[message.method];
    if (answer) send({ id: message.id, result: await answer(message.params) });
    else send({ id: message.id, error: { code: -32601, message: `no method ${message.method}` } });
  }
}).on('close', () => process.exit(0));
