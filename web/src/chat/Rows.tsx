// The rows of the conversation: what the user and the agent said and did. Each row is an article with a label.
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { clock, shownDuration } from '../base/format';
import type { Topic } from '../link/store';
import type { Question } from 'acp-conductor-client/link';
import { Button } from '../parts/Button';
import { Icon } from '../parts/Icon';
import { Markdown } from '../parts/Markdown';
import { Marked } from '../parts/Marked';
import { Blocks, type OnDiff, type OnFile } from './Blocks';
import type { EntryOf } from './model';
import { Steps } from './Plan';
import { plainTitle, Title } from './Title';
import { Terminal, ToolCall } from './ToolCall';

export interface RowActions {
  onFile: OnFile;
  onDiff?: OnDiff | undefined;
  onCopy: (text: string) => void;
  /** Sends the prompt of an error again. */
  onTryAgain: (error: string) => void;
  /** Opens the session again, if that has failed and can be tried. */
  onOpenAgain?: (() => void) | undefined;
  /** Ends the command of a terminal, if that can be done now. */
  onKill?: ((terminal: string) => void) | undefined;
}

export function Row(props: { id: string; topic: Topic; actions: RowActions }) {
  const { id, topic, actions } = props;
  const entry = topic.get(id).value;
  if (!entry) return null;
  const article = (kind: string, label: string, children: ComponentChildren, busy = false) => (
    <article class={`message ${kind}`} data-id={id} data-kind={kind} tabIndex={-1} aria-label={label}
      aria-busy={busy ? 'true' : undefined}>
      {children}
    </article>
  );
  switch (entry.kind) {
    case 'user': return article('user', `You, ${clock(entry.time)}`, <User entry={entry} />);
    case 'agent': return article('agent', `Agent, ${clock(entry.time)}`, (
      <>
        {entry.text && <Markdown text={entry.text} open={entry.open} onFile={actions.onFile} />}
        <Blocks blocks={entry.blocks} onFile={actions.onFile} />
        {!entry.open && entry.text && (
          <div class="message-tools">
            <Button kind="plain" icon="copy" label="Copy as Markdown" onClick={() => actions.onCopy(entry.text)} />
          </div>
        )}
      </>
    ), entry.open);
    case 'thought': return article('thought', 'Thought of the agent', <Thought entry={entry} onFile={actions.onFile} />,
      entry.open);
    case 'tool': return article('tool-call', `Tool call: ${plainTitle(entry.title)}`, (
      <ToolCall tool={entry} topic={topic} onFile={actions.onFile} onDiff={actions.onDiff} onKill={actions.onKill} />
    ), entry.status === 'in_progress');
    case 'terminal': return article('tool-call', `Terminal: ${entry.command}`, (
      <Terminal entry={entry} id={id.replace(/^terminal:/, '')} onKill={actions.onKill} />
    ));
    case 'plan': return article('plan-row', 'Plan', <PlanRow entry={entry} />);
    case 'question': return article('answered', 'Answered question', <Answered question={entry} />);
    case 'note': return article('note', 'Remark of Conductor', (
      <p class="row small muted"><Icon name="info" size={14} /><span>{entry.text}</span></p>
    ));
    case 'error': return article('error', 'Error', <ErrorRow id={id} entry={entry} actions={actions} />);
    default: return null;
  }
}

function User({ entry }: { entry: EntryOf<'user'> }) {
  return (
    <div class="bubble">
      {entry.text && <p class="user-text">{entry.text}</p>}
      {entry.attachments.length > 0 && <Attached names={entry.attachments} />}
    </div>
  );
}

function Attached(props: { names: readonly string[] }) {
  return (
    <ul role="list" class="chips" aria-label="Attached">
      {props.names.map((name, index) => (
        <li key={index} class="chip"><Icon name="paperclip" size={12} /><span class="cut"><Marked text={name} /></span></li>
      ))}
    </ul>
  );
}

function Thought(props: { entry: EntryOf<'thought'>; onFile: OnFile }) {
  const { entry } = props;
  const [open, setOpen] = useState(false);
  const time = entry.ms === null ? null : shownDuration(entry.ms);
  const label = entry.open ? 'Thinking' : time === null ? 'Thought' : `Thought for ${time}`;
  return (
    <>
      <button type="button" class="fold" data-toggle aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon name={open ? 'chevron-down' : 'chevron-right'} size={14} class="tool-arrow" />
        <Icon name="brain" />
        <span>{label}</span>
      </button>
      {open && <div class="thought-text"><Markdown text={entry.text} open={entry.open} onFile={props.onFile} /></div>}
    </>
  );
}

function PlanRow({ entry }: { entry: EntryOf<'plan'> }) {
  const [open, setOpen] = useState(false);
  const done = entry.steps.filter((step) => step.status === 'completed').length;
  return (
    <>
      <button type="button" class="fold" data-toggle aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon name={open ? 'chevron-down' : 'chevron-right'} size={14} class="tool-arrow" />
        <Icon name="list-todo" />
        <span class="num">Plan, {done} of {entry.steps.length} done</span>
      </button>
      {open && <Steps steps={entry.steps} />}
    </>
  );
}

/** An answered question stays as a line. */
function Answered({ question }: { question: Question }) {
  const choice = question.choices.find((one) => one.id === question.answer);
  const allowed = choice?.effect.startsWith('allow') === true;
  const rejected = choice?.effect.startsWith('reject') === true;
  return (
    <p class="row small">
      <Icon name={allowed ? 'check' : 'x'} size={14} class={allowed ? 'is-ok' : rejected ? 'is-err' : 'muted'} />
      <span class="muted answered-text">
        <strong>{choice?.name ?? (question.answer === 'cancelled' ? 'Cancelled' : question.answer)}</strong>
        {': '}<Title text={question.title} />
        {question.command !== null && question.command !== plainTitle(question.title) && (
          <>{' '}<code dir="ltr">{question.command}</code></>
        )}
      </span>
    </p>
  );
}

function ErrorRow(props: { id: string; entry: EntryOf<'error'>; actions: RowActions }) {
  const { entry, actions } = props;
  const [open, setOpen] = useState(false);
  const prompt = entry.prompt;
  return (
    <div class="error-card">
      <Icon name="circle-alert" class="is-err" />
      <div class="grow">
        <p class="error-text">{entry.text}</p>
        {entry.attachments.length > 0 && <Attached names={entry.attachments} />}
        <div class="buttons">
          {prompt !== null && (
            <Button icon="rotate-cw" onClick={() => actions.onTryAgain(props.id)}>Try again</Button>
          )}
          {prompt === null && actions.onOpenAgain && (
            <Button icon="rotate-cw" onClick={actions.onOpenAgain}>Try again</Button>
          )}
          <Button icon="copy" onClick={() => actions.onCopy(`${entry.text}\n\n${entry.details}`)}>Copy details</Button>
          {entry.details && (
            <Button kind="plain" expanded={open} onClick={() => setOpen(!open)}>{open ? 'Hide details' : 'Show details'}</Button>
          )}
        </div>
        {open && <pre class="details" tabIndex={0} role="group" aria-label="Details"><code>{entry.details}</code></pre>}
      </div>
    </div>
  );
}
