// The terminals of an agent: `terminal/create`, `terminal/output`, `terminal/wait_for_exit`, `terminal/kill` and
// `terminal/release`.
//
// A terminal is a command in its own process group, whose output is kept. The command has no input and no terminal
// device, so programs do not ask questions. When a terminal is released, or when this process ends, all of its processes are
// killed.
import { accessSync, constants, existsSync, statSync } from 'node:fs';
import { delimiter, isAbsolute, resolve } from 'node:path';
import { at, list, text, whole } from './json';
import type { Exit } from './link/types';
import { endGroup, signalGroup } from './process';
import { internal, invalidParams, messageOf } from './rpc-error';
import { TerminalOutput } from './terminal-output';
import { spawnWatched, type Watched } from './watched';

/** The most terminals that are not released. */
const mostTerminals = 64;
/** How many bytes of output are kept if the agent sets no limit. */
const defaultLimit = 8 * 1024 * 1024;
/** How long to wait for the end of the output after the command has exited. Another process may keep it open. */
const outputMs = 200;
/** How long a command that is asked to exit may take before it is killed. */
const killMs = 500;

/** Words at the start of a command that only a shell understands. */
const shellWords = [
  'cd', 'export', 'source', '.', 'for', 'while', 'until', 'if', 'case', 'set', 'unset', 'eval', 'exec', 'alias', 'type',
  'ulimit', '{', '(', '!', '[[',
];

const isWindows = process.platform === 'win32';

export interface ExitStatus { exitCode: number | null; signal: string | null }

/** The output of a terminal so far, and how its command has exited. */
export interface TerminalChange { id: string; text: string; exit: Exit | null }

type Environment = Record<string, string | undefined>;

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;
}

/**
 * Many agents send a command line for a shell as the command, without arguments. Some split it at its spaces, so that the
 * command is a word of the shell. A program whose path contains a space is run as it is.
 */
function withShell(command: string, args: string[]): [string, string[]] {
  const isLine = args.length === 0 && /[\s|&;<>()$`"'*?~#]/.test(command) && !isFile(command);
  if (!isLine && !shellWords.includes(command)) return [command, args];
  const line = [command, ...args].join(' ');
  if (isWindows) return ['cmd', ['/C', line]];
  return [existsSync('/bin/bash') ? '/bin/bash' : '/bin/sh', ['-c', line]];
}

/** Throws an error if there is no such program. A shell that runs it would only say so in the output. */
function checkProgram(program: string, folder: string, env: Environment): void {
  const folders = program.includes('/') ? [folder] : (env['PATH'] ?? '').split(delimiter);
  const mayRun = (path: string) => {
    try {
      accessSync(path, constants.X_OK);
      return isFile(path);
    } catch {
      return false;
    }
  };
  const paths = folders.map((it) => resolve(it, program));
  if (paths.some(mayRun)) return;
  throw new Error(paths.some((it) => isFile(it)) ? 'Permission denied (EACCES)' : 'No such file or directory (ENOENT)');
}

interface CommandLine { program: string; args: string[]; env: Environment; folder: string; limit: number }

function commandLine(folder: string, params: unknown, base: Environment): CommandLine {
  const command = text(at(params, 'command'));
  if (!command?.trim()) throw invalidParams('`command` is missing');
  const cwd = text(at(params, 'cwd')) ?? folder;
  if (!isAbsolute(cwd)) throw invalidParams(`\`cwd\` must be absolute: ${cwd}`);
  if (!statSync(cwd, { throwIfNoEntry: false })?.isDirectory()) throw invalidParams(`\`cwd\` is not a folder: ${cwd}`);
  const env = { ...base };
  for (const variable of list(at(params, 'env'))) {
    const name = text(at(variable, 'name')) ?? '';
    if (name && !/[=\0]/.test(name)) env[name] = (text(at(variable, 'value')) ?? '').replaceAll('\0', '');
  }
  const [program, args] = withShell(command, list(at(params, 'args')).map((it) => text(it) ?? ''));
  if ([program, ...args].some((it) => it.includes('\0'))) throw invalidParams('`command` contains a zero character');
  const limit = Math.min(whole(at(params, 'outputByteLimit')) ?? defaultLimit, defaultLimit);
  return { program, args, env, folder: cwd, limit };
}

/** The command of `terminal/create` as one writes it in a shell, with its environment variables: exactly what runs. */
export function shownCommand(params: unknown): string {
  const command = text(at(params, 'command')) ?? '';
  const args = list(at(params, 'args')).map((it) => text(it) ?? '');
  const variables = list(at(params, 'env'))
    .map((it): [string, string] => [text(at(it, 'name')) ?? '', text(at(it, 'value')) ?? ''])
    .filter(([name]) => name && !/[=\0]/.test(name));
  const [program, words] = withShell(command, args);
  const isLine = program !== command || words.length !== args.length;
  return withVariables(variables, isLine ? words.at(-1) ?? '' : quotedWords([command, ...args]), isLine);
}

/** A command with its environment variables. In front of a line, they are exported: they hold for all of its commands. */
export function withVariables(variables: ReadonlyArray<[string, string]>, command: string, isLine: boolean): string {
  if (variables.length === 0) return command;
  const words = variables.map(([name, value]) => `${name}=${quoted(value)}`).join(' ');
  return isLine ? `export ${words}; ${command}` : `${words} ${command}`;
}

/** Words as one writes them in a shell. */
export function quotedWords(words: readonly string[]): string {
  return words.map(quoted).join(' ');
}

