// The person of a scenario: what she does, and what she expects to see.
import type { EditorEvent } from '../events';
import { matches, placeOf, type Expected } from './expected';
import type { Target, WidgetUse } from './target';

/** How long an expected message may take. */
const patience = 60_000;

/** Editors keep the order of events only within these groups. */
const groups = ['conversation', 'chain', 'log', 'panel', 'comment', 'edit'] as const;
type Group = (typeof groups)[number];

function groupOf(event: EditorEvent): Group {
  switch (event.event) {
    case 'chain':
    case 'log':
    case 'edit': return event.event;
    case 'panel':
    case 'panel gone': return 'panel';
    case 'comment':
    case 'comment gone':
    case 'reply': return 'comment';
    default: return 'conversation';
  }
}

type Panel = Extract<EditorEvent, { event: 'panel' }>;
type Comment = Extract<EditorEvent, { event: 'comment' }>;

export class User {
  private readonly events: EditorEvent[] = [];
  /** For each group of events: those before this one were expected, or were passed over. */
  private readonly next = new Map<Group, number>();
  private target: Target | null = null;
  private look: () => void = () => undefined;

  /** Takes an event of the editor. */
  receive(event: EditorEvent): void {
    this.events.push(event);
    this.look();
  }

  /** Plays a story in an editor. */
  async play(target: Target, story: (user: User) => Promise<void>): Promise<void> {
    this.target = target;
    for (const group of groups) this.next.set(group, this.events.length);
    await story(this);
  }

  /** Sends a message to the agent. */
  async says(text: string): Promise<void> {
    await this.editor.say(text);
  }

  /**
   * Waits for these messages. Those of the conversation come in this order, and so do log messages, panels, comments and
   * edits, each among themselves. Others may come between them.
   */
  async sees(...expected: Expected[]): Promise<void> {
    for (const one of expected) await this.seesOne(one);
  }

  /** Fails if such a message has come since the story began. */
  doesNotSee(expected: Expected): void {
    const found = this.events.find((event) => matches(event, expected));
    if (found) throw new Error(`unexpected: ${JSON.stringify(found)}`);
  }

  /** Answers the last question with the choice of this name. */
  async answers(choice: string): Promise<void> {
    const question = this.last((event): event is Extract<EditorEvent, { event: 'question' }> => event.event === 'question', 'question');
    await this.editor.answer(question, choice);
  }

  /** Replies to the comment at a place such as `src/main.rs:12`. */
  async replies(place: string, text: string): Promise<void> {
    const isIt = (event: EditorEvent): event is Comment => event.event === 'comment'
      && (placeOf(event) === place || `${event.path}:${event.line}` === place);
    await this.editor.reply(this.last(isIt, `comment at ${place}`), text);
  }

  /** Uses a widget of the panel with this label. */
  async uses(label: string, use: WidgetUse): Promise<void> {
    await this.editor.use(this.panel(label), use);
  }

  /** Closes the panel with this label. */
  async closes(label: string): Promise<void> {
    await this.editor.closePanel(this.panel(label));
  }

  /** Accepts or rejects the last proposed edit. */
  async decidesEdit(accept: boolean): Promise<void> {
    const isIt = (event: EditorEvent): event is Extract<EditorEvent, { event: 'edit' }> => event.event === 'edit' && event.state === 'open';
    await this.editor.answerEdit(this.last(isIt, 'edit'), accept);
  }

  private get editor(): Target {
    if (!this.target) throw new Error('the story has not begun');
    return this.target;
  }

  private panel(label: string): Panel {
    return this.last((event): event is Panel => event.event === 'panel' && event.label === label, `panel '${label}'`);
  }

  private last<T extends EditorEvent>(is: (event: EditorEvent) => event is T, what: string): T {
    const found = this.events.findLast(is);
    if (!found) throw new Error(`there is no ${what}`);
    return found;
  }

  private from(event: EditorEvent): number {
    return this.next.get(groupOf(event)) ?? 0;
  }

  private async seesOne(expected: Expected): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve, reject) => {
      const look = () => {
        const at = this.events.findIndex((event, index) => index >= this.from(event) && matches(event, expected));
        const found = this.events[at];
        if (!found) return;
        this.next.set(groupOf(found), at + 1);
        // The next event may come before the story goes on.
        this.look = () => undefined;
        resolve();
      };
      this.look = look;
      timer = setTimeout(() => reject(this.missing(expected)), patience);
      look();
    }).finally(() => {
      clearTimeout(timer);
      this.look = () => undefined;
    });
  }

  private missing(expected: Expected): Error {
    const show = (value: unknown) => JSON.stringify(value, (_, it: unknown) => (it instanceof RegExp ? String(it) : it));
    const list = this.events.map((event, index) => `${index < this.from(event) ? '  ' : '? '}${show(event)}`);
    return new Error(`expected ${show(expected)}, but saw (? was not expected before):\n${list.join('\n')}`);
  }
}
