// Finds processes that a scenario has left behind. Linux only: elsewhere, nothing is found.
import { readdir, readFile } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';

/** The environment variable that all processes of a scenario inherit. */
export const markName = 'CONDUCTOR_SCENARIO_MARK';

/** How long a process may take to end after its editor. */
const patience = 30_000;

/** The processes with this mark that are still there after some seconds. They are killed. */
export async function leftProcesses(mark: string): Promise<string[]> {
  const end = Date.now() + patience;
  let left = await marked(mark);
  while (left.length && Date.now() < end) {
    await pause(20);
    left = await marked(mark);
  }
  for (const { pid } of left) process.kill(pid, 'SIGKILL');
  return left.map(({ pid, command }) => `${pid} ${command}`);
}

async function marked(mark: string): Promise<{ pid: number; command: string }[]> {
  const found: { pid: number; command: string }[] = [];
  for (const name of await readdir('/proc').catch(() => [])) {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) continue;
    try {
      if (!(await readFile(`/proc/${name}/environ`, 'utf8')).includes(mark)) continue;
      found.push({ pid: Number(name), command: (await readFile(`/proc/${name}/cmdline`, 'utf8')).replaceAll('\0', ' ') });
    } catch {
      // It has ended meanwhile, or belongs to another user.
    }
  }
  return found;
}
