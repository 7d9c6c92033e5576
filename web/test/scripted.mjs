// The test's end of a scripted agent.

import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { until } from './until.mjs';

/**
 * Waits for a scripted agent. `chain` starts it. `request` sends a request to the editor and returns its result.
 * `notify` sends a notification. `exit` ends the agent with a status. `stderr` writes a line to the agent's standard error. `heard` returns the parameters of a message with this method, when it has come.
 * With `hold`, prompts are answered by `answer` or `fail`, the newest one first; or else the methods that it names.
 */
export async function scriptedAgent({ t, hold = false } = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'conductor-agent-'));
  const path = join(folder, 'socket');
  const messages = [];
  const held = Array.isArray(hold) ? hold : hold ? ['session/prompt'] : [];
  const waiting = new Map();
  let peer = null;
  let last = 0;
  const server = createServer((socket) => {
    peer = socket;
    socket.on('error', () => {});
    createInterface({ input: socket }).on('line', (line) => {
      const message = JSON.parse(line);
      messages.push(message);
      if (message.method === undefined) waiting.get(message.id)?.(message);
    });
  });
  await new Promise((done) => server.listen(path, done));
  const close = async () => {
    peer?.destroy();
    server.close();
    await rm(folder, { recursive: true, force: true });
  };
  t?.after(close);

  const heard = async (method, index = 0) => {
    const found = await until(() => messages.filter((it) => it.method === method)[index], `the message ${method}`);
    return found.params;
  };
  const request = async (method, params) => {
    await heard('initialize');
    const id = `test-${++last}`;
    const answer = new Promise((done) => waiting.set(id, done));
    peer.write(`${JSON.stringify({ id, method, params })}\n`);
    const { result, error } = await answer;
    if (error) throw new Error(error.data?.details ?? (typeof error.data === 'string' ? error.data : error.message));
    return result;
  };
  const notify = (method, params) => peer.write(`${JSON.stringify({ method, params })}\n`);
  const stderr = (text) => peer.write(`${JSON.stringify({ stderr: text })}\n`);
  const exit = (status) => peer.write(`${JSON.stringify({ exit: status })}\n`);
  const answered = new Set();
  const answerWith = async (method, outcome) => {
    const isOpen = (it) => it.method === method && it.id !== undefined && !answered.has(it.id);
    const { id } = await until(() => messages.findLast(isOpen), `a message ${method} without an answer`);
    answered.add(id);
    peer.write(`${JSON.stringify({ id, ...outcome })}\n`);
  };
  const answer = (method, result) => answerWith(method, { result });
  const fail = (method, message, code = -32603) => answerWith(method, { error: { code, message } });
  const agent = fileURLToPath(new URL('scripted-agent.mjs', import.meta.url));
  return { chain: [`${process.execPath} ${agent} ${path} ${held.join(' ')}`], request, notify, stderr, exit, answer, fail, heard, messages, close };
}
