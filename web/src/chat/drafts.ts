// What the user has written and not sent, for each session. It is in memory and on the server, never in localStorage.
import { effect, signal, untracked, type ReadonlySignal, type Signal } from '@preact/signals';
import { debounce } from '../base/signals';
import type { Attachment } from 'acp-conductor-client/link';

export interface Draft {
  text: Signal<string>;
  attachments: Signal<readonly Attachment[]>;
  /** The files that were chosen after `@`. Their names may have blanks. */
  mentioned: Set<string>;
  /** The user has changed the text. */
  write(text: string): void;
  /** The text was sent. */
  clear(): void;
  /** Follows the draft of the server while the part is shown: another tab may write, too. */
  follow(server: ReadonlySignal<string>): () => void;
}

/** What a page keeps of a draft when it is thrown away. */
export interface KeptDraft {
  text: string;
  attachments: readonly Attachment[];
  mentioned: readonly string[];
}

const drafts = new Map<string, Draft>();
let kept: Readonly<Record<string, KeptDraft>> = {};
let keep: ((session: string, draft: KeptDraft) => void) | null = null;

/** A page that can be thrown away at any time begins with what it has kept, and keeps every change at once. */
export function keepDrafts(from: Readonly<Record<string, KeptDraft>>, save: (session: string, draft: KeptDraft) => void): void {
  kept = from;
  keep = save;
}

/** The draft of a session. `save` sends it to the server. */
export function draftOf(session: string, save: (text: string) => void): Draft {
  const known = drafts.get(session);
  if (known) return known;
  const before = Object.hasOwn(kept, session) ? kept[session] : undefined;
  const text = signal(before?.text ?? '');
  /** What the server and this page had in common last. */
  let common = '';
  const later = debounce(400, (value: string) => {
    common = value;
    save(value);
  });
  const draft: Draft = {
    text,
    attachments: signal<readonly Attachment[]>(before?.attachments ?? []),
    mentioned: new Set(before?.mentioned),
    write(value) {
      text.value = value;
      later.call(value);
    },
    clear() {
      later.cancel();
      text.value = '';
      draft.attachments.value = [];
      draft.mentioned.clear();
      common = '';
      save('');
    },
    follow: (server) => effect(() => {
      const value = server.value;
      untracked(() => {
        // What is being written here wins.
        if (text.value === common) text.value = value;
        common = value;
      });
    }),
  };
  drafts.set(session, draft);
  const keeper = keep;
  if (keeper) {
    effect(() => keeper(session, {
      text: draft.text.value, attachments: draft.attachments.value, mentioned: [...draft.mentioned],
    }));
  }
  return draft;
}
