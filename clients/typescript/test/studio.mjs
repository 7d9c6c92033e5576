// A page of `conductor studio` that is a test: it follows topics by the link of a browser, and asks for actions.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { WebSocket } from 'ws';
import { conductor, decodeFrame, environment, project, Replica } from './help.mjs';
import { until } from './until.mjs';

async function address(child) {
  let output = '';
  for await (const text of child.stdout.setEncoding('utf8')) {
    output += text;
    const found = /http:\/\/\S+\/studio#key=\S+/.exec(output);
    if (found) return new URL(found[0]);
  }
  throw new Error(`the studio has ended: ${output}`);
}

/** Starts the studio with a chain, and opens a page. It has the methods of an editor that tests use. */
export async function startStudio(t, folder, chain) {
  const child = spawn(conductor, ['studio', '--no-open', '--port', '0', '--cwd', folder, '--', ...chain], {
    cwd: folder,
    env: environment(project(t)),
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.after(async () => {
    if (child.exitCode !== null) return;
    child.kill('SIGTERM');
    await once(child, 'exit');
  });
  const url = await address(child);
  child.stdout.resume();
  const answer = await fetch(new URL('/api/login', url), {
    method: 'POST',
    headers: { 'content-type': 'application/json', origin: url.origin },
    body: JSON.stringify({ key: new URLSearchParams(url.hash.slice(1)).get('key') }),
  });
  const { token } = await answer.json();
  const cookie = answer.headers
    .getSetCookie()
    .map((it) => it.split(';')[0])
    .join('; ');
  const socket = new WebSocket(`${url.origin.replace('http', 'ws')}/api/link`, {
    headers: { cookie },
    origin: url.origin,
  });
  t.after(() => socket.terminate());
  await once(socket, 'open');
  const replicas = new Map();
  const actions = new Map();
  const listeners = new Set();
  let frames = 0;
  const send = (message) => socket.send(JSON.stringify(message));
  const follow = (topic) => {
    if (replicas.has(topic)) return;
    replicas.set(topic, new Replica());
    send({ t: 'want', topic, at: null });
  };
  socket.on('message', (data) => {
    for (const message of decodeFrame(String(data), (problem) => {
      throw new Error(problem);
    })) {
      if (message.t === 'done') actions.get(message.id)(message);
      else if (message.t === 'snap' || message.t === 'inc') replicas.get(message.topic)[message.t](message);
    }
    for (const [id] of replicas.get('sessions')?.entries ?? []) follow(`session/${id}`);
    for (const listener of [...listeners]) listener();
    send({ t: 'ack', frames: (frames += 1) });
  });
  send({ t: 'hello', v: 1, token, run: '', want: [] });
  for (const topic of ['chain', 'sessions', 'panels', 'comments', 'files']) follow(topic);
  const entries = (topic) => [...(replicas.get(topic)?.entries ?? [])];
  return {
    do: async (action) => {
      const id = String(actions.size);
      const done = await new Promise((resolve) => {
        actions.set(id, resolve);
        send({ t: 'do', id, action });
      });
      if ('error' in done) throw new Error(done.error);
      return done.ok;
    },
    entries,
    when: (fact, what) =>
      until(
        (check) => {
          listeners.add(check);
          return () => listeners.delete(check);
        },
        fact,
        what,
      ),
  };
}
