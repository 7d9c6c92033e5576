// A target whose state is a set of topics: the actions of the person are those of the link.
import { followEvents, type EditorEvent } from '../events';
import type { Action, Entry } from '../link';
import type { Topics } from '../link/topics';
import type { Target, WidgetUse } from './target';

export class LinkedTarget implements Target {
  private readonly end: () => void;

  constructor(
    private readonly topics: Topics,
    private readonly act: (action: Action) => Promise<unknown>,
    private readonly stopProgram: () => Promise<void>,
    emit: (event: EditorEvent) => void,
  ) {
    this.end = followEvents(topics, emit);
  }

  /** Resolves when the first session can be used. Rejects if the chain does not start. */
  async ready(): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const look = (): boolean => {
        const chain = this.topics.get('chain', 'chain');
        if (chain?.kind === 'chain' && chain.error !== null) reject(new Error(chain.error));
        else if (this.session() !== undefined) resolve();
        else return false;
        return true;
      };
      if (look()) return;
      const stop = this.topics.follow(() => {
        if (look()) stop();
      });
    });
  }

  async say(text: string): Promise<void> {
    await this.act({ op: 'prompt', session: this.session() ?? '', text, attachments: [] });
  }

  async answer(question: Extract<EditorEvent, { event: 'question' }>, choice: string): Promise<void> {
    const entry = this.topics.get(`session/${question.session}`, question.id);
    const found = entry?.kind === 'question' ? entry.choices.find((one) => one.name === choice) : undefined;
    if (!found) throw new Error(`the question '${question.title}' has no choice '${choice}'`);
    await this.act({ op: 'answer', session: question.session, entry: question.id, choice: found.id });
  }

  async reply(comment: Extract<EditorEvent, { event: 'comment' }>, text: string): Promise<void> {
    await this.act({ op: 'reply', thread: comment.id, text });
  }

  async use(panel: Extract<EditorEvent, { event: 'panel' }>, use: WidgetUse): Promise<void> {
    await this.act({ op: 'panelEvent', panel: panel.id, widget: use.widget, event: use.kind, value: use.value, inputs: null });
  }

  async closePanel(panel: Extract<EditorEvent, { event: 'panel' }>): Promise<void> {
    await this.act({ op: 'closePanel', panel: panel.id });
  }

  async answerEdit(edit: Extract<EditorEvent, { event: 'edit' }>, accept: boolean): Promise<void> {
    await this.act({ op: 'answerEdit', edit: edit.id, accept });
  }

  async stop(): Promise<void> {
    await this.stopProgram();
    this.end();
  }

  /** The newest session that can be used. */
  private session(): string | undefined {
    const usable = (entry: Entry) => entry.kind === 'session' && !['saved', 'loading', 'failed'].includes(entry.state);
    return this.topics.entries('sessions').filter(([, entry]) => usable(entry)).at(-1)?.[0];
  }
}
