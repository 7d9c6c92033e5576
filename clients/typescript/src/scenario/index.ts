// Scenario tests: what a person does in an editor, and which messages she then sees. For authors of agents and proxies.
//
//   import { scenario } from 'acp-conductor-client/scenario';
//
//   scenario('basic-echo', { chain: ['./agent.mjs'] }, async (user) => {
//     await user.says('Hello, world');
//     await user.sees({ message: 'Hello, user' }, { turn: 'end_turn' });
//   });
import { randomUUID } from 'node:crypto';
import { mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import test from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { startClient } from './client';
import { leftProcesses, markName } from './processes';
import { startStudio } from './studio';
import type { StartTarget } from './target';
import { User } from './user';

export { matches, type Expected, type Pattern } from './expected';
export type { StartTarget, Target, TargetOptions, WidgetUse } from './target';
export { User } from './user';

export interface ScenarioOptions {
  /**
   * The chain: proxies, then the agent. A word that begins with `./` names a script of the scenario's folder, which Node
   * runs. Every other word is one of `conductor agent`.
   */
  chain: string[];
  /** The files of the project, by path. */
  files?: Record<string, string>;
  /** The folder of the scripts. Without it, that of the test file. */
  folder?: string;
  /** Environment variables of the chain. */
  env?: Record<string, string>;
}

/** The editors that scenarios are played in: `client`, `studio`, or the path of a module that exports `start`. */
function targets(): string[] {
  return (process.env['CONDUCTOR_SCENARIO_TARGETS'] ?? 'client,studio').split(',').filter(Boolean);
}

async function starter(name: string): Promise<StartTarget> {
  if (name === 'client') return startClient;
  if (name === 'studio') return startStudio;
  const module: { start?: StartTarget } = await import(pathToFileURL(name).href);
  if (!module.start) throw new Error(`the module ${name} does not export \`start\``);
  return module.start;
}

/** The folder of the file that called `scenario`. */
function callerFolder(): string {
  const lines = (new Error().stack ?? '').split('\n');
  const caller = lines.map((line) => /(file:\/\/.*?):\d+:\d+\)?$/.exec(line)?.[1]).find((url) => url && url !== import.meta.url);
  if (!caller) throw new Error('the folder of the scenario is not known: set `folder`');
  return dirname(fileURLToPath(caller));
}

/** Defines a test for each editor. The project is a new folder, and no process may be left at the end. */
export function scenario(name: string, options: ScenarioOptions, story: (user: User) => Promise<void>): void {
  const scripts = options.folder ?? callerFolder();
  for (const targetName of targets()) {
    const shown = targetName.includes('/') ? (targetName.split('/').at(-1) ?? '').replace(/\.\w+$/, '') : targetName;
    test(`${name}, in ${shown}`, { timeout: 180_000 }, async () => {
      const folder = await realpath(await mkdtemp(join(tmpdir(), 'scenario-')));
      const mark = randomUUID();
      const user = new User();
      try {
        for (const [path, text] of Object.entries(options.files ?? {})) {
          await mkdir(dirname(join(folder, path)), { recursive: true });
          await writeFile(join(folder, path), text);
        }
        const start = await starter(targetName);
        const target = await start({
          chain: options.chain.map((word) => command(word, scripts)),
          folder,
          env: { ...options.env, [markName]: mark },
          emit: (event) => user.receive(event),
        });
        try {
          await user.play(target, story);
        } finally {
          await target.stop();
        }
        const left = await leftProcesses(mark);
        if (left.length) throw new Error(`processes are left:\n${left.join('\n')}`);
      } finally {
        await rm(folder, { recursive: true, force: true });
      }
    });
  }
}

/** A word of the chain as `conductor agent` takes it. */
function command(word: string, scripts: string): string {
  if (!word.startsWith('./')) return word;
  const [script = '', ...rest] = word.split(' ');
  return [process.execPath, join(scripts, script)].map(quoted).concat(rest).join(' ');
}

function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
