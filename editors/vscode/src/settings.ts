// The settings of the extension, read when they are needed.
import * as vscode from 'vscode';

const section = (): vscode.WorkspaceConfiguration => vscode.workspace.getConfiguration('conductor');

function words(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((it): it is string => typeof it === 'string') : [];
}

export const settings = {
  path: (): string => section().get<string>('path', ''),
  chain: (): unknown => section().get<unknown>('chain'),
  chains: (): unknown => section().get<unknown>('chains'),
  options: (): string[] => words(section().get<unknown>('options')),
  /** Null if the person has not set it: then the configuration of conductor says it. */
  logLevel(): string | null {
    const known = section().inspect<string>('log.level');
    return known?.workspaceFolderValue ?? known?.workspaceValue ?? known?.globalValue ?? null;
  },
  logMessages: (): boolean => section().get<boolean>('log.messages', false),
  denyOutside: (): boolean => section().get<string>('files.outside', 'ask') === 'deny',
  askInFiles: (): boolean => section().get<boolean>('comments.ask', true),
  keptConversations: (): number => Math.max(0, Math.min(200, section().get<number>('conversations.keep', 30))),

  /** The environment of this process with the changes of the setting. */
  environment(): Record<string, string | undefined> {
    const result: Record<string, string | undefined> = { ...process.env };
    for (const [name, value] of Object.entries(section().get<Record<string, unknown>>('environment', {}))) {
      if (typeof value === 'string') result[name] = value;
      else delete result[name];
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
