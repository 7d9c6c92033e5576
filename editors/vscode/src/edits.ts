// Edits that a component proposes: each file is shown as a diff, and nothing is changed before the person accepts.
import * as vscode from 'vscode';
import type { OperationParams, OperationResults, Topics } from 'acp-conductor-client';
import { editScheme, type Documents } from './documents';
import type { Log } from './events';
import { shortLine } from './lines';
import { messages } from './messages';
import { columnFor } from './open';
import { deniedOutside, fileLines, isInWorkspace, openDocument, pathIn, pathOf, shownPath, textOf } from './places';
import { linesOf } from './positions';
import { settings } from './settings';
import { applied, placed, type PartEdit, type PlacedEdit } from './text-edits';
import { setContext, why } from './small';

type Request = OperationParams['apply-edit'];
type Result = OperationResults['apply-edit'];
type State = 'open' | 'accepted' | 'rejected' | 'failed';

const mostFiles = 100;
const mostEdits = 50;
const mostUnits = 4 * 1024 * 1024;
const mostOfLabel = 120;

interface FileEdit {
  path: string;
  /** Null for a new file. */
  old: string | null;
  new: string;
  parts: PlacedEdit[];
  before: vscode.Uri;
  after: vscode.Uri;
}

interface Proposed {
  id: string;
  label: string;
  files: FileEdit[];
  /** Set when the person has answered: two answers at a time are one. */
  answered: boolean;
  finish(result: Result): void;
}

export class Edits {
  private readonly open = new Map<string, Proposed>();
  private count = 0;
  private readonly following: vscode.Disposable;

  constructor(
    private readonly topics: Topics,
    private readonly folder: string,
    private readonly documents: Documents,
    private readonly log: Log,
  ) {
    this.following = vscode.window.tabGroups.onDidChangeTabs(({ closed }) => this.tabsClosed(closed));
  }

  /** Shows an edit, and waits for the answer of the person. */
  async propose(request: Request, cwd: string, signal: AbortSignal): Promise<Result> {
    if (this.open.size >= mostEdits) throw new Error(`${mostEdits} edits wait for an answer`);
    const files = await this.prepare(request, cwd);
    if (signal.aborted) throw new Error('the request was cancelled');
    const id = `edit-${this.count += 1}`;
    const label = shortLine(request.label ?? '', mostOfLabel) || 'Edit files';
    return new Promise<Result>((resolve) => {
      const edit: Proposed = { id, label, files, answered: false, finish: resolve };
      this.open.set(id, edit);
      this.put(edit, 'open');
      signal.addEventListener('abort', () => this.withdraw(edit), { once: true });
      void this.show(edit);
    });
  }

  /** The answer of the person, from a button, the chat or a command. */
  async answer(id: string, accept: boolean): Promise<void> {
    const edit = this.open.get(id);
    if (!edit || edit.answered) throw new Error('the edit was answered already');
    edit.answered = true;
    if (!accept) return this.end(edit, 'rejected', 'the user has rejected the edit');
    try {
      await this.apply(edit);
      await this.end(edit, 'accepted', null);
    } catch (error) {
      const reason = why(error);
      await this.end(edit, 'failed', reason);
      throw new Error(reason);
    }
  }

  /** The edit of a side of a diff. */
  find(uri: vscode.Uri): string | null {
    const isOf = ({ files }: Proposed) => files.some(({ before, after }) => same(before, uri) || same(after, uri));
    return [...this.open.values()].find(isOf)?.id ?? null;
  }

  /** The edits that wait for an answer, the newest first. */
  waiting(): { id: string; label: string; files: string[] }[] {
    return [...this.open.values()].filter(({ answered }) => !answered).reverse()
      .map(({ id, label, files }) => ({ id, label, files: files.map(({ path }) => shownPath(path)) }));
  }

  /** Nobody waits for answers any more, because the chain has ended. */
  withdrawAll(): void {
    for (const edit of [...this.open.values()]) this.withdraw(edit);
  }

  dispose(): void {
    this.withdrawAll();
    this.following.dispose();
  }

  private async prepare(request: Request, cwd: string): Promise<FileEdit[]> {
    const byFile = new Map<string, PartEdit[]>();
    for (const { url, start, end, new_text: text } of request.edits) {
      const path = pathOf(url, cwd);
      byFile.set(path, [...(byFile.get(path) ?? []), { start, end, text }]);
    }
    const isRight = byFile.size > 0 && byFile.size <= mostFiles;
    if (!isRight) throw new Error(`an edit changes between 1 and ${mostFiles} files`);
    const files: FileEdit[] = [];
    for (const [path, edits] of byFile) {
      if (settings.denyOutside() && !(await isInWorkspace(path))) throw new Error(deniedOutside(path));
      const old = await textOf(path);
      try {
        const parts = placed(await fileLines(path) ?? linesOf(''), edits);
        const after = applied(old ?? '', parts);
        files.push({ path, old, new: after, parts, ...this.documents.pair(editScheme, path, old ?? '', after) });
      } catch (error) {
        throw new Error(`${shownPath(path)}: ${why(error)}`);
      }
    }
    if (files.reduce((sum, file) => sum + file.new.length, 0) > mostUnits) {
      throw new Error('the edited files are larger than 4 MiB');
    }
    return files;
  }

