// The questions to the person: permissions, and the use of files outside of the folder.
import { commandFolderOf, commandOf, toolOf } from '../content';
import { at, list, text } from '../json';
import type { Question } from '../link/types';
import { oneLine } from '../printable';
import { cancelled } from '../rpc-error';
import type { Core } from './core';

/** The most open questions. More are answered as if the person had cancelled them. */
const mostQuestions = 500;

/** What an answer can do. A view shows other kinds by the name alone. */
const effects = ['allow_once', 'allow_always', 'reject_once', 'reject_always'];

interface OpenQuestion {
  session: string;
  question: Question;
  /** Gets the choice, or null if the turn was cancelled. */
  settle: (choice: string | null) => void;
}

/** A file outside of the folder, or a folder in which a command is to run. */
export interface OutsidePlace { path: string; usage: 'read' | 'write' | { command: string } }

export class Questions {
  private readonly open = new Map<string, OpenQuestion>();

  constructor(private readonly core: Core) {}

  /** Answers `session/request_permission`. */
  async permission(params: unknown, signal: AbortSignal): Promise<unknown> {
    const sessionId = text(at(params, 'sessionId')) ?? '';
    const raw = at(params, 'toolCall');
    const call = this.core.sessions.get(sessionId)?.toolCalls.complete(raw) ?? raw;
    const tool = toolOf(call, this.core.project, 0, null);
    const choices = list(at(params, 'options')).map((it) => ({
      id: text(at(it, 'optionId')) ?? '',
      name: oneLine(text(at(it, 'name')) ?? ''),
      effect: effects.find((effect) => effect === at(it, 'kind')) ?? 'other',
    }));
    const question = {
      title: tool.title, tool, command: commandOf(call), folder: commandFolderOf(call, this.core.project), choices,
      answer: null,
    };
    const choice = await this.ask(sessionId, question, signal);
    return { outcome: choice === null ? { outcome: 'cancelled' } : { outcome: 'selected', optionId: choice } };
  }

  /** Asks whether the agent may use a place outside of the folder. */
  async mayUse(sessionId: string, place: OutsidePlace, signal: AbortSignal): Promise<boolean> {
    const command = typeof place.usage === 'object' ? place.usage.command : null;
    const what = command !== null ? 'Run a command in' : place.usage === 'write' ? 'Write' : 'Read';
    const path = oneLine(place.path);
    const question: Question = {
      title: `${what} ${path}, which is outside of the folder of the project`,
      tool: command !== null ? null : {
        title: what, tool: place.usage === 'write' ? 'edit' : 'read', status: '', blocks: [], diffs: [], terminals: [],
        places: [{ path, line: null }], input: null, output: null, time: 0, ms: null,
      },
      command,
      folder: command === null ? null : path,
      choices: [
        { id: 'allow_once', name: 'Allow once', effect: 'allow_once' },
        { id: 'reject_once', name: 'Reject', effect: 'reject_once' },
      ],
      answer: null,
    };
    return (await this.ask(sessionId, question, signal)) === 'allow_once';
  }

  private ask(sessionId: string, question: Question, signal: AbortSignal): Promise<string | null> {
    if (signal.aborted) return Promise.reject(cancelled());
    const entry = this.core.nextId('q');
    const session = this.core.sessions.get(sessionId);
    // Nobody would see the question of a session that does not exist.
    const cancels = !session || session.activity === 'cancelling' || session.activity === 'failed'
      || question.choices.length === 0 || this.open.size >= mostQuestions;
    return new Promise((resolve, reject) => {
      const onAbort = () => {
        if (!this.open.delete(entry)) return;
        this.showAnswer(entry, open, 'cancelled');
        reject(cancelled());
      };
      const open: OpenQuestion = {
        session: sessionId,
        question,
        settle: (choice) => {
          signal.removeEventListener('abort', onAbort);
          this.open.delete(entry);
          this.showAnswer(entry, open, choice ?? 'cancelled');
          resolve(choice);
        },
      };
      if (!cancels) {
        this.open.set(entry, open);
        signal.addEventListener('abort', onAbort);
      }
      if (session) {
        session.endText();
        session.questions += 1;
        // A follower of the topic may answer at once.
        session.put(entry, { kind: 'question', ...question });
        session.showInList();
      }
      if (cancels) open.settle(null);
    });
  }

  /** The person has answered a question. */
  answer(entry: string, choice: string): null {
    const open = this.open.get(entry);
    if (!open) throw new Error('the question was answered already');
    if (!open.question.choices.some((it) => it.id === choice)) throw new Error(`the question has no answer '${choice}'`);
    open.settle(choice);
    return null;
  }

  /** Answers all open questions of a session, or of all sessions, because its turn was cancelled or has ended. */
  cancel(session: string | null): void {
    for (const open of [...this.open.values()]) if (session === null || open.session === session) open.settle(null);
  }

  private showAnswer(entry: string, { session: id, question }: OpenQuestion, answer: string): void {
    const session = this.core.sessions.get(id);
    if (!session) return;
    session.put(entry, { kind: 'question', ...question, answer });
    session.questions = Math.max(0, session.questions - 1);
    session.showInList();
  }
}
