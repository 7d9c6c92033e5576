// What the chat shows of a session: which entries are rows of the conversation, and which belong to the composer.
import type { Entries } from '../link/store';
import type { Entry, Question, Settings, Step } from 'acp-conductor-client/link';

export type EntryOf<K extends Entry['kind']> = Extract<Entry, { kind: K }>;

export interface Overview {
  /** The ids of the rows of the conversation. */
  rows: readonly string[];
  queued: ReadonlyArray<readonly [string, EntryOf<'user'>]>;
  questions: ReadonlyArray<readonly [string, Question]>;
  turn: EntryOf<'turn'> | null;
  settings: Settings | null;
  plan: readonly Step[];
  /** The last message of the user. */
  lastPrompt: EntryOf<'user'> | null;
}

/** Whether the plan is shown above the composer; otherwise it is a row. */
export function planIsOpen(steps: readonly Step[]): boolean {
  return steps.some((step) => step.status !== 'completed');
}

export function overview(entries: Entries): Overview {
  const attached = new Set<string>();
  const result = {
    rows: [] as string[], queued: [] as Array<readonly [string, EntryOf<'user'>]>,
    questions: [] as Array<readonly [string, Question]>, turn: null as EntryOf<'turn'> | null,
    settings: null as Settings | null, plan: [] as readonly Step[], lastPrompt: null as EntryOf<'user'> | null,
    lastPlan: null as string | null,
  };
  for (const [id, entry] of entries) {
    if (entry.kind === 'tool') for (const id of entry.terminals) attached.add(`terminal:${id}`);
    if (entry.kind === 'turn') result.turn = entry;
    if (entry.kind === 'plan') {
      result.plan = entry.steps;
      result.lastPlan = id;
    }
  }
  for (const [id, entry] of entries) {
    switch (entry.kind) {
      case 'user':
        if (entry.queued) result.queued.push([id, entry]);
        else {
          result.rows.push(id);
          result.lastPrompt = entry;
        }
        break;
      case 'question':
        if (entry.answer === null) result.questions.push([id, entry]);
        else result.rows.push(id);
        break;
      case 'terminal':
        if (!attached.has(id)) result.rows.push(id);
        break;
      case 'plan':
        // Only the plan of the last turn that has one can be followed.
        if (entry.steps.length && (id !== result.lastPlan || !planIsOpen(entry.steps))) result.rows.push(id);
        break;
      case 'settings': result.settings = entry; break;
      case 'agent':
        if (entry.text || entry.blocks.length) result.rows.push(id);
        break;
      case 'thought':
        if (entry.text.trim()) result.rows.push(id);
        break;
      case 'tool': case 'note': case 'error': result.rows.push(id); break;
      default: break;
    }
  }
  return result;
}

/** Copies of parts of the conversation, as Markdown. */
export function asMarkdown(entry: Entry): string {
  switch (entry.kind) {
    case 'user': case 'agent': case 'thought': case 'note': return entry.text;
    case 'error': return `${entry.text}\n\n${entry.details}`;
    case 'terminal': return `\`\`\`\n$ ${entry.command}\n${entry.text}\n\`\`\``;
    case 'tool': return [
      `**${entry.title}** (${entry.status})`,
      ...entry.blocks.map((block) => (block.block === 'text' ? block.text : '')),
      ...entry.diffs.map((diff) => `\`\`\`\n${diff.path}\n${diff.new}\n\`\`\``),
    ].filter(Boolean).join('\n\n');
    case 'plan': return entry.steps.map((step) => `- [${step.status === 'completed' ? 'x' : ' '}] ${step.text}`).join('\n');
    case 'question': return entry.title;
    default: return '';
  }
}
