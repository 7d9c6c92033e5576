// A chain with a scripted agent, for tests inside the host: the test sends what the agent sends.
import { readFileSync } from 'node:fs';
import { scriptedAgent } from '../../../../web/test/scripted.mjs';
import { until as untilTrue } from '../../../../web/test/until.mjs';

/** Waits until `fact` returns something true, and returns it. As in the tests of windows, for a minute. */
export const until = (fact, what) => untilTrue(fact, what, 60_000);

/** Starts a chain with a scripted agent, and waits for its first session. */
export async function startAgent(vscode, { hold = false } = {}) {
  const agent = await scriptedAgent({ hold });
  const settings = vscode.workspace.getConfiguration('conductor');
  await settings.update('chain', agent.chain, vscode.ConfigurationTarget.Workspace);
  // Without a chain, it starts one.
  await vscode.commands.executeCommand('conductor.restartChain');
  await agent.heard('session/new');
  /** Asks the editor for an operation of SCP. */
  const operation = (name, params = {}) => agent.request(`_scp/ide_operation/${name}`, params);
  return { ...agent, operation };
}

/** Opens a file of the project in an editor, and returns the editor. */
export async function show(vscode, folder, name, options = {}) {
  const document = await vscode.workspace.openTextDocument(vscode.Uri.file(`${folder}/${name}`));
  // What was forgotten by `closeAll` may still be there.
  await until(() => !isUnsaved(document), `the text of ${name}`);
  return vscode.window.showTextDocument(document, { preview: false, ...options });
}

/** Changes the text of a document without saving it. */
export async function change(vscode, document, range, text) {
  const edit = new vscode.WorkspaceEdit();
  edit.replace(document.uri, range, text);
  if (!(await vscode.workspace.applyEdit(edit))) throw new Error('VS Code has not changed the document');
  // VS Code tells the extensions later that the text is not saved.
  await until(() => document.isDirty, 'the document with changes');
}

/** Closes all editors, and forgets what was not saved. Afterwards, each document has the text of its file. */
export async function closeAll(vscode) {
  // VS Code tells later what is not saved, and what is closed.
  await until(async () => {
    for (const document of vscode.workspace.textDocuments.filter(isUnsaved)) {
      await vscode.window.showTextDocument(document);
      // The command is for the editor in front.
      await until(() => vscode.window.activeTextEditor?.document === document, 'the editor in front');
      await vscode.commands.executeCommand('workbench.action.files.revert');
      await until(() => !isUnsaved(document), 'the text of the file');
    }
    await vscode.commands.executeCommand('workbench.action.closeAllEditors');
    const tabs = vscode.window.tabGroups.all.flatMap((group) => group.tabs);
    return tabs.length === 0 && !vscode.workspace.textDocuments.some(isUnsaved);
  }, 'the end of all editors');
}

/** Whether a document has another text than its file. */
function isUnsaved(document) {
  if (document.uri.scheme !== 'file' || document.isClosed) return false;
  if (document.isDirty) return true;
  try {
    const lines = (text) => text.replace(/^\ufeff/, '').split(/\r?\n/).join('\n');
    return lines(readFileSync(document.uri.fsPath, 'utf8')) !== lines(document.getText());
  } catch {
    // The file is gone.
    return false;
  }
}
