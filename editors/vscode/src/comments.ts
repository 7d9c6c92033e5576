// Comments of components as threads of VS Code, and questions of the person about a line.
import * as vscode from 'vscode';
import type { Topics } from 'acp-conductor-client';
import type { Action, Thread } from 'acp-conductor-client/link';
import type { Log } from './events';
import { fileLines, pathOf, shownPath } from './places';
import { lineNumbers, rangeOf, type Range } from './positions';
import { questionText, withoutImages } from './questions';
import { settings } from './settings';
import { setContext, why } from './small';

/** So many threads of a file are open at first. More would hide the code. */
const mostExpanded = 5;
/** The value of `commentThread` in the conditions of package.json. */
const ofComponent = 'component';

export interface CommentTools {
  log: Log;
  act(action: Action): Promise<unknown>;
  /** Sends a prompt to the session that the person looks at. */
  ask(text: string): Promise<void>;
  /** The name of the agent. */
  author(): string;
  icon: vscode.Uri;
}

interface Shown { thread: vscode.CommentThread; path: string }

export class Comments {
  private readonly controller = vscode.comments.createCommentController('conductor', 'Conductor');
  private readonly threads = new Map<string, Shown>();
  /** Threads that the person has resolved, as they were. A comment that changes comes back. */
  private readonly resolved = new Map<string, string>();
  private readonly questions = new Set<vscode.CommentThread>();
  private readonly waiting = new Set<string>();
  private working = false;
  private readonly unfollow: () => void;
  private disposed = false;

  constructor(private readonly topics: Topics, private readonly folder: string, private readonly tools: CommentTools) {
    this.controller.options = { prompt: 'Reply…', placeHolder: 'Write to the agent about these lines' };
    this.controller.commentingRangeProvider = {
      // VS Code asks for outputs and other documents, too.
      provideCommentingRanges: (document) => (document.uri.scheme === 'file' && settings.askInFiles()
        ? { enableFileComments: false, ranges: [new vscode.Range(0, 0, Math.max(0, document.lineCount - 1), 0)] } : []),
    };
    this.unfollow = topics.follow((topic, change) => {
      if (topic !== 'comments') return;
      if (change.c === 'clear') for (const id of [...this.threads.keys()]) this.remove(id);
      else this.later(change.id);
    });
    for (const [id] of topics.entries('comments')) this.later(id);
  }

  /** The reply of the person to a comment. */
  async reply({ thread, text }: vscode.CommentReply): Promise<void> {
    const id = [...this.threads].find(([, shown]) => shown.thread === thread)?.[0];
    if (id === undefined) throw new Error('the comment is gone');
    await this.tools.act({ op: 'reply', thread: id, text });
  }

  /** A question of the person about lines of a file: it becomes a prompt. */
  async ask({ thread, text }: vscode.CommentReply): Promise<void> {
    const range = thread.range ?? new vscode.Range(0, 0, 0, 0);
    const document = await vscode.workspace.openTextDocument(thread.uri);
    const code = document.getText(new vscode.Range(range.start.line, 0, range.end.line, Number.MAX_SAFE_INTEGER));
    const file = shownPath(thread.uri.fsPath);
    const lines = lineNumbers(new vscode.Range(range.start.line, 0, range.end.line, 1));
    // A question that is not sent stays in its box.
    await this.tools.ask(questionText(file, lines, code, document.languageId, text));
    this.tools.log.own({ event: 'asked', file, lines, text });
    thread.canReply = false;
    thread.label = 'Question to the agent';
    const answer = comment('*The answer comes in the chat.*', 'Conductor', this.tools.icon);
    thread.comments = [comment(text, 'You', null), answer];
    thread.collapsibleState = vscode.CommentThreadCollapsibleState.Expanded;
    this.questions.add(thread);
    this.context();
  }

  /** Removes a thread from view. Its component is not told: SCP has no message for it. */
  resolve(thread: vscode.CommentThread): void {
    const [id, shown] = [...this.threads].find(([, it]) => it.thread === thread) ?? [];
    if (id === undefined || !shown) {
      this.questions.delete(thread);
      thread.dispose();
      this.context();
      return;
    }
    const entry = this.topics.get('comments', id);
    if (entry?.kind === 'thread') this.resolved.set(id, signature(entry));
    this.remove(id);
    this.tools.log.own({ event: 'comment resolved', id });
  }

