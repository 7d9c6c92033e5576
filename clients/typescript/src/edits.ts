// Edits that a component proposes and a person accepts or rejects: the topic `edits`.
import type { Host } from './host';
import { at } from './json';
import type { FileDiff } from './link/types';
import type { Topics } from './link/topics';
import type { Project } from './project';
import { messageOf } from './rpc-error';
import type { OperationParams, OperationResults } from './scp';
import { applyEdits, type PartEdit } from './text-edit';

const topic = 'edits';
/** The most edits that wait for an answer. */
const mostEdits = 50;
/** The most files of one edit. */
const mostFiles = 100;
/** The most bytes of the edited files together. */
const mostSize = 4 * 1024 * 1024;

type Applied = OperationResults['apply-edit'];

interface EditedFile { path: string; old: string | null; new: string }
interface OpenEdit { files: EditedFile[]; answer: (applied: Applied) => void }

export type EditHost = Required<Pick<Host, 'readTextFile' | 'writeTextFile'>>;

export class Edits {
  private readonly open = new Map<string, OpenEdit>();
  private count = 0;

  constructor(
    private readonly topics: Topics,
    private readonly project: Project,
    private readonly host: EditHost,
    private readonly written: (path: string) => void,
  ) {}

  /** Shows an edit to the person, and waits for the answer. An edit that nobody waits for is withdrawn. */
  async propose(
    { label, edits }: OperationParams['apply-edit'], folder: string, signal: AbortSignal,
  ): Promise<Applied> {
    const byFile = new Map<string, PartEdit[]>();
    for (const edit of edits) {
      const path = await this.project.locate(edit.url, folder);
      byFile.set(path, [...(byFile.get(path) ?? []), edit]);
    }
    if (byFile.size === 0 || byFile.size > mostFiles) throw new Error(`an edit changes between 1 and ${mostFiles} files`);
    const files: EditedFile[] = [];
    for (const [path, changes] of byFile) files.push(await this.edited(path, changes));
    if (files.reduce((sum, it) => sum + Buffer.byteLength(it.new), 0) > mostSize) {
      throw new Error('the edited files are larger than 4 MiB');
    }
    if (this.open.size >= mostEdits) throw new Error(`${mostEdits} edits wait for an answer`);
    if (signal.aborted) return { applied: false };
    return this.show(label ?? 'Edit files', files, signal);
  }

  private show(label: string, files: EditedFile[], signal: AbortSignal): Promise<Applied> {
    this.count += 1;
    const id = `edit-${this.count}`;
    const shown = files.map((it): FileDiff => ({ ...it, path: this.project.shown(it.path) }));
    return new Promise((resolve) => {
      const withdraw = () => this.withdraw(id);
      const answer = (applied: Applied) => {
        signal.removeEventListener('abort', withdraw);
        resolve(applied);
      };
      signal.addEventListener('abort', withdraw);
      this.open.set(id, { files, answer });
      this.topics.put(topic, id, { kind: 'edit', label, files: shown, state: 'open' });
    });
  }

  private withdraw(id: string): void {
    const edit = this.open.get(id);
    if (!edit) return;
    this.open.delete(id);
    this.topics.remove(topic, id);
    edit.answer({ applied: false });
  }

  /** Applies or rejects an edit. */
  async answer(id: string, accept: boolean): Promise<null> {
    const edit = this.open.get(id);
    if (!edit) throw new Error('the edit was answered already');
    this.open.delete(id);
    let failed: string | null = null;
    if (accept) {
      failed = await this.write(edit.files).then(() => null, messageOf);
      for (const { path } of edit.files) this.written(path);
    }
    const state = !accept ? 'rejected' : failed === null ? 'accepted' : 'failed';
    const entry = this.topics.get(topic, id);
    if (entry?.kind === 'edit') this.topics.put(topic, id, { ...entry, state });
    this.topics.limit(topic, 2 * mostEdits, (it) => it.kind === 'edit' && it.state === 'open');
    const reason = accept ? failed : 'the user has rejected the edit';
    edit.answer({ applied: state === 'accepted', ...(reason === null ? {} : { reason }) });
    if (failed !== null) throw new Error(failed);
    return null;
  }

  /** Nobody waits for edits any more, because the chain has ended. */
  end(): void {
    for (const id of [...this.open.keys()]) this.withdraw(id);
  }

  private async edited(path: string, changes: PartEdit[]): Promise<EditedFile> {
    const old = await this.read(path);
    try {
      return { path, old, new: applyEdits(old ?? '', changes) };
    } catch (error) {
      throw new Error(`${this.project.shown(path)}: ${messageOf(error)}`);
    }
  }

  /** The text of a file. Null if it does not exist. */
  private async read(path: string): Promise<string | null> {
    try {
      return await this.host.readTextFile(path, {});
    } catch (error) {
      const code = at(error, 'code');
      if (code === -32002 || code === 'ENOENT' || code === 'FileNotFound') return null;
      throw error;
    }
  }

  /** Writes all files, unless one of them has changed since the edit was made. */
  private async write(files: EditedFile[]): Promise<void> {
    for (const { path, old } of files) {
      const moved = await this.project.locate(path).then((it) => it !== path, () => true);
      const now = await this.read(path).catch(() => undefined);
      if (moved || now !== old) {
        throw new Error(`${this.project.shown(path)} has changed since the edit was made; nothing was written`);
      }
    }
    const written: string[] = [];
    for (const { path, new: text } of files) {
      try {
        await this.host.writeTextFile(path, text);
      } catch (error) {
        const before = written.length > 0 ? `; these files were written before: ${written.join(', ')}` : '';
        throw new Error(messageOf(error) + before);
      }
      written.push(this.project.shown(path));
    }
  }
}
