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
  /** What the server had of it then. */
  common: string;
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
  let common = before?.common ?? '';
  /** Whether the text is still the kept one, and the text of the server is not known. */
  let isKept = before !== undefined;
  const keeper = keep;
  const keepNow = () => keeper?.(session, {
    text: draft.text.value, attachments: draft.attachments.value, mentioned: [...draft.mentioned], common,
  });
  const share = (value: string) => {
    common = value;
    keepNow();
  };
  const later = debounce(400, (value: string) => {
    share(value);
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
      share('');
      save('');
    },
    follow: (server) => effect(() => {
      const value = server.value;
      untracked(() => {
        // What is being written here wins. But what was kept may be older than the text of the server.
        const isOld = isKept && value !== common;
        isKept = false;
        if (isOld || text.value === common) text.value = value;
        share(value);
      });
    }),
  };
  drafts.set(session, draft);
  effect(keepNow);
  return draft;
}