  resolveAll(): void {
    for (const { thread } of [...this.threads.values()]) this.resolve(thread);
    for (const thread of [...this.questions]) this.resolve(thread);
  }

  dispose(): void {
    this.disposed = true;
    this.unfollow();
    this.threads.clear();
    this.controller.dispose();
    this.context();
  }

  private later(id: string): void {
    this.waiting.add(id);
    if (!this.working) void this.work();
  }

  /** One after the other: the newest state of a comment is shown, whatever reading its file takes. */
  private async work(): Promise<void> {
    this.working = true;
    for (const id of this.waiting) {
      this.waiting.delete(id);
      try {
        await this.refresh(id);
      } catch (error) {
        this.tools.log.write('warn', `the comment ${id} is not shown: ${why(error)}`);
      }
    }
    this.working = false;
  }

  private async refresh(id: string): Promise<void> {
    const entry = this.topics.get('comments', id);
    if (entry?.kind !== 'thread') {
      this.resolved.delete(id);
      return this.remove(id);
    }
    if (this.resolved.get(id) === signature(entry)) return;
    this.resolved.delete(id);
    const path = pathOf(entry.path, this.folder);
    const range = await rangeIn(path, entry);
    if (this.disposed) return;
    if (this.threads.get(id)?.path !== path) this.remove(id);
    const { thread } = this.threads.get(id) ?? this.create(id, path, range);
    const author = this.tools.author();
    thread.range = range;
    thread.canReply = entry.canReply;
    thread.label = entry.endLine > entry.line ? `Lines ${entry.line} to ${entry.endLine}` : `Line ${entry.line}`;
    thread.comments = [
      comment(entry.text.trim() || '*(no text)*', author, this.tools.icon),
      ...entry.replies.map((reply) => comment(reply.text, 'You', null, reply.time)),
    ];
    this.tools.log.own({
      event: 'comment thread', id, file: shownPath(path), comments: thread.comments.length,
      range: [range.start.line, range.start.character, range.end.line, range.end.character],
    });
  }

  private create(id: string, path: string, range: vscode.Range): Shown {
    const thread = this.controller.createCommentThread(vscode.Uri.file(path), range, []);
    thread.contextValue = ofComponent;
    const same = [...this.threads.values()].filter((shown) => shown.path === path).length;
    thread.collapsibleState = same < mostExpanded ? vscode.CommentThreadCollapsibleState.Expanded
      : vscode.CommentThreadCollapsibleState.Collapsed;
    const shown = { thread, path };
    this.threads.set(id, shown);
    this.context();
    setContext('shown', true);
    return shown;
  }

  private remove(id: string): void {
    this.threads.get(id)?.thread.dispose();
    this.threads.delete(id);
    this.context();
  }

  private context(): void {
    setContext('hasComments', this.threads.size + this.questions.size > 0);
  }
}

/** What a person sees of a comment, to notice a change. */
function signature({ path, line, column, endLine, endColumn, text }: Thread): string {
  return JSON.stringify([path, line, column, endLine, endColumn, text]);
}

/** The range of a comment. Columns are exact if the file can be read. */
async function rangeIn(path: string, { line, column, endLine, endColumn }: Thread): Promise<vscode.Range> {
  const lines = await fileLines(path);
  if (lines) return vscodeRange(rangeOf(lines, { line, column }, { line: endLine, column: endColumn }));
  const start = new vscode.Position(Math.max(0, line - 1), Math.max(0, (column ?? 1) - 1));
  const end = new vscode.Position(Math.max(0, endLine - 1), Math.max(0, (endColumn ?? 1) - 1));
  return new vscode.Range(start, end.isBefore(start) ? start : end);
}

function vscodeRange({ start, end }: Range): vscode.Range {
  return new vscode.Range(start.line, start.character, end.line, end.character);
}

function comment(text: string, name: string, icon: vscode.Uri | null, time?: number): vscode.Comment {
  // The text comes from an agent: no commands, no HTML, no images.
  const body = new vscode.MarkdownString(withoutImages(text), false);
  body.isTrusted = false;
  body.supportHtml = false;
  return {
    body, mode: vscode.CommentMode.Preview, author: icon ? { name, iconPath: icon } : { name },
    ...(time === undefined ? {} : { timestamp: new Date(time) }),
  };
}
