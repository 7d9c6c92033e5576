// A model on the loopback address that does what a test says, for published agents: the chat completions of OpenAI.
import { createServer } from 'node:http';

/**
 * Starts a model. `script` gets `{ prompt, results, tool }` for each request that offers tools: the last words of the user, the
 * results of the tools since then, and a function that finds the whole name of a tool. It returns `{ say }` or
 * `{ call, args }`. `requests` has the bodies of all requests.
 */
export async function scriptedModel({ t, script }) {
  const requests = [];
  const problems = [];
  const server = createServer((request, response) => {
    void answer(request, response).catch((error) => {
      problems.push(error);
      response.destroy();
    });
  });
  async function answer(request, response) {
    const body = JSON.parse(await textOf(request) || '{}');
    if (request.method === 'GET') return sendJson(response, { object: 'list', data: [{ id: 'scripted', object: 'model' }] });
    requests.push(body);
    const { messages = [], tools = [], stream } = body;
    const names = tools.map((it) => it.function.name);
    // Agents also ask for a title of the session, without tools.
    const decision = names.length > 0 ? await script(turnOf(messages, names)) : { say: 'A session' };
    const [message, reason] = [messageOf(decision), reasonOf(decision)];
    if (!stream) {
      const choices = [{ index: 0, message, finish_reason: reason }];
      return sendJson(response, { ...head, object: 'chat.completion', choices, usage });
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const write = (more) => {
      response.write(`data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', ...more })}\n\n`);
    };
    write({ choices: [{ index: 0, delta: message, finish_reason: null }] });
    write({ choices: [{ index: 0, delta: {}, finish_reason: reason }] });
    write({ choices: [], usage });
    response.end('data: [DONE]\n\n');
  }
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${server.address().port}`, requests, problems };
}

const head = { id: 'answer', created: 1, model: 'scripted' };
const usage = { prompt_tokens: 10, completion_tokens: 10, total_tokens: 20 };
const reasonOf = ({ call }) => (call ? 'tool_calls' : 'stop');
let calls = 0;

function messageOf({ say, call, args }) {
  if (!call) return { role: 'assistant', content: say };
  calls += 1;
  const tool = { index: 0, id: `call_${calls}`, type: 'function', function: { name: call, arguments: JSON.stringify(args) } };
  return { role: 'assistant', content: null, tool_calls: [tool] };
}

function turnOf(messages, names) {
  const last = messages.findLastIndex((it) => it.role === 'user');
  const results = messages.slice(last + 1).filter((it) => it.role === 'tool').map((it) => flat(it.content));
  const tool = (name) => {
    const found = names.find((it) => it === name || it.endsWith(`_${name}`));
    if (!found) throw new Error(`no tool ${name}; there are ${names.join(', ')}`);
    return found;
  };
  return { prompt: flat(messages[last]?.content), results, tool };
}

const flat = (content) => (Array.isArray(content) ? content.map((it) => it.text ?? '').join('\n') : content ?? '');

async function textOf(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  return Buffer.concat(parts).toString();
}

function sendJson(response, value) {
  response.writeHead(200, { 'content-type': 'application/json' });
  response.end(JSON.stringify(value));
}
