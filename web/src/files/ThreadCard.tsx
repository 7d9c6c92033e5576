// A comment on lines of a file: the text, the replies, and a box for the next reply.
import type { Signal } from '@preact/signals';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Button } from '../parts/Button';
import { Icon } from '../parts/Icon';
import { Markdown } from '../parts/Markdown';
import { focusIsLost } from '../base/focus';
import { clock } from '../base/format';
import { say } from '../base/live';
import { reason } from './results';
import { placeText, type PlacedThread } from './threads';

export interface ThreadCardProps {
  placed: PlacedThread;
  draft: Signal<string>;
  current: boolean;
  /** The lines do not exist in the text. */
  orphaned: boolean;
  /** Grows when the reply box is to be opened. */
  replyWish: number;
  onWished: () => void;
  onReply: (text: string) => Promise<void>;
  onCurrent: () => void;
  onFile: (path: string, line?: number) => void;
}

export function ThreadCard(props: ThreadCardProps) {
  const { thread, id } = props.placed;
  const place = placeText(thread);
  const [writing, setWriting] = useState(props.draft.peek() !== '');
  const [closed, setClosed] = useState(false);
  const box = useRef<HTMLTextAreaElement>(null);
  const card = useRef<HTMLElement>(null);
  /** The box gets the focus when it appears, before the next key. Not if it is only shown again with its draft. */
  const wantsFocus = useRef(false);
  useLayoutEffect(() => {
    if (wantsFocus.current) box.current?.focus();
    wantsFocus.current = false;
  }, [writing, closed]);

  const write = () => {
    if (!thread.canReply) return;
    wantsFocus.current = true;
    setClosed(false);
    setWriting(true);
    box.current?.focus();
  };
  useEffect(() => {
    if (!props.replyWish) return;
    props.onWished();
    write();
  }, [props.replyWish]);
  const stop = () => {
    setWriting(false);
    card.current?.focus();
  };
  /** While a reply is sent, and after it, the focus stays where the person has put it. */
  const hasFocus = () => focusIsLost() || card.current?.contains(document.activeElement) === true;
  const sent = () => {
    setWriting(false);
    if (hasFocus()) card.current?.focus();
  };
  return (
    <section ref={card} class={`thread${props.current ? ' current' : ''}${props.orphaned ? ' orphaned' : ''}`} tabIndex={-1}
      data-thread={id} aria-label={`Comment on ${place}`} aria-keyshortcuts="r"
      onFocusIn={props.onCurrent}>
      <header class="thread-head">
        <Icon name="message-square" size={15} class="is-accent" />
        <h3 class="grow cut">{place[0]!.toUpperCase() + place.slice(1)}</h3>
        {closed && thread.replies.length > 0 && <span class="muted small">{repliesText(thread.replies.length)}</span>}
        <Button kind="plain" icon={closed ? 'chevron-right' : 'chevron-down'} expanded={!closed}
          label={closed ? 'Show the comment' : 'Hide the comment'} onClick={() => setClosed(!closed)} />
      </header>
      {!closed && (
        <>
          {props.orphaned && (
            <p class="thread-note is-warn"><Icon name="triangle-alert" size={15} />
              <span>The file does not have {place} any more.</span>
            </p>
          )}
          {thread.text && <div class="thread-text"><Markdown text={thread.text} onFile={props.onFile} /></div>}
          {thread.replies.length > 0 && (
            <ol class="thread-replies" role="list" aria-label="Replies">
              {thread.replies.map((reply, i) => (
                <li class="thread-reply" key={i}>
                  <p class="thread-by"><b>You</b> <time class="muted small num" dateTime={new Date(reply.time).toISOString()}>
                    {clock(reply.time)}</time></p>
                  <div class="thread-text"><Markdown text={reply.text} onFile={props.onFile} /></div>
                </li>
              ))}
            </ol>
          )}
          {thread.canReply && (writing
            ? <ReplyBox box={box} draft={props.draft} place={place} onReply={props.onReply} onStop={stop}
              onSending={() => card.current?.focus()} onSent={sent} onFailed={() => hasFocus() && box.current?.focus()} />
            : <div class="thread-foot"><Button icon="reply" onClick={write} keys="r">Reply</Button></div>)}
        </>
      )}
    </section>
  );
}

function ReplyBox(props: {
  box: { current: HTMLTextAreaElement | null };
  draft: Signal<string>;
  place: string;
  onReply: (text: string) => Promise<void>;
  onStop: () => void;
  onSending: () => void;
  onSent: () => void;
  onFailed: () => void;
}) {
  const [sending, setSending] = useState(false);
  const [failed, setFailed] = useState<string | null>(null);
  const shown = useRef(true);
  useEffect(() => () => {
    shown.current = false;
  }, []);
  const text = props.draft.value;

  const send = async () => {
    if (sending || !text.trim()) return;
    setSending(true);
    setFailed(null);
    // The text cannot be changed any more: the next key is for the comments.
    props.onSending();
    try {
      await props.onReply(text);
      props.draft.value = '';
      say('Reply sent');
      if (shown.current) props.onSent();
    } catch (error) {
      setFailed(reason(error));
      if (shown.current) props.onFailed();
    }
    if (shown.current) setSending(false);
  };

  return (
    <div class="thread-foot">
      <textarea ref={props.box} class="thread-box" rows={3} aria-label={`Reply to the comment on ${props.place}`}
        placeholder="Reply (Markdown)" value={text} readOnly={sending}
        onInput={(event) => {
          props.draft.value = event.currentTarget.value;
        }}
        onKeyDown={(event) => {
          if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) void send();
          else if (event.key === 'Escape') props.onStop();
          else return;
          event.preventDefault();
          event.stopPropagation();
        }} />
      {failed !== null && <p class="is-err" role="alert">The reply was not sent: {failed}</p>}
      <div class="row thread-buttons">
        <Button kind="main" icon="send" disabled={sending ? 'The reply is being sent.' : !text.trim() && 'Write a reply first.'}
          title="Ctrl+Enter" keys="Control+Enter" onClick={() => void send()}>{sending ? 'Sending…' : 'Send reply'}</Button>
        <Button kind="plain" onClick={props.onStop}>Cancel</Button>
      </div>
    </div>
  );
}

function repliesText(count: number): string {
  return count === 1 ? '1 reply' : `${count} replies`;
}