  private async show(edit: Proposed): Promise<void> {
    const many = edit.files.length;
    // The first file ends up in front.
    for (const [index, file] of [...edit.files.entries()].reverse()) {
      const place = many > 1 ? ` (${index + 1} of ${many})` : '';
      const title = `${edit.label}: ${shownPath(file.path)}${place}`;
      if (!this.open.has(edit.id)) return;
      await vscode.commands.executeCommand('vscode.diff', file.before, file.after, title, {
        preview: false, preserveFocus: true, viewColumn: columnFor(null),
      });
      this.log.own({ event: 'edit diff', id: edit.id, file: shownPath(file.path), title });
      // The edit was answered or cancelled while the diff opened.
      if (!this.open.has(edit.id)) return void this.closeTabs(edit);
    }
    const what = many === 1 ? shownPath(edit.files[0]?.path ?? '') : `${many} files`;
    const answer = await messages.info(`${edit.label}: change ${what}?`, 'Accept', 'Reject');
    if (answer === undefined || !this.open.has(edit.id)) return;
    await this.answer(edit.id, answer === 'Accept').catch((error: unknown) => {
      void messages.error(why(error));
    });
  }

  private async apply({ files }: Proposed): Promise<void> {
    for (const { path, old } of files) {
      const now = await textOf(path);
      if (now !== old) throw new Error(`${shownPath(path)} has changed since the edit was made; nothing was written`);
    }
    const edit = new vscode.WorkspaceEdit();
    for (const { path, old, new: text, parts } of files) {
      const uri = (await openDocument(path))?.uri ?? vscode.Uri.file(path);
      if (old === null) {
        edit.createFile(uri, { ignoreIfExists: false, contents: new TextEncoder().encode(text) });
        continue;
      }
      for (const { range: { start, end }, text: part } of parts) {
        edit.replace(uri, new vscode.Range(start.line, start.character, end.line, end.character), part);
      }
    }
    const isApplied = await vscode.workspace.applyEdit(edit);
    if (!isApplied) throw new Error('VS Code did not apply the edit; nothing was written');
    const unsaved: string[] = [];
    for (const { path } of files) {
      const document = await openDocument(path);
      // VS Code tells a while after a change that the text is not saved, and before it answers.
      if (document && !(await document.save()) && document.isDirty) unsaved.push(shownPath(path));
    }
    if (unsaved.length) throw new Error(`the edit was applied, but these files were not saved: ${unsaved.join(', ')}`);
  }

  private async end(edit: Proposed, state: State, reason: string | null): Promise<void> {
    this.open.delete(edit.id);
    this.put(edit, state);
    edit.finish(reason === null ? { applied: true } : { applied: false, reason });
    await this.closeTabs(edit);
  }

  /** Nobody waits for the edit any more. */
  private withdraw(edit: Proposed): void {
    if (!this.open.delete(edit.id)) return;
    this.topics.remove('edits', edit.id);
    this.context();
    edit.finish({ applied: false, reason: 'the request was cancelled' });
    void this.closeTabs(edit);
  }

  private tabsClosed(closed: readonly vscode.Tab[]): void {
    for (const { input } of closed) {
      if (!(input instanceof vscode.TabInputTextDiff) || input.modified.scheme !== editScheme) continue;
      const edit = [...this.open.values()].find(({ files }) => files.some(({ after }) => same(after, input.modified)));
      // A person who closes the last diff does not want the edit. While it is applied, it has an answer.
      if (!edit || edit.answered || this.tabs(edit).length > 0) continue;
      edit.answered = true;
      void this.end(edit, 'rejected', 'the user has closed the diff without an answer');
    }
  }

  private tabs({ files }: Proposed): vscode.Tab[] {
    return vscode.window.tabGroups.all.flatMap((group) => group.tabs).filter(({ input }) =>
      input instanceof vscode.TabInputTextDiff && files.some(({ after }) => same(after, input.modified)));
  }

  private async closeTabs(edit: Proposed): Promise<void> {
    const tabs = this.tabs(edit);
    if (tabs.length) await vscode.window.tabGroups.close(tabs, true);
    for (const { before, after } of edit.files) this.documents.forget(before, after);
  }

  private put({ id, label, files }: Proposed, state: State): void {
    this.topics.put('edits', id, {
      kind: 'edit', label, state,
      files: files.map((file) => ({ path: pathIn(this.folder, file.path), old: file.old, new: file.new })),
    });
    this.topics.limit('edits', 2 * mostEdits, (it) => it.kind === 'edit' && it.state === 'open');
    this.context();
  }

  private context(): void {
    setContext('hasEdit', this.open.size > 0);
  }
}

function same(a: vscode.Uri, b: vscode.Uri): boolean {
  return a.toString() === b.toString();
}
