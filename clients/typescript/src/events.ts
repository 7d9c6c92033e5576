// What happens in an editor, as events: what person and agent say, panels, comments, questions. For logs and for tests.
import type { Change, Entry } from './link';

/** An event. Each names its kind in `event`. */
export type EditorEvent =
  | { event: 'chain'; state: string; error: string | null }
  | { event: 'log'; level: string; component: string | null; text: string }
  | { event: 'prompt'; session: string; text: string }
  | { event: 'message'; session: string; text: string }
  | { event: 'thought'; session: string; text: string }
  | { event: 'tool'; session: string; title: string; kind: string; status: string }
  | { event: 'plan'; session: string; steps: string[] }
  | { event: 'question'; session: string; id: string; title: string; choices: string[] }
  | { event: 'answer'; session: string; id: string; choice: string }
  | { event: 'note'; session: string; text: string }
  | { event: 'error'; session: string; text: string }
  | { event: 'turn'; session: string; ended: string | null }
  | { event: 'panel'; id: string; label: string; contents: string }
  | { event: 'panel gone'; id: string }
  | { event: 'comment'; id: string; path: string; line: number; endLine: number; text: string; canReply: boolean }
  | { event: 'comment gone'; id: string }
  | { event: 'reply'; id: string; text: string }
  | { event: 'edit'; id: string; label: string; files: string[]; state: string };

/** The part of `Topics` that is followed. */
export interface Followed {
  follow(listener: (topic: string, change: Change | { c: 'clear' }) => void): () => void;
  get(topic: string, id: string): Entry | undefined;
}

/** Calls `emit` for each event, in order. Returns the function that ends it. */
export function followEvents(topics: Followed, emit: (event: EditorEvent) => void): () => void {
  /** The last state of each entry, by topic and id. Texts that grow are read when they are complete. */
  const before = new Map<string, Map<string, Entry>>();
  return topics.follow((topic, change) => {
    const known = before.get(topic) ?? new Map<string, Entry>();
    before.set(topic, known);
    if (change.c === 'clear') {
      for (const [id, entry] of known) emitAll(gone(id, entry), emit);
      known.clear();
    } else if (change.c === 'del') {
      const entry = known.get(change.id);
      known.delete(change.id);
      if (entry) emitAll(gone(change.id, entry), emit);
    } else if (change.c === 'put') {
      const old = known.get(change.id);
      known.set(change.id, change.entry);
      const session = topic.startsWith('session/') ? topic.slice('session/'.length) : '';
      emitAll(changed(session, change.id, change.entry, old), emit);
    }
  });
}

function emitAll(events: readonly EditorEvent[], emit: (event: EditorEvent) => void): void {
  for (const event of events) emit(event);
}

function gone(id: string, entry: Entry): EditorEvent[] {
  if (entry.kind === 'panel') return [{ event: 'panel gone', id }];
  if (entry.kind === 'thread') return [{ event: 'comment gone', id }];
  return [];
}

/** The earlier state of an entry, if it was of the same kind. */
function same<K extends Entry['kind']>(kind: K, old: Entry | undefined): Extract<Entry, { kind: K }> | undefined {
  return old?.kind === kind ? (old as Extract<Entry, { kind: K }>) : undefined;
}

function changed(session: string, id: string, entry: Entry, old: Entry | undefined): EditorEvent[] {
  switch (entry.kind) {
    case 'chain': {
      const was = same('chain', old);
      const is = was?.state === entry.state && was.error === entry.error;
      return is ? [] : [{ event: 'chain', state: entry.state, error: entry.error }];
    }
    case 'log':
      return [{ event: 'log', level: entry.level, component: entry.component, text: entry.text }];
    case 'user': {
      const sent = !entry.queued && same('user', old)?.queued !== false;
      return sent ? [{ event: 'prompt', session, text: entry.text }] : [];
    }
    case 'agent':
    case 'thought': {
      const was = same(entry.kind, old);
      if (entry.open || (was && !was.open)) return [];
      return [{ event: entry.kind === 'agent' ? 'message' : 'thought', session, text: entry.text }];
    }
    case 'tool': {
      if (same('tool', old)?.status === entry.status) return [];
      return [{ event: 'tool', session, title: entry.title, kind: entry.tool, status: entry.status }];
    }
    case 'plan':
      return [{ event: 'plan', session, steps: entry.steps.map((step) => `${step.status}: ${step.text}`) }];
    case 'question': {
      const was = same('question', old);
      const asked: EditorEvent = {
        event: 'question', session, id, title: entry.title, choices: entry.choices.map((choice) => choice.name),
      };
      const answered = entry.answer !== null && was?.answer !== entry.answer;
      return [...(was ? [] : [asked]), ...(answered ? [answer(session, id, entry)] : [])];
    }
    case 'note':
      return old ? [] : [{ event: 'note', session, text: entry.text }];
    case 'error':
      return old ? [] : [{ event: 'error', session, text: entry.text }];
    case 'turn': {
      const was = same('turn', old)?.state;
      const ran = was === 'running' || was === 'cancelling';
      const runs = entry.state === 'running' || entry.state === 'cancelling';
      return ran && !runs ? [{ event: 'turn', session, ended: entry.ended }] : [];
    }
    case 'panel':
      return [{ event: 'panel', id, label: entry.label, contents: entry.contents }];
    case 'thread': {
      const was = same('thread', old);
      const replies = entry.replies.slice(was?.replies.length ?? 0);
      const comment: EditorEvent = {
        event: 'comment', id, path: entry.path, line: entry.line, endLine: entry.endLine, text: entry.text,
        canReply: entry.canReply,
      };
      const only = was !== undefined && replies.length > 0;
      return [...(only ? [] : [comment]), ...replies.map((reply): EditorEvent => ({ event: 'reply', id, text: reply.text }))];
    }
    case 'edit': {
      if (same('edit', old)?.state === entry.state) return [];
      return [{ event: 'edit', id, label: entry.label, files: entry.files.map((file) => file.path), state: entry.state }];
    }
    default:
      return [];
  }
}

function answer(session: string, id: string, entry: Extract<Entry, { kind: 'question' }>): EditorEvent {
  const choice = entry.choices.find((one) => one.id === entry.answer);
  return { event: 'answer', session, id, choice: choice?.name ?? entry.answer ?? '' };
}

/** An event in one line, for people. Texts of a conversation are left out: a log is no place for them. */
export function describeEvent(event: EditorEvent): string {
  switch (event.event) {
    case 'chain': return `chain ${event.state}${event.error === null ? '' : `: ${event.error}`}`;
    case 'log': return `${event.component ?? 'a component'}: ${event.text}`;
    case 'prompt':
    case 'message':
    case 'thought': return `${event.event} (${event.text.length} characters)`;
    case 'tool': return `tool ${event.title}: ${event.status}`;
    case 'plan': return `plan with ${event.steps.length} steps`;
    case 'question': return `question ${event.title}: ${event.choices.join(', ')}`;
    case 'answer': return `answer ${event.choice}`;
    case 'note':
    case 'error': return `${event.event} ${event.text}`;
    case 'turn': return `turn ended: ${event.ended ?? 'without a reason'}`;
    case 'panel': return `panel ${event.id}: ${event.label}`;
    case 'comment': return `comment ${event.id} at ${event.path}:${event.line}`;
    case 'reply': return `reply to comment ${event.id}`;
    case 'edit': return `edit ${event.label}: ${event.state}`;
    default: return `${event.event} ${event.id}`;
  }
}
