// Documents that exist only to be compared: the two sides of a diff.
import * as vscode from 'vscode';

/** Diffs that a person answers. Their editors have the buttons Accept and Reject. */
export const editScheme = 'conductor-edit';
/** Diffs that are only shown. */
export const diffScheme = 'conductor-diff';

/** How many shown diffs are kept. Their tabs may be open for long. */
const mostShown = 50;

export class Documents implements vscode.TextDocumentContentProvider {
  private readonly texts = new Map<string, string>();
  private count = 0;

  register(): vscode.Disposable {
    return vscode.Disposable.from(
      vscode.workspace.registerTextDocumentContentProvider(editScheme, this),
      vscode.workspace.registerTextDocumentContentProvider(diffScheme, this),
    );
  }

  provideTextDocumentContent(uri: vscode.Uri): string {
    return this.texts.get(uri.toString()) ?? '';
  }

  /** The two sides of a diff. The path stays, so that VS Code knows the language. */
  pair(scheme: string, path: string, before: string, after: string): { before: vscode.Uri; after: vscode.Uri } {
    this.count += 1;
    const side = (name: string, text: string) => {
      const uri = vscode.Uri.file(path).with({ scheme, query: `${name}=${this.count}` });
      this.texts.set(uri.toString(), text);
      return uri;
    };
    return { before: side('before', before), after: side('after', after) };
  }

  forget(...uris: vscode.Uri[]): void {
    for (const uri of uris) this.texts.delete(uri.toString());
  }

  /** Shows a change that was made or proposed elsewhere. */
  async showDiff(path: string, old: string | null, text: string, label: string): Promise<void> {
    const shown = [...this.texts.keys()].filter((uri) => uri.startsWith(`${diffScheme}:`));
    for (const uri of shown.slice(0, Math.max(0, shown.length - 2 * mostShown))) this.texts.delete(uri);
    const { before, after } = this.pair(diffScheme, path, old ?? '', text);
    await vscode.commands.executeCommand('vscode.diff', before, after, label, { preview: true });
  }
}

