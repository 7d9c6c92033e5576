// The editor's side of SCP: panels, comments on lines, and operations of an editor.
//
// `handle` answers the requests of components. What a person does comes in as an action, and leaves as a notification to
// the component that owns the panel or the comment.
import { performsEdits } from './capabilities';
import { type EditHost, Edits } from './edits';
import type { Host } from './host';
import { type Check, Mismatch } from './link/check';
import type { Topics } from './link/topics';
import type { Action, Thread } from './link/types';
import type { Project } from './project';
import { invalidParams, messageOf, methodNotFound, RpcError } from './rpc-error';
import { isOperationName, type OperationName, operationParams, type OperationParams, scpMethods, scpParams } from './scp';

const [panels, comments, files] = ['panels', 'comments', 'files'];
/** The most panels at a time. */
const mostPanels = 100;
/** The most comments at a time. */
const mostComments = 5000;
/** The largest HTML of a panel, in bytes. */
const mostContents = 1024 * 1024;
/** The longest text of a comment or reply, in bytes. */
const mostComment = 64 * 1024;
/** The most replies of a thread. */
const mostReplies = 200;
/** The most files that are noted as written. */
const mostWritten = 2000;

type Params<Name extends keyof typeof scpParams> = ReturnType<(typeof scpParams)[Name]>;

/** Checks params. A mismatch is the error of the request. */
function read<T>(check: Check<T>, params: unknown, prefix = ''): T {
  try {
    return check(params, '');
  } catch (error) {
    if (error instanceof Mismatch) throw invalidParams(prefix + error.message);
    throw error;
  }
}

