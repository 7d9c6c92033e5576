// The chat of one session: wires the store to the conversation, the area above the composer, and the composer.
import { computed, signal } from '@preact/signals';
import { useEffect, useLayoutEffect, useMemo, useRef } from 'preact/hooks';
import { useReady } from '../base/held';
import { isTyping, useKeys } from '../base/keys';
import { plural, words } from '../base/format';
import { say } from '../base/live';
import { type Action, type Attachment, type Chain, results } from 'acp-conductor-client/link';
import type { Store, Topic } from '../link/store';
import { toast } from '../parts/Toast';
import { Above } from './Above';
import type { OnDiff, OnFile } from './Blocks';
import { Composer } from './Composer';
import { mentions } from './completion';
import { Conversation } from './Conversation';
import { draftOf } from './drafts';
import { Empty } from './Empty';
import { insertAt, insertions, takeInsertions } from './insert';
import { type EntryOf, overview, type Overview } from './model';
import { keyChoice } from './Permission';
import type { KeptPlace } from './place';
import { plainTitle } from './Title';

export interface ChatProps {
  store: Store;
  /** The topic of the session, or null: the first message opens one. */
  topic: Topic | null;
  session: string | null;
  chain: Chain | null;
  folder: string;
  edits: number;
  /** Whether the chat has the keys: it is shown, and no drawer covers it. */
  active: boolean;
  openSelect: { id: string; count: number };
  onSession: (id: string) => void;
  onFile: OnFile;
  /** Shows a change of a file in an editor that can do so. */
  onDiff?: OnDiff | undefined;
  onReview: () => void;
  findFiles: (text: string) => Promise<string[]>;
  /** Whether there is little room for texts. */
  short?: boolean | undefined;
  /** Where the person reads, for a page that can be thrown away. */
  place?: KeptPlace | undefined;
}

const nothing: Overview = {
  rows: [], queued: [], questions: [], turn: null, settings: null, plan: [], lastPrompt: null,
};
const noTopic: Topic = {
  entries: signal([]), ids: signal([]), loaded: signal(true), get: () => signal(undefined), release: () => undefined,
};

export function copyText(text: string): void {
  navigator.clipboard.writeText(text).then(
    () => toast('ok', 'Copied.'),
    () => toast('err', 'The browser does not allow this page to copy. Select the text and copy it.'),
  );
}