function quoted(word: string): string {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

class Terminal {
  readonly output: TerminalOutput;
  exit: ExitStatus | null = null;
  readonly exited: Promise<ExitStatus>;
  private readonly watched: Watched;
  /** What was reported: the number of bytes, and whether the command had exited. */
  private reported = { total: 0, exited: false };

  constructor({ program, args, env, folder, limit }: CommandLine, changed: () => void) {
    this.output = new TerminalOutput(limit);
    if (!isWindows) checkProgram(program, folder, env);
    this.watched = spawnWatched(program, args, { cwd: folder, env });
    const { child, outputEnded } = this.watched;
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on('data', (bytes: Buffer) => {
        this.output.push(bytes);
        changed();
      });
      stream?.on('error', () => {});
    }
    this.exited = new Promise((resolve) => {
      const finish = (exit: ExitStatus) => {
        if (this.exit) return;
        this.exit = exit;
        this.output.ended = true;
        changed();
        resolve(exit);
      };
      child.once('error', (error) => {
        this.output.push(Buffer.from(messageOf(error)));
        finish({ exitCode: null, signal: null });
      });
      child.once('exit', (exitCode, signal) => {
        const timer = setTimeout(() => finish({ exitCode, signal }), outputMs);
        void outputEnded.then(() => {
          clearTimeout(timer);
          finish({ exitCode, signal });
        });
      });
    });
  }

  /** Asks the command to exit, and kills it if it does not. */
  terminate(): void {
    const { pid } = this.watched.child;
    if (!this.exit && pid !== undefined) void endGroup(pid, killMs);
  }

  /** Kills all processes. */
  kill(): void {
    const { child: { pid }, isUnwatched } = this.watched;
    if (pid === undefined) return;
    if (isWindows) void (this.exit ?? endGroup(pid, 0));
    // A group without a watcher was ended. Its number may be that of another process by now.
    else if (!this.exit || !isUnwatched()) signalGroup(pid, 'SIGKILL');
  }

  /** The output and the exit status, if they have changed since the last call. */
  change(id: string): TerminalChange[] {
    const now = { total: this.output.total, exited: this.exit !== null };
    if (now.total === this.reported.total && now.exited === this.reported.exited) return [];
    this.reported = now;
    return [{ id, text: this.output.text().text, exit: this.exit && exitOf(this.exit) }];
  }
}

function exitOf({ exitCode, signal }: ExitStatus): Exit {
  return { code: exitCode, signal };
}

export class Terminals {
  private readonly terminals = new Map<string, Terminal>();
  /** Changes of released terminals that were not reported. */
  private unreported: TerminalChange[] = [];

  /** The commands have this environment. `changed` is called when there is more output. The ids begin after `count`. */
  constructor(private readonly env: Environment, private readonly changed: () => void, private count = 0) {}

  /** Starts a command. Without `cwd`, it runs in this folder. */
  create(folder: string, params: unknown): { terminalId: string } {
    if (this.terminals.size >= mostTerminals) {
      throw internal(`${mostTerminals} terminals are open; release one of them first`);
    }
    const line = commandLine(folder, params, this.env);
    let terminal: Terminal;
    try {
      terminal = new Terminal(line, this.changed);
    } catch (error) {
      throw internal(`cannot run \`${line.program}\` in ${line.folder}: ${messageOf(error)}`);
    }
    this.count += 1;
    const terminalId = `terminal-${this.count}`;
    this.terminals.set(terminalId, terminal);
    return { terminalId };
  }

  output(params: unknown): { output: string; truncated: boolean; exitStatus?: ExitStatus } {
    const { output, exit } = this.find(params);
    const { text: shown, truncated } = output.text();
    return { output: shown, truncated, ...(exit ? { exitStatus: exit } : {}) };
  }

  async waitForExit(params: unknown): Promise<ExitStatus> {
    return this.find(params).exited;
  }

  /** Ends the command. Its output is kept. */
  kill(params: unknown): Record<string, never> {
    this.find(params).terminate();
    return {};
  }

  /** Kills all processes of the terminal and forgets it. */
  release(params: unknown): Record<string, never> {
    const [id, terminal] = [idOf(params), this.find(params)];
    // A command that still runs is killed, and that is its end.
    const killed: Exit = { code: null, signal: isWindows ? null : 'SIGKILL' };
    const changes = terminal.exit ? terminal.change(id) : [{ id, text: terminal.output.text().text, exit: killed }];
    this.unreported.push(...changes);
    terminal.kill();
    this.terminals.delete(id);
    return {};
  }

  /** Whether there is a terminal with this id that is not released. */
  isOpen(id: string): boolean {
    return this.terminals.has(id);
  }

  /** The terminals whose output or exit status has changed since the last call. */
  changes(): TerminalChange[] {
    return [...this.unreported.splice(0), ...[...this.terminals].flatMap(([id, it]) => it.change(id))];
  }

  /** Kills all processes of all terminals, and waits for the end of their commands. */
  async end(): Promise<void> {
    const all = [...this.terminals.values()];
    for (const terminal of all) terminal.kill();
    await Promise.all(all.map((it) => it.exited));
  }

  private find(params: unknown): Terminal {
    const found = this.terminals.get(idOf(params));
    if (!found) throw invalidParams(`there is no terminal \`${idOf(params)}\``);
    return found;
  }
}

function idOf(params: unknown): string {
  return text(at(params, 'terminalId')) ?? '';
}
