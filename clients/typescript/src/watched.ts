// A command in its own process group, which ends if this process does: also if this process is killed.
//
// A watcher in the same group waits for the end of a pipe that only this process holds open. Then it kills the group. While
// it runs, the number of the group cannot become that of another one.
import { type ChildProcess, spawn } from 'node:child_process';
import type { Readable } from 'node:stream';
import { Socket } from 'node:net';

const isWindows = process.platform === 'win32';

/**
 * Starts the watcher, and becomes the command. The watcher is no child of the command, and keeps none of its files open. Both
 * outputs are one pipe, so that lines of both keep their order.
 */
const script = '( { read -r _ <&3; kill -KILL 0; } </dev/null >/dev/null 2>&1 & ); exec 3<&-; exec "$0" "$@" 2>&1';

export interface Watched {
  child: ChildProcess;
  /** When nobody can write output any more. */
  outputEnded: Promise<void>;
  /** Whether the watcher has ended: somebody has ended the group. */
  isUnwatched(): boolean;
}

export function spawnWatched(
  program: string, args: string[], options: { cwd: string; env: Record<string, string | undefined> },
): Watched {
  const [command, words] = isWindows ? [program, args] : ['/bin/sh', ['-c', script, program, ...args]];
  const child = spawn(command, words, {
    ...options, stdio: ['ignore', 'pipe', 'pipe', isWindows ? 'ignore' : 'pipe'], detached: !isWindows, windowsHide: true,
  });
  let unwatched = isWindows;
  const pipe: unknown = child.stdio[3];
  if (pipe instanceof Socket) {
    pipe.on('error', () => {});
    pipe.once('close', () => {
      unwatched = true;
    });
    pipe.resume();
    // A command that has exited does not keep this process.
    pipe.unref();
  }
  const ends = [child.stdout, child.stderr].map((stream: Readable | null) => new Promise<void>((resolve) => {
    if (stream) stream.once('close', resolve);
    else resolve();
  }));
  return { child, outputEnded: Promise.all(ends).then(() => undefined), isUnwatched: () => unwatched };
}
