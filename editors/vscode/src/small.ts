// Small helpers that many modules use.
import * as vscode from 'vscode';

/** The message of what was thrown. */
export const why = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** Sets a key that the conditions in package.json use. */
export const setContext = (name: string, value: unknown): void => {
  void vscode.commands.executeCommand('setContext', `conductor.${name}`, value);
};