export class Surface {
  /** Grows with each panel that is brought to the front. */
  private front = 0;
  /** The session of each panel and comment that has one, by topic and id. */
  private readonly sessions = new Map<string, string>();
  private readonly edits: Edits | null;
  /** Comments are placed and removed in the order of their messages. */
  private lastComment: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly topics: Topics,
    private readonly project: Project,
    private readonly host: Host,
    /** Sends a notification. Throws an error if the chain has ended. */
    private readonly notify: (method: string, params: unknown) => void,
    /** The folder of a session. Relative paths belong to it. */
    private readonly folderOf: (session: string | null) => string = () => project.folder,
  ) {
    const { readTextFile, writeTextFile } = host;
    const files: EditHost | null = readTextFile && writeTextFile ? {
      readTextFile: readTextFile.bind(host), writeTextFile: writeTextFile.bind(host),
    } : null;
    this.edits = files && performsEdits(host)
      ? new Edits(topics, project, files, (path) => this.fileWritten(path)) : null;
  }

  /** Whether a method is one of those that `handle` answers. */
  knows(method: string): boolean {
    switch (method) {
      case scpMethods.showPanel: case scpMethods.getPanel: case scpMethods.clearPanel:
        return Boolean(this.host.panels);
      case scpMethods.showComment: case scpMethods.clearComment:
        return Boolean(this.host.comments);
      default:
        return method.startsWith(scpMethods.operation);
    }
  }

  /** Answers a request of a component. A notification with the same method does the same. */
  async handle(method: string, params: unknown, signal: AbortSignal): Promise<unknown> {
    switch (method) {
      case scpMethods.showPanel: return this.showPanel(read(scpParams.showPanel, params));
      case scpMethods.getPanel: return this.getPanel(read(scpParams.getPanel, params));
      case scpMethods.clearPanel: return this.clear(panels, read(scpParams.clearPanel, params).id);
      case scpMethods.showComment: {
        const comment = read(scpParams.showComment, params);
        return this.inOrder(() => this.showComment(comment));
      }
      case scpMethods.clearComment: {
        const { id } = read(scpParams.clearComment, params);
        return this.inOrder(() => this.clear(comments, id));
      }
      default: return this.operate(method, params ?? {}, signal);
    }
  }

  private inOrder<T>(act: () => T | Promise<T>): Promise<T> {
    const result = this.lastComment.then(act);
    this.lastComment = result.catch(() => {});
    return result;
  }

  private showPanel({ id, label, contents, sessionId }: Params<'showPanel'>): Record<string, never> {
    if (contents !== null && Buffer.byteLength(contents) > mostContents) {
      throw invalidParams(`the contents of the panel '${id}' are larger than 1 MiB`);
    }
    const old = this.topics.get(panels, id);
    const before = old?.kind === 'panel' ? old : null;
    const [newLabel, newContents] = [label ?? before?.label, contents ?? before?.contents];
    if (newLabel === undefined || newContents === undefined) {
      const missing = [newLabel === undefined ? '`label`' : '', newContents === undefined ? '`contents`' : ''];
      const names = missing.filter(Boolean).join(' and ');
      throw invalidParams(`the panel '${id}' does not exist, and a new panel needs ${names}`);
    }
    if (!before && this.topics.size(panels) >= mostPanels) {
      throw invalidParams(`${mostPanels} panels are open; clear one of them first`);
    }
    this.front += 1;
    this.topics.put(panels, id, { kind: 'panel', label: newLabel, contents: newContents, front: this.front });
    if (sessionId !== null) this.sessions.set(`${panels}/${id}`, sessionId);
    return {};
  }

  private getPanel({ id }: Params<'getPanel'>): string | null {
    const panel = this.topics.get(panels, id);
    return panel?.kind === 'panel' ? panel.contents : null;
  }

  private clear(topic: string, id: string): Record<string, never> {
    this.sessions.delete(`${topic}/${id}`);
    this.topics.remove(topic, id);
    return {};
  }

  private async showComment(comment: Params<'showComment'>): Promise<Record<string, never>> {
    const { id, url, start, end, can_reply, contents, sessionId } = comment;
    const text = contents ?? '';
    if (Buffer.byteLength(text) > mostComment) {
      throw invalidParams(`the text of the comment '${id}' is larger than 64 KiB`);
    }
    const path = await this.project.locate(url, this.folderOf(sessionId)).catch((error: unknown) => {
      throw invalidParams(messageOf(error));
    });
    if (start.line === 0 || (end && end.line < start.line)) {
      throw invalidParams(
        `the place of the comment '${id}' does not exist: lines begin with 1, and the end follows the start`);
    }
    const old = this.topics.get(comments, id);
    if (!old && this.topics.size(comments) >= mostComments) {
      throw invalidParams(`${mostComments} comments are shown; clear some of them first`);
    }
    const thread: Thread = {
      path: this.project.shown(path), line: start.line, column: start.column, endLine: end?.line ?? start.line,
      endColumn: end?.column ?? null, text, canReply: can_reply ?? false,
      replies: old?.kind === 'thread' ? old.replies : [],
    };
    this.topics.put(comments, id, { kind: 'thread', ...thread });
    if (sessionId !== null) this.sessions.set(`${comments}/${id}`, sessionId);
    return {};
  }

  private async operate(method: string, params: unknown, signal: AbortSignal): Promise<unknown> {
    const name = method.slice(scpMethods.operation.length);
    if (!isOperationName(name)) throw methodNotFound(method);
    const operation = this.operation(name, params);
    if (!operation) throw methodNotFound(method);
    try {
      return (await operation(signal)) ?? (name === 'get-selection' ? null : {});
    } catch (error) {
      throw error instanceof RpcError ? error : invalidParams(`${name}: ${messageOf(error)}`);
    }
  }

  /** The operation with its checked params. Undefined if the editor does not perform it. */
  private operation<Name extends OperationName>(
    name: Name, params: unknown,
  ): ((signal: AbortSignal) => Promise<unknown>) | undefined {
    const own = this.host.operations?.[name];
    const { edits } = this;
    if (!own && !(name === 'apply-edit' && edits)) return undefined;
    const check: Check<OperationParams[Name]> = operationParams[name];
    const checked = read(check, params, `${name}: `);
    if (own) return (signal) => own.call(this.host.operations, checked, signal);
    return async (signal) => {
      const request = operationParams['apply-edit'](checked, '');
      return edits?.propose(request, this.folderOf(request.sessionId), signal);
    };
  }

  /** Does what a person does with panels, comments and edits. Undefined if the action is about something else. */
  act(action: Action): Promise<unknown> | undefined {
    switch (action.op) {
      case 'panelEvent': return this.panelEvent(action);
      case 'closePanel': return this.closePanel(action.panel);
      case 'reply': return this.reply(action.thread, action.text);
      case 'answerEdit': return this.edits?.answer(action.edit, action.accept);
      default: return undefined;
    }
  }

  private async panelEvent(action: Extract<Action, { op: 'panelEvent' }>): Promise<null> {
    const { panel, widget, event, value, inputs } = action;
    if (!this.topics.get(panels, panel)) throw new Error('the panel is gone');
    const params = { id: panel, widget, kind: event, ...(value === null ? {} : { value }), ...(inputs ? { inputs } : {}) };
    this.notify(scpMethods.panelEvent, { ...params, ...this.session(panels, panel) });
    return null;
  }

  private async closePanel(id: string): Promise<null> {
    if (!this.topics.get(panels, id)) return null;
    const session = this.session(panels, id);
    this.clear(panels, id);
    this.notify(scpMethods.panelClosed, { id, ...session });
    return null;
  }

  private async reply(id: string, raw: string): Promise<null> {
    const text = raw.trim();
    if (!text || Buffer.byteLength(text) > mostComment) throw new Error('write a reply of at most 64 KiB');
    const thread = this.topics.get(comments, id);
    if (thread?.kind !== 'thread') throw new Error('the comment is gone');
    if (!thread.canReply || thread.replies.length >= mostReplies) throw new Error('this comment takes no replies');
    this.notify(scpMethods.commentReply, { id, contents: text, ...this.session(comments, id) });
    this.topics.put(comments, id, { ...thread, replies: [...thread.replies, { text, time: Date.now() }] });
    return null;
  }

  /** The folder that relative paths in a panel belong to. */
  folderOfPanel(id: string): string {
    return this.folderOf(this.sessions.get(`${panels}/${id}`) ?? null);
  }

  private session(topic: string, id: string): { sessionId?: string } {
    const sessionId = this.sessions.get(`${topic}/${id}`);
    return sessionId === undefined ? {} : { sessionId };
  }

  /** Notes that a file was written, so that a view shows its new text. */
  fileWritten(path: string): void {
    const shown = this.project.shown(path);
    const old = this.topics.get(files, shown);
    this.topics.put(files, shown, { kind: 'changed', version: old?.kind === 'changed' ? old.version + 1 : 1 });
    this.topics.limit(files, mostWritten, (it) => it.kind === 'openFile');
  }

  /** Nobody waits for edits any more, because the chain has ended. */
  end(): void {
    this.edits?.end();
  }
}
