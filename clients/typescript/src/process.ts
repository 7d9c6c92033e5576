// A program that runs in its own process group, with what it says about its end.
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { messageOf } from './rpc-error';
import { plain } from './printable';
import type { Program } from './program';

// Together less than the five seconds after which VS Code kills its extensions.
/** How long a program may take to end after its input was closed. */
const closeMs = 2000;
/** How long a program may take to end after it was asked to. */
const terminateMs = 800;
/** How long processes that a program has left behind may take to end. */
const leftMs = 500;
/** How long the output may take to end after the program has exited. Another process may keep it open. */
const outputMs = 500;
/** How many lines of the error output are kept, for the reason of an end. */
const mostLines = 20;
/** The longest line of the error output, in UTF-16 units. */
const longestLine = 16 * 1024;

const isWindows = process.platform === 'win32';

/** Sends a signal to a process group. Returns whether there was one. */
export function signalGroup(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(isWindows ? pid : -pid, signal);
  } catch {
    return false;
  }
}

/** Ends all processes of a group: those that do not end by themselves are killed. */
export async function endGroup(pid: number, patienceMs: number): Promise<void> {
  if (isWindows) {
    spawn('taskkill', ['/T', '/F', '/PID', String(pid)], { stdio: 'ignore', windowsHide: true }).on('error', () => {});
    return;
  }
  const end = Date.now() + patienceMs;
  for (let alive = signalGroup(pid, 'SIGTERM'); alive; alive = signalGroup(pid, 0)) {
    if (Date.now() > end) {
      signalGroup(pid, 'SIGKILL');
      return;
    }
    await sleep(20);
  }
}

/** The end of a program: why it ended, or null if it was asked to. */
export type Ended = (why: string | null) => void;

export class RunningProgram {
  private readonly child: ChildProcessWithoutNullStreams;
  private readonly lastLines: string[] = [];
  /** Why the program is ended. Undefined while it is not; null if that is no error. */
  private reason: string | null | undefined;
  /** When the program has exited, and its output has ended. */
  readonly closed: Promise<void>;

  constructor(private readonly program: Program, onLine: (line: string) => void, ended: Ended) {
    const { command, args, cwd, env } = program;
    this.child = spawn(command, args, {
      cwd, env: env ?? process.env, stdio: ['pipe', 'pipe', 'pipe'], detached: !isWindows, windowsHide: true,
    });
    // A program that does not read any more says so by its end.
    this.child.stdin.on('error', () => {});
    this.readLines(onLine);
    this.closed = new Promise((resolve) => {
      let done = false;
      const finish = (why: string | null) => {
        if (done) return;
        done = true;
        // Processes that the program has left behind.
        if (this.child.pid !== undefined) void endGroup(this.child.pid, leftMs).then(resolve);
        else resolve();
        ended(this.reason === undefined ? why : this.reason);
      };
      this.child.on('error', (error) => {
        if (this.child.pid === undefined) finish(this.startError(error));
      });
      this.child.on('exit', (code, signal) => {
        const timer = setTimeout(() => finish(this.exitReason(code, signal)), outputMs);
        this.child.once('close', () => {
          clearTimeout(timer);
          finish(this.exitReason(code, signal));
        });
      });
    });
  }

  get input() {
    return this.child.stdin;
  }

  get output() {
    return this.child.stdout;
  }

  /** Closes the input, waits, and ends all processes of the group. */
  async stop(): Promise<void> {
    this.reason ??= null;
    if (this.child.pid === undefined) return this.closed;
    this.child.stdin.end();
    const ended = this.closed.then(() => true);
    const timeout = new AbortController();
    const isEnded = await Promise.race([ended, sleep(closeMs, false, { signal: timeout.signal }).catch(() => false)]);
    timeout.abort();
    if (!isEnded) await endGroup(this.child.pid, terminateMs);
    await this.closed;
  }

  /** Ends a program that is of no use any more. */
  abandon(why: string): void {
    // The program may be about to exit, and then says more about it.
    const timer = setTimeout(() => {
      this.reason ??= why;
      if (this.child.pid !== undefined) void endGroup(this.child.pid, terminateMs);
    }, outputMs);
    void this.closed.then(() => clearTimeout(timer));
  }

  private readLines(onLine: (line: string) => void): void {
    let rest = '';
    const tell = (line: string) => {
      const shown = line.endsWith('\r') ? line.slice(0, -1) : line;
      this.lastLines.push(plain(shown));
      if (this.lastLines.length > mostLines) this.lastLines.shift();
      onLine(shown);
    };
    this.child.stderr.setEncoding('utf8');
    this.child.stderr.on('data', (more: string) => {
      const lines = (rest + more).split('\n');
      rest = lines.pop() ?? '';
      lines.forEach(tell);
      if (rest.length > longestLine) {
        tell(rest);
        rest = '';
      }
    });
    this.child.stderr.on('end', () => {
      if (rest) tell(rest);
    });
    this.child.stderr.on('error', () => {});
    this.child.stdout.on('error', () => {});
  }

  private startError(error: Error): string {
    const { command, cwd } = this.program;
    if (!existsSync(cwd)) return `cannot start '${command}': the folder ${cwd} does not exist`;
    const code = 'code' in error ? error.code : undefined;
    if (code === 'ENOENT') {
      return `cannot start '${command}': the program was not found\n  → install it, or give its full path`;
    }
    if (code === 'EACCES') {
      return `cannot start '${command}': it is not a program that may be run\n  → check its path and its permissions`;
    }
    return `cannot start '${command}': ${messageOf(error)}`;
  }

  private exitReason(code: number | null, signal: NodeJS.Signals | null): string {
    const how = signal ? `was killed by ${signal}` : `exited with status ${code ?? 'unknown'}`;
    const lines = this.lastLines.filter((it) => it.trim());
    return [`'${this.program.command}' ${how}`, ...lines.map((it) => `  ${it}`)].join('\n');
  }
}