export function Chat(props: ChatProps) {
  const { store, session } = props;
  const topic = props.topic ?? noTopic;
  const area = useRef<HTMLTextAreaElement>(null);
  const view = useMemo(() => computed(() => (
    props.topic ? overview(props.topic.entries.value) : nothing
  )), [props.topic]).value;
  const attempt = (action: Action) => store.do(action).catch((error: unknown) => {
    toast('err', error instanceof Error ? error.message : String(error));
    return undefined;
  });
  const draftFor = (of: string | null) => draftOf(of ?? '', (text) => {
    if (of !== null) store.do({ op: 'draft', session: of, text }).catch(() => undefined);
  });
  const draft = useMemo(() => draftFor(session), [session]);
  const before = useRef(session);
  useLayoutEffect(() => {
    const was = before.current;
    before.current = session;
    // What was written before the first session was shown belongs to it.
    const early = draftFor(null);
    if (was !== null || session === null || draft.text.value !== '') return;
    if (early.text.value === '' && early.attachments.value.length === 0) return;
    draft.write(early.text.value);
    draft.attachments.value = early.attachments.value;
    for (const path of early.mentioned) draft.mentioned.add(path);
    early.clear();
  }, [session]);
  const serverDraft = useMemo(() => computed(() => {
    const entry = topic.get('draft').value;
    return entry?.kind === 'draft' ? entry.text : '';
  }), [topic]);
  useEffect(() => (session === null ? undefined : draft.follow(serverDraft)), [draft]);

  const lost = store.state.value !== 'live' ? 'There is no connection to Conductor.' : false;
  const chainDown = props.chain?.state === 'ended' ? 'The chain has ended.' : false;
  const turn = view.turn;
  const failed = turn?.state === 'failed' && !chainDown;
  const off = lost || chainDown || (failed && 'The session could not be opened.');
  const running = turn?.state === 'running' || turn?.state === 'cancelling';
  const who = props.chain?.agent?.split(' ')[0] || props.chain?.components.at(-1) || 'The agent';
  const question = view.questions[0];
  const ready = useReady(question ? `${session} ${question[0]}` : null);
  const last = topic.get(view.rows.at(-1) ?? '').value;
  const showsWork = last !== undefined && (('open' in last && last.open) || (last.kind === 'tool' && last.ms === null
    && last.status === 'in_progress'));

  useAnnouncements(topic, view, running, who);

  const send = async (text: string, attachments: readonly Attachment[]) => {
    let target = session;
    if (target === null) {
      const made = await attempt({ op: 'newSession' });
      if (made === undefined) return { done: false, target };
      target = results.newSession(made, 'newSession');
      props.onSession(target);
    }
    const done = await store.do({ op: 'prompt', session: target, text, attachments: [...attachments] }).then(
      () => true,
      (error: unknown) => {
        toast('err', error instanceof Error ? error.message : String(error));
        return false;
      },
    );
    return { done, target };
  };
  const sendDraft = async () => {
    const text = draft.text.value.trim();
    const attached = draft.attachments.value;
    const chosen = [...draft.mentioned].filter((path) => text.includes(`@${path}`));
    draft.clear();
    const files = new Set([...chosen, ...await mentionedFiles(text, props.findFiles)]);
    const all: Attachment[] = [...attached, ...[...files].map((path) => ({ attach: 'file' as const, path }))];
    const { done, target } = await send(text, all);
    if (done) return;
    // The text of a failed message is not lost. What was written since then comes after it.
    const back = draftFor(target);
    const newer = back.text.value;
    back.write(newer ? `${text}\n\n${newer}` : text);
    for (const path of chosen) back.mentioned.add(path);
    back.attachments.value = [...attached, ...back.attachments.value];
  };
  const edit = (text: string, caret = text.length) => {
    draft.write(text);
    requestAnimationFrame(() => {
      area.current?.focus();
      area.current?.setSelectionRange(caret, caret);
    });
  };
  const editAgain = ({ text, attachments }: EntryOf<'user'>) => {
    edit(text);
    const missing = attachments.filter((name) => !text.includes(`@${name}`));
    if (missing.length) toast('ok', `Not attached again: ${missing.join(', ')}`);
  };
  useEffect(() => {
    const all = takeInsertions();
    if (!all.length) return;
    const caret = area.current?.selectionEnd ?? draft.text.value.length;
    const result = insertAt(draft.text.value, caret, all);
    for (const { path } of all) if (path !== null) draft.mentioned.add(path);
    edit(result.text, result.caret);
  }, [insertions.value]);
  const editQueued = async (entry: string) => {
    if (session === null) return;
    const found = await attempt({ op: 'unqueue', session, entry });
    if (found === undefined) return;
    const { text, attachments } = results.unqueue(found, 'unqueue');
    // A file that the text mentions is attached by its name.
    const mentioned = attachments.flatMap((it) => (it.attach === 'file' && text.includes(`@${it.path}`) ? [it.path] : []));
    for (const path of mentioned) draft.mentioned.add(path);
    draft.attachments.value = [
      ...attachments.filter((it) => it.attach !== 'file' || !mentioned.includes(it.path)), ...draft.attachments.value];
    edit(draft.text.value ? `${text}\n\n${draft.text.value}` : text);
  };
  const answer = (entry: string, choice: string) => {
    if (session !== null && ready) void attempt({ op: 'answer', session, entry, choice });
  };
  const answerByKey = (event: KeyboardEvent, effect: 'allow_once' | 'reject_once') => {
    // A key that is held down does not answer: it may have been meant for something else.
    if (!props.active || event.repeat || !question || !ready || off) return false;
    const inRow = event.target instanceof HTMLElement && event.target.closest('[data-permission]') !== null;
    if (!inRow && isTyping(event.target) && (event.target !== area.current || draft.text.value !== '')) return false;
    if (!inRow && draft.text.value !== '') return false;
    const choice = keyChoice(question[1], effect);
    if (choice === null) return false;
    answer(question[0], choice);
    return undefined;
  };
  useKeys('page', {
    'Ctrl+Enter': (event) => answerByKey(event, 'allow_once'),
    'Ctrl+Backspace': (event) => answerByKey(event, 'reject_once'),
    Escape: () => {
      if (!props.active || !running || session === null || off || turn?.state === 'cancelling') return false;
      void attempt({ op: 'cancel', session });
      return undefined;
    },
  });

  return (
    <>
      <div class="region conversation-region" data-region="conversation">
        <Conversation key={session ?? ''} topic={topic} place={props.place} rows={view.rows} running={running && !showsWork && !question}
          loading={!topic.loaded.value || turn?.state === 'loading'}
          actions={{
            onFile: props.onFile, onDiff: props.onDiff, onCopy: copyText,
            onTryAgain: (entry) => session !== null && void attempt({ op: 'tryAgain', session, entry }),
            onKill: off || session === null ? undefined : (terminal) => void attempt({ op: 'killTerminal', session, terminal }),
            onOpenAgain: failed && session !== null ? () => void attempt({ op: 'openSession', session }) : undefined,
          }}
          empty={<Empty agent={who === 'The agent' ? 'the agent' : who} folder={props.folder} onExample={(text) => edit(text)} />} />
      </div>
      <section class="compose" data-region="composer" aria-label="Composer">
        <div class="column">
          <Above plan={view.plan} edits={props.edits} queued={view.queued} questions={view.questions}
            who={who} disabled={off} ready={ready} onReview={props.onReview} onFile={props.onFile} onDiff={props.onDiff} onAnswer={answer}
            onEditQueued={(entry) => void editQueued(entry)}
            onSendNow={(entry) => session !== null && void attempt({ op: 'sendNow', session, entry })}
            onRemoveQueued={(entry) => session !== null && void attempt({ op: 'unqueue', session, entry })} />
          <Composer text={draft.text.value} onText={(text) => draft.write(text)} attachments={draft.attachments.value}
            onAttachments={(change) => (draft.attachments.value = change(draft.attachments.value))} commands={view.settings?.commands ?? []}
            selects={view.settings?.selects ?? []} usage={view.settings?.usage ?? null}
            images={props.chain?.images ?? false} runningSince={running ? turn?.since ?? null : null}
            cancelling={turn?.state === 'cancelling'} awaits={turn?.awaits ?? null} disabled={off}
            placeholder={placeholder(view.settings?.commands.length ?? 0, props.short ?? false)}
            textRef={area} openSelect={props.openSelect} findFiles={props.findFiles} onSend={() => void sendDraft()}
            onMention={(path) => draft.mentioned.add(path)}
            onStop={() => session !== null && void attempt({ op: 'cancel', session })}
            onSelect={(select, value) => session !== null && void attempt({ op: 'select', session, select, value })}
            onEditLast={() => {
              const queued = view.queued.at(-1);
              if (queued) void editQueued(queued[0]);
              else if (view.lastPrompt !== null) editAgain(view.lastPrompt);
            }}
            onProblem={(text) => toast('err', text)} />
        </div>
      </section>
    </>
  );
}

