// Opens files for a person.
import * as vscode from 'vscode';
import { lastTextEditor } from './places';
import { atOf, type Place } from './positions';

/** Opens a file, at a place if there is one. The keyboard stays where it is unless `focus` is set. */
export async function openFile(path: string, place: Place | null, focus: boolean): Promise<void> {
  const uri = vscode.Uri.file(path);
  let document: vscode.TextDocument;
  try {
    document = await vscode.workspace.openTextDocument(uri);
  } catch (error) {
    await vscode.workspace.fs.stat(uri);
    if (place) throw error;
    // A picture, or another file that is not text: VS Code has other editors for it.
    await vscode.commands.executeCommand('vscode.open', uri, { preserveFocus: !focus, preview: true });
    return;
  }
  const options: vscode.TextDocumentShowOptions = { preserveFocus: !focus, preview: true, viewColumn: columnFor(uri) };
  if (place) {
    const at = atOf(document, place, 'start');
    options.selection = new vscode.Range(at.line, at.character, at.line, at.character);
  }
  const editor = await vscode.window.showTextDocument(document, options);
  if (place) editor.revealRange(editor.selection, vscode.TextEditorRevealType.InCenterIfOutsideViewport);
}

/** The column of a file: where it is open, or else where the person reads code and not a panel. */
export function columnFor(uri: vscode.Uri | null): vscode.ViewColumn {
  const groups = vscode.window.tabGroups.all;
  const has = (group: vscode.TabGroup) => group.tabs.some(({ input }) => input instanceof vscode.TabInputText
    && input.uri.toString() === uri?.toString());
  const own = groups.find(has)?.viewColumn;
  if (own !== undefined) return own;
  const column = lastTextEditor()?.viewColumn;
  if (column !== undefined) return column;
  const isWebview = (group: vscode.TabGroup) => group.tabs.length > 0
    && group.tabs.every(({ input }) => input instanceof vscode.TabInputWebview);
  return groups.find((group) => !isWebview(group))?.viewColumn ?? vscode.ViewColumn.Beside;
}
