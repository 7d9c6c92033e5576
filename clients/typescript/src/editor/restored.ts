// Conversations of an earlier run: what is kept of them, and how they are shown again.
import { checkEntry, checkSession } from '../link/decode';
import type { Entries, Topics } from '../link/topics';
import type { Entry, Session } from '../link/types';

/** A conversation as it is kept: to show it again after the program was restarted. */
export interface Conversation { id: string; session: Session; entries: [string, Entry][] }

/**
 * The conversations that are worth keeping: those in which something was said or written. `replaced` has the entries of a
 * session whose conversation the agent is repeating.
 */
export function conversationsOf(topics: Topics, replaced: (id: string) => Entries | null): Conversation[] {
  return topics.entries('sessions').flatMap(([id, session]) => {
    const now = topics.entries(`session/${id}`);
    const before = replaced(id);
    const unsent = now.filter(([, it]) => it.kind === 'draft' || (it.kind === 'user' && it.queued));
    const kept = before ? new Map([...before, ...unsent]) : now;
    const entries = [...kept].map(([entry, value]): [string, Entry] => [entry, value]);
    const hasWords = entries.some(([, it]) => it.kind !== 'turn' && it.kind !== 'settings');
    if (session.kind !== 'session' || !hasWords) return [];
    const { title, cwd, state, time } = session;
    return { id, session: { title, cwd, state, time }, entries };
  });
}

/** An entry as it is after its program has ended. Null if it is of no use any more. */
function afterEnd(entry: Entry): Entry | null {
  switch (entry.kind) {
    case 'turn': return null;
    case 'agent': case 'thought': return { ...entry, open: false };
    case 'question': return { ...entry, answer: entry.answer ?? 'cancelled' };
    case 'terminal': return { ...entry, exit: entry.exit ?? { code: null, signal: null } };
    case 'tool': return ['pending', 'in_progress'].includes(entry.status) ? { ...entry, status: 'failed' } : entry;
    default: return entry;
  }
}

function attempt<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

/** The numbers that later ids must not use. */
export interface LastIds { entry: number; terminal: number; turns: Map<string, number> }

/** Shows kept conversations: their sessions are `saved`. What cannot be read is left out. */
export function showConversations(topics: Topics, conversations: readonly Conversation[]): LastIds {
  const last: LastIds = { entry: 0, terminal: 0, turns: new Map() };
  for (const { id, session: raw, entries } of conversations) {
    const session = attempt(() => checkSession(raw, ''));
    if (!session || typeof id !== 'string' || !id || !Array.isArray(entries)) continue;
    showEntries(topics, id, entries, last);
    topics.put('sessions', id, { kind: 'session', ...session, state: 'saved' });
  }
  return last;
}

function showEntries(topics: Topics, session: string, entries: readonly [string, Entry][], last: LastIds): void {
  const topic = `session/${session}`;
  const unsent: string[] = [];
  for (const pair of entries) {
    const [id, raw] = Array.isArray(pair) ? pair : [];
    const entry = attempt(() => checkEntry(raw, ''));
    const shown = entry && afterEnd(entry);
    if (!shown || typeof id !== 'string') continue;
    const number = Number(/^[a-z]+:(\d+)/.exec(id)?.[1] ?? 0);
    if (shown.kind === 'tool' || shown.kind === 'plan') last.turns.set(session, Math.max(last.turns.get(session) ?? 0, number));
    else if (shown.kind === 'terminal') last.terminal = Math.max(last.terminal, Number(/(\d+)$/.exec(id)?.[1] ?? 0));
    else last.entry = Math.max(last.entry, number);
    // A message that was not sent is not lost.
    if (shown.kind === 'user' && shown.queued) unsent.push(shown.text);
    else if (shown.kind === 'draft') unsent.push(shown.text);
    else topics.put(topic, id, shown);
  }
  topics.put(topic, 'turn', { kind: 'turn', state: 'idle', since: Date.now(), awaits: null, ended: null });
  const text = unsent.filter(Boolean).join('\n\n');
  if (text) topics.put(topic, 'draft', { kind: 'draft', text });
}
