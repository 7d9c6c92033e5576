// The studio: `conductor studio` with a page that is a program, linked as a browser is.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { WebSocket } from 'ws';
import { decodeFrame, Replica, type Action, type Decoded, type ToServer } from '../link';
import { Topics } from '../link/topics';
import { ready } from './client';
import { LinkedTarget } from './linked';
import { program } from './program';
import type { StartTarget } from './target';

export const startStudio: StartTarget = async ({ chain, folder, env, emit }) => {
  const child = spawn(program(), ['studio', '--no-open', '--port', '0', '--cwd', folder, '--', ...chain], {
    cwd: folder, env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'],
  });
  const url = new URL(await addressOf(child));
  const page = await Page.open(url);
  const stop = async () => {
    page.close();
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGTERM');
    await once(child, 'exit');
  };
  const target = new LinkedTarget(page.topics, (action) => page.do(action), stop, emit);
  page.start();
  return ready(target);
};

/** The address that the studio prints. */
async function addressOf(child: ChildProcess): Promise<string> {
  let output = '';
  return new Promise((resolve, reject) => {
    child.once('error', (error) => reject(new Error(`'${program()}' does not start: ${error.message}`)));
    child.once('exit', (code) => reject(new Error(`the studio has ended (${code}):\n${output}`)));
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => {
        output += text;
        const found = /http:\/\/\S+\/studio#key=\S+(?=\s)/.exec(output);
        if (found) resolve(found[0]);
      });
    }
  });
}

/** A page of the studio: it follows all topics, and keeps them up to date. */
class Page {
  readonly topics = new Topics();
  private readonly replicas = new Map<string, Replica>();
  private readonly actions = new Map<string, { resolve: (value: unknown) => void; reject: (why: Error) => void }>();
  private count = 0;

  private constructor(private readonly socket: WebSocket, private readonly token: string) {}

  /** Logs in with the key of the address, and connects. */
  static async open(url: URL): Promise<Page> {
    const answer = await fetch(new URL('/api/login', url), {
      method: 'POST',
      headers: { 'content-type': 'application/json', origin: url.origin },
      body: JSON.stringify({ key: new URLSearchParams(url.hash.slice(1)).get('key') }),
    });
    if (!answer.ok) throw new Error(`the log-in of the page failed: ${answer.status}`);
    const body: unknown = await answer.json();
    const token = typeof body === 'object' && body !== null && 'token' in body ? String(body.token) : '';
    const cookie = answer.headers.getSetCookie().map((it) => it.split(';')[0]).join('; ');
    const socket = new WebSocket(`${url.origin.replace(/^http/, 'ws')}/api/link`, { headers: { cookie }, origin: url.origin });
    await once(socket, 'open');
    return new Page(socket, token);
  }

  start(): void {
    this.socket.on('message', (data) => {
      for (const message of decodeFrame(String(data), (problem) => { throw new Error(problem); })) this.receive(message);
    });
    const topics = ['chain', 'sessions', 'panels', 'comments', 'edits'];
    for (const topic of topics) this.replicas.set(topic, new Replica());
    this.send({ t: 'hello', v: 1, token: this.token, run: '', want: topics.map((topic) => ({ topic, at: null })) });
  }

  do(action: Action): Promise<unknown> {
    const id = String(this.count += 1);
    return new Promise((resolve, reject) => {
      this.actions.set(id, { resolve, reject });
      this.send({ t: 'do', id, action });
    });
  }

  close(): void {
    for (const { reject } of this.actions.values()) reject(new Error('the page was closed'));
    this.socket.terminate();
  }

  private send(message: ToServer): void {
    this.socket.send(JSON.stringify(message));
  }

  private receive(message: Decoded): void {
    if (message.t === 'welcome') return;
    if (message.t === 'done') {
      const action = this.actions.get(message.id);
      this.actions.delete(message.id);
      if (message.error === undefined) action?.resolve(message.ok);
      else action?.reject(new Error(message.error));
      return;
    }
    const { topic } = message;
    const replica = this.replicas.get(topic);
    if (!replica) return;
    const effect = message.t === 'snap' ? replica.snap(message) : replica.inc(message);
    if (effect === 'ask') throw new Error(`the topic ${topic} has a gap`);
    if (effect === 'same') return;
    if (message.t === 'snap') {
      this.topics.clear(topic);
      for (const [id, entry] of message.entries) this.topics.put(topic, id, entry);
    } else {
      for (const change of message.changes) this.apply(topic, change);
    }
    if (topic === 'sessions') this.followSessions();
  }

  private apply(topic: string, change: Extract<Decoded, { t: 'inc' }>['changes'][number]): void {
    if (change.c === 'put') this.topics.put(topic, change.id, change.entry);
    else if (change.c === 'append') this.topics.append(topic, change.id, change.text);
    else this.topics.remove(topic, change.id);
  }

  private followSessions(): void {
    for (const [id] of this.topics.entries('sessions')) {
      const topic = `session/${id}`;
      if (this.replicas.has(topic)) continue;
      this.replicas.set(topic, new Replica());
      this.send({ t: 'want', topic, at: null });
    }
  }
}
