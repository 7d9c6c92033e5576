// Finds the program `conductor`, and asks it for its version.
import { execFile } from 'node:child_process';
import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import { delimiter, isAbsolute, join } from 'node:path';
import { configurationOf, failedConfiguration, noConfiguration, type Configuration } from './configuration';

/** The oldest version that this extension works with. */
export const oldestVersion = '0.1.0';
export const installPage = 'https://github.com/acp-conductor/conductor/blob/main/docs/install.md';

export interface Surroundings {
  env: Record<string, string | undefined>;
  platform: string;
  home: string;
}

export const here = (): Surroundings => ({ env: process.env, platform: process.platform, home: homedir() });

export type Found = { path: string; version: string } | { problem: string };

/** The names that a command may have on a disk. */
function fileNames(name: string, platform: string): string[] {
  return platform === 'win32' ? [`${name}.exe`, `${name}.cmd`, `${name}.bat`] : [name];
}

/** The folders to look in: those of the PATH, then the usual ones. */
export function folders({ env, platform, home }: Surroundings): string[] {
  const path = (env['PATH'] ?? env['Path'] ?? '').split(platform === 'win32' ? ';' : delimiter);
  const local = env['LOCALAPPDATA'];
  const usual = platform === 'win32'
    ? [join(home, '.cargo', 'bin'), join(home, '.local', 'bin'),
      ...(local ? [join(local, 'Programs', 'conductor'), join(local, 'conductor')] : [])]
    : [join(home, '.cargo/bin'), join(home, '.local/bin'), '/usr/local/bin', '/opt/homebrew/bin',
      '/home/linuxbrew/.linuxbrew/bin', '/usr/bin'];
  return [...new Set([...path, ...usual].filter((folder) => isAbsolute(folder)))];
}

/** The places of a command, in the order to look at them. */
export function candidates(name: string, around: Surroundings): string[] {
  return folders(around).flatMap((folder) => fileNames(name, around.platform).map((file) => join(folder, file)));
}

/** The path of a setting: `~` is the home folder. */
export function expanded(path: string, home: string): string {
  return path === '~' || /^~[/\\]/.test(path) ? join(home, path.slice(1)) : path;
}

async function isProgram(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK);
    return (await stat(path)).isFile();
  } catch {
    return false;
  }
}

/** The first program with this name, or null. */
export async function findCommand(name: string, around: Surroundings = here()): Promise<string | null> {
  for (const path of candidates(name, around)) {
    if (await isProgram(path)) return path;
  }
  return null;
}

/** The version in the output of `conductor --version`. */
export function versionOf(output: string): string | null {
  return /^conductor (\d+\.\d+\.\d+\S*)/m.exec(output)?.[1] ?? null;
}

/** Whether a version is at least another one. What follows the three numbers does not count. */
export function isAtLeast(version: string, least: string): boolean {
  const [mine, other] = [version, least].map((text) => text.split(/[.+-]/).slice(0, 3).map(Number));
  for (let part = 0; part < 3; part += 1) {
    const difference = (mine?.[part] ?? 0) - (other?.[part] ?? 0);
    if (difference !== 0) return difference > 0;
  }
  return true;
}

/** Looks for `conductor`: at the path of the setting, or else in the usual folders. */
export async function findConductor(setting: string, around: Surroundings = here()): Promise<Found> {
  const wanted = setting.trim();
  const named = wanted && expanded(wanted, around.home);
  const simple = named && !/[/\\]/.test(named);
  const path = named && !simple ? named : await findCommand(named || 'conductor', around);
  if (path === null) {
    return { problem: simple ? `The program '${named}' of the setting conductor.path is not in the PATH.`
      : 'The program conductor is not installed, or is not in the PATH.' };
  }
  if (!isAbsolute(path)) return { problem: `The setting conductor.path must be an absolute path: '${wanted}'.` };
  if (!(await isProgram(path))) return { problem: `The setting conductor.path names no program: '${wanted}'.` };
  const { output, error } = await run(path, ['--version']);
  if (error !== null) return { problem: `'${path} --version' has failed: ${error}` };
  const version = versionOf(output);
  if (version === null) return { problem: `'${path}' is another program: it does not print the version of conductor.` };
  if (!isAtLeast(version, oldestVersion)) {
    return { problem: `conductor ${version} at '${path}' is too old. This extension needs ${oldestVersion} or later.` };
  }
  return { path, version };
}

/** Where a chain runs. */
export interface Place { folder: string; env: Record<string, string | undefined> }

/** The configuration of conductor in a folder. Older versions have none. */
export async function configurationIn(path: string, { folder, env }: Place): Promise<Configuration> {
  const { output, stderr, error } = await run(path, ['chain', 'list', '--json'], { cwd: folder, env });
  if (error === null) return configurationOf(output);
  // The program has not run to its end.
  if (!stderr) return { ...noConfiguration, problems: [`The configuration of conductor could not be read: ${error}`] };
  return failedConfiguration(stderr);
}

function run(path: string, args: string[], place: { cwd?: string; env?: NodeJS.ProcessEnv } = {}):
Promise<{ output: string; stderr: string; error: string | null }> {
  return new Promise<{ output: string; stderr: string; error: string | null }>((resolve) => {
    const options = { ...place, timeout: 10_000, maxBuffer: 1024 * 1024, windowsHide: true };
    execFile(path, args, options, (error, output, stderr) => resolve({
      output, stderr, error: error?.message.trim() ?? null,
    }));
  // Node throws some errors of the system at once.
  }).catch((error: unknown) => ({ output: '', stderr: '', error: error instanceof Error ? error.message : String(error) }));
}
