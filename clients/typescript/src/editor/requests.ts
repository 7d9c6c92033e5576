// The requests of the agent: files, terminals, permissions, and those of SCP.
import { statSync } from 'node:fs';
import { isAbsolute } from 'node:path';
import { otherFolder } from '../content';
import { at, text, whole } from '../json';
import type { Exit } from '../link/types';
import { cancelled, fileError, internal, invalidParams, methodNotFound } from '../rpc-error';
import { shownCommand, Terminals } from '../terminals';
import type { Core } from './core';
import { type OutsidePlace, Questions } from './questions';

/** The most requests that are being performed. More are refused. */
const mostRunning = 1000;
/** How often the output of running terminals is shown. */
const terminalMs = 200;
/** The longest output of a terminal that is shown, in UTF-16 units. */
const mostOutput = 256 * 1024;
/** How many terminals are remembered, with those that were released. */
const mostTerminals = 1000;

export class Requests {
  readonly questions: Questions;
  private readonly terminals: Terminals;
  /** The session and the command of each terminal. */
  private readonly shown = new Map<string, { session: string; command: string; folder: string | null }>();
  /** The sessions that the person has closed. The agent may still work in them. */
  private readonly closed = new Set<string>();
  private running = 0;
  private hasEnded = false;
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly core: Core, env: Record<string, string | undefined>, lastTerminal: number) {
    this.questions = new Questions(core);
    this.terminals = new Terminals(env, () => this.showTerminalsSoon(), lastTerminal);
  }

  /** Performs a request. An error is the answer. */
  async handle(method: string, params: unknown, signal: AbortSignal): Promise<unknown> {
    if (method === 'session/request_permission') return this.questions.permission(params, signal);
    const { host, surface } = this.core;
    const isFile = (method === 'fs/read_text_file' && host.readTextFile)
      || (method === 'fs/write_text_file' && host.writeTextFile);
    if (isFile) return this.file(method, params, signal);
    if (method.startsWith('terminal/') && host.terminals) return this.terminal(method, params, signal);
    if (surface.knows(method)) return this.perform(() => surface.handle(method, params, signal), signal);
    throw methodNotFound(method);
  }

  /** Does the work of a request, unless too many run. The answer to a cancelled request does not wait for its work. */
  private async perform<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    if (this.running >= mostRunning) {
      throw internal(`${mostRunning} requests are being performed; wait for an answer`);
    }
    if (signal.aborted) throw cancelled();
    this.running += 1;
    let onAbort = () => {};
    const aborted = new Promise<never>((_, reject) => {
      onAbort = () => reject(cancelled());
      signal.addEventListener('abort', onAbort);
    });
    try {
      return await Promise.race([work(), aborted]);
    } finally {
      signal.removeEventListener('abort', onAbort);
      this.running -= 1;
      this.showTerminals();
    }
  }

  private async file(method: string, params: unknown, signal: AbortSignal): Promise<unknown> {
    const path = text(at(params, 'path'));
    if (path === undefined) throw invalidParams('`path` is missing');
    const write = method === 'fs/write_text_file';
    const used = await this.allowed(path, write ? 'write' : 'read', params, signal);
    return this.perform(() => (write ? this.write(used, params) : this.read(used, params)), signal);
  }

  /** The path that may be used. Of a place outside of the folder, it is the one that the person has allowed. */
  async allowed(
    path: string, usage: OutsidePlace['usage'], params: unknown, signal: AbortSignal,
  ): Promise<string> {
    const { project } = this.core;
    let place = await project.place(path);
    let used = path;
    while (!place.inside) {
      used = place.path;
      const session = text(at(params, 'sessionId')) ?? '';
      if (!(await this.questions.mayUse(session, { path: used, usage }, signal))) {
        const what = typeof usage === 'object' ? 'folder of the command' : 'file';
        throw internal(`permission denied: the ${what} is outside of the folder of the session`);
      }
      place = await project.place(path);
      // A link has changed if it is another place now: then the person is asked about that one.
      if (place.path === used) break;
      used = path;
    }
    return used;
  }

  private async read(path: string, params: unknown): Promise<unknown> {
    const [line, limit] = [whole(at(params, 'line')), whole(at(params, 'limit'))];
    const options = { ...(line === undefined ? {} : { line }), ...(limit === undefined ? {} : { limit }) };
    try {
      return { content: await this.core.host.readTextFile?.(path, options) };
    } catch (error) {
      throw fileError('read', path, error);
    }
  }

  private async write(path: string, params: unknown): Promise<unknown> {
    const content = text(at(params, 'content'));
    if (content === undefined) throw invalidParams('`content` is missing');
    try {
      await this.core.host.writeTextFile?.(path, content);
    } catch (error) {
      throw fileError('write', path, error);
    }
    this.core.surface.fileWritten(path);
    return {};
  }

  private async terminal(method: string, params: unknown, signal: AbortSignal): Promise<unknown> {
    const { terminals } = this;
    switch (method) {
      case 'terminal/create': return this.createTerminal(params, signal);
      case 'terminal/output': return terminals.output(params);
      case 'terminal/kill': return terminals.kill(params);
      case 'terminal/release': {
        const released = terminals.release(params);
        this.showTerminals();
        return released;
      }
      case 'terminal/wait_for_exit': return this.perform(() => terminals.waitForExit(params), signal);
      default: throw methodNotFound(method);
    }
  }

  /** A command runs inside of the folder, unless the person has allowed another one. What it does then is not limited. */
  private async createTerminal(params: unknown, signal: AbortSignal): Promise<unknown> {
    const session = text(at(params, 'sessionId')) ?? '';
    const folder = this.core.sessions.get(session)?.cwd ?? this.core.project.folder;
    const command = shownCommand(params);
    const cwd = text(at(params, 'cwd'));
    // Without a folder that exists, the request fails for that reason.
    const exists = cwd !== undefined && isAbsolute(cwd) && statSync(cwd, { throwIfNoEntry: false })?.isDirectory();
    const used = exists ? await this.allowed(cwd, { command }, params, signal) : cwd;
    if (this.hasEnded) throw cancelled();
    // Nobody would see the command, or could stop it.
    if (this.closed.has(session) && !this.core.sessions.has(session)) throw internal('the session was closed');
    const created = this.terminals.create(folder, used === undefined ? params : { ...Object(params), cwd: used });
    const id = created.terminalId;
    this.shown.set(id, { session, command, folder: cwd === undefined ? null : otherFolder(cwd, this.core.project) });
    this.showTerminal(id, '', null);
    // What is not released may still run, and ends with its session.
    const oldest = this.shown.size > mostTerminals ? [...this.shown.keys()].find((it) => !this.terminals.isOpen(it)) : undefined;
    if (oldest !== undefined) this.shown.delete(oldest);
    return created;
  }

  private showTerminalsSoon(): void {
    this.timer ??= setTimeout(() => this.showTerminals(), terminalMs);
  }

  /** Shows the output of the terminals that changed. */
  showTerminals(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    for (const { id, text: output, exit } of this.terminals.changes()) this.showTerminal(id, output, exit);
  }

  private showTerminal(terminal: string, output: string, exit: Exit | null): void {
    const about = this.shown.get(terminal);
    const session = about && this.core.sessions.get(about.session);
    if (!session) return;
    const id = `terminal:${terminal}`;
    const cut = output.length > mostOutput;
    const shown = cut ? output.slice(-mostOutput).replace(/^[\udc00-\udfff]/, '') : output;
    const old = session.get(id);
    // Most outputs only grow.
    const runs = old?.kind === 'terminal' && old.exit === null && exit === null;
    if (runs && !old.cut && !cut && shown.startsWith(old.text)) {
      return session.append(id, shown.slice(old.text.length));
    }
    session.put(id, { kind: 'terminal', command: about.command, folder: about.folder, text: shown, exit, cut });
  }

  /** Ends the command of a terminal, because the person wants that. The agent gets to know that it has ended. */
  killTerminal(terminalId: string): null {
    if (!this.terminals.isOpen(terminalId)) throw new Error('the command has ended already');
    this.terminals.kill({ terminalId });
    return null;
  }

  /** Kills the commands of all terminals of a session, which was closed. */
  endSession(session: string): void {
    this.closed.add(session);
    for (const [terminalId, about] of this.shown) {
      if (about.session === session && this.terminals.isOpen(terminalId)) this.terminals.release({ terminalId });
    }
    this.showTerminals();
  }

  /** Kills the commands of all terminals, and waits for their end. */
  async end(): Promise<void> {
    this.hasEnded = true;
    await this.terminals.end();
    this.showTerminals();
  }
}