function placeholder(commands: number, short: boolean): string {
  if (!commands) return 'Message, @ for files';
  return short ? 'Message, @ files, / commands' : 'Message, @ for files, / for commands';
}

/** The mentioned paths that are files of the project. */
async function mentionedFiles(text: string, find: (text: string) => Promise<string[]>): Promise<string[]> {
  const found = await Promise.all(mentions(text).map(async (path) => {
    const paths = await find(path).catch((): string[] => []);
    return paths.includes(path) ? [path] : [];
  }));
  return found.flat();
}

/** Says what happens, for people who do not see it. */
function useAnnouncements(topic: Topic, view: Overview, running: boolean, who: string): void {
  const before = useRef<{ topic: Topic; running: boolean; question: string | null } | null>(null);
  const question = view.questions[0];
  useEffect(() => {
    const was = before.current;
    before.current = { topic, running, question: question?.[0] ?? null };
    // What was already so when the session was opened is not news.
    if (was?.topic !== topic) return;
    if (question && was.question !== question[0]) say(`${who} asks: ${plainTitle(question[1].title)}`);
    else if (running && !was.running) say(`${who} is answering`);
    else if (!running && was.running) {
      const last = topic.get(view.rows.at(-1) ?? '').peek();
      if (last?.kind === 'error') say(`The answer failed: ${last.text}`);
      else if (view.turn?.ended === 'cancelled') say('Stopped');
      else say(`Answer complete, ${plural(answerWords(topic), 'word')}`);
    }
  }, [running, question?.[0], topic]);
}

function answerWords(topic: Topic): number {
  let total = 0;
  for (const [, entry] of topic.entries.peek()) {
    if (entry.kind === 'user' && !entry.queued) total = 0;
    else if (entry.kind === 'agent') total += words(entry.text);
  }
  return total;
}
