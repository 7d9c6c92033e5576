// A chain with a scripted agent, for tests inside the host: the test sends what the agent sends.
import { scriptedAgent } from '../../../../web/test/scripted.mjs';
import { until } from '../../../../web/test/until.mjs';

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

/** Closes all editors, and forgets what was not saved. */
export async function closeAll(vscode) {
  for (const document of vscode.workspace.textDocuments.filter((it) => it.isDirty)) {
    await vscode.window.showTextDocument(document);
    await vscode.commands.executeCommand('workbench.action.files.revert');
  }
  await vscode.commands.executeCommand('workbench.action.closeAllEditors');
}
