// The settings of the extension, read when they are needed.
import * as vscode from 'vscode';
import { chainOf, chainsOf, countOf, flagOf, textOf, variablesOf, wordOf, wordsOf } from './setting-values';

const section = (): vscode.WorkspaceConfiguration => vscode.workspace.getConfiguration('conductor');

/** The value of a setting as it is. */
const read = (name: string): unknown => section().get<unknown>(name);

const logLevels = ['error', 'warn', 'info', 'debug', 'trace'];

/** Every setting of package.json, checked. */
const checked = {
  path: () => textOf('path', read('path')),
  chain: () => chainOf('chain', read('chain')),
  chains: () => chainsOf('chains', read('chains')),
  options: () => wordsOf('options', read('options')),
  environment: () => variablesOf('environment', read('environment')),
  /** Null if the person has not set it: then the configuration of conductor says it. */
  logLevel() {
    const known = section().inspect<unknown>('log.level');
    const value = known?.workspaceFolderValue ?? known?.workspaceValue ?? known?.globalValue ?? null;
    return value === null ? { value, problem: null } : wordOf('log.level', value, logLevels, null);
  },
  logMessages: () => flagOf('log.messages', read('log.messages'), false),
  outside: () => wordOf('files.outside', read('files.outside'), ['ask', 'deny'], 'ask'),
  askInFiles: () => flagOf('comments.ask', read('comments.ask'), true),
  keptConversations: () => countOf('conversations.keep', read('conversations.keep'), 200, 30),
};

export const settings = {
  path: () => checked.path().value,
  chain: () => checked.chain().value,
  chains: () => checked.chains().value,
  options: () => checked.options().value,
  logLevel: () => checked.logLevel().value,
  logMessages: () => checked.logMessages().value,
  denyOutside: () => checked.outside().value === 'deny',
  askInFiles: () => checked.askInFiles().value,
  keptConversations: () => checked.keptConversations().value,

  /** What is wrong with the settings that say what is started: with their default values, another chain would run. */
  problems(): string[] {
    const { path, chain, options, environment } = checked;
    return [path, chain, options, environment].flatMap((check) => check().problem ?? []);
  },

  /** What is wrong with the chains that have a name. The others can be used. */
  problemsOfChains: (): string[] => [checked.chains().problem ?? []].flat(),

  /** What is wrong with the other settings. */
  notes(): string[] {
    const { logLevel, logMessages, outside, askInFiles, keptConversations } = checked;
    const wrong = [logLevel, logMessages, outside, askInFiles, keptConversations].flatMap((check) => check().problem ?? []);
    return [...settings.problemsOfChains(), ...wrong.map((problem) => `${problem} The default value is used.`)];
  },

  /** The environment of this process with the changes of the setting. */
  environment(): Record<string, string | undefined> {
    const result: Record<string, string | undefined> = { ...process.env };
    for (const [name, value] of Object.entries(checked.environment().value)) {
      if (value === null) delete result[name];
      else result[name] = value;
    }
    // They are for VS Code's own processes.
    for (const name of ['ELECTRON_RUN_AS_NODE', 'VSCODE_IPC_HOOK', 'VSCODE_NLS_CONFIG', 'VSCODE_PID', 'VSCODE_CWD',
      'VSCODE_CODE_CACHE_PATH', 'VSCODE_CRASH_REPORTER_PROCESS_TYPE', 'VSCODE_HANDLES_UNCAUGHT_ERRORS',
      'VSCODE_ESM_ENTRYPOINT', 'VSCODE_EXTHOST_WILL_SEND_SOCKET', 'VSCODE_RECONNECTION_GRACE_TIME']) {
      delete result[name];
    }
    return result;
  },

  /** Sets the chain: in the settings of the workspace if they name one already, and else in those of the user. */
  async setChain(value: string | string[]): Promise<void> {
    const known = section().inspect('chain');
    const workspace = known?.workspaceValue !== undefined || known?.workspaceFolderValue !== undefined;
    const target = workspace ? vscode.ConfigurationTarget.Workspace : vscode.ConfigurationTarget.Global;
    await section().update('chain', value, target);
  },

  async setPath(path: string): Promise<void> {
    await section().update('path', path, vscode.ConfigurationTarget.Global);
  },
};
