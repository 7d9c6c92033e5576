// The one place above the composer that changes with the state: plan, edits to review, queued messages, question.
import { plural } from '../base/format';
import type { Question, Step } from 'acp-conductor-client/link';
import { Button } from '../parts/Button';
import { Guarded } from '../parts/Guarded';
import { Icon } from '../parts/Icon';
import type { OnDiff, OnFile } from './Blocks';
import { planIsOpen, type EntryOf } from './model';
import { keyChoice, PermissionRow } from './Permission';
import { PlanSummary } from './Plan';

export interface AboveProps {
  plan: readonly Step[];
  /** How many edits wait for a review. */
  edits: number;
  queued: ReadonlyArray<readonly [string, EntryOf<'user'>]>;
  questions: ReadonlyArray<readonly [string, Question]>;
  who: string;
  disabled: string | false;
  /** Whether the question can be answered already. */
  ready: boolean;
  onReview: () => void;
  onEditQueued: (id: string) => void;
  onSendNow: (id: string) => void;
  onRemoveQueued: (id: string) => void;
  onAnswer: (id: string, choice: string) => void;
  onFile: OnFile;
  onDiff?: OnDiff | undefined;
}

export function Above(props: AboveProps) {
  const question = props.questions[0];
  const plan = planIsOpen(props.plan);
  if (!plan && !props.edits && !props.queued.length && !question) return null;
  return (
    <div class="above">
      {(plan || props.edits > 0) && (
        <div class="above-line">
          {plan && <PlanSummary steps={props.plan} />}
          {props.edits > 0 && (
            <Button kind="plain" icon="file-diff" onClick={props.onReview}>
              {plural(props.edits, 'edit')} to review
            </Button>
          )}
        </div>
      )}
      {props.queued.length > 0 && (
        <section class="above-part" aria-label="Queued messages">
          <ul role="list" class="queue">
            {props.queued.map(([id, entry]) => (
              <li key={id} class="queued">
                <Icon name="clock" size={14} class="muted" />
                <span class="muted small nowrap">Queued</span>
                <span class="grow cut" title={entry.text}>{entry.text}</span>
                {entry.attachments.length > 0 && (
                  <span class="chip"><Icon name="paperclip" size={12} />{entry.attachments.length}</span>
                )}
                <Button kind="plain" class="queued-do" icon="pencil" label={`Edit “${short(entry.text)}”`}
                  disabled={props.disabled} onClick={() => props.onEditQueued(id)}>Edit</Button>
                <Button kind="plain" class="queued-do" icon="send" label={`Send now: “${short(entry.text)}”`}
                  disabled={props.disabled} onClick={() => props.onSendNow(id)}>Send now</Button>
                <Button kind="plain" class="queued-do" icon="trash-2" label={`Remove “${short(entry.text)}”`}
                  disabled={props.disabled} onClick={() => props.onRemoveQueued(id)}>Remove</Button>
              </li>
            ))}
          </ul>
        </section>
      )}
      {question && (
        <Guarded key={question[0]} instead={<Unshown question={question[1]} disabled={props.disabled} ready={props.ready}
          onAnswer={(choice) => props.onAnswer(question[0], choice)} />}>
          <PermissionRow question={question[1]} who={props.who} more={props.questions.length - 1}
            disabled={props.disabled} ready={props.ready}
            onAnswer={(choice) => props.onAnswer(question[0], choice)} onFile={props.onFile} onDiff={props.onDiff} />
        </Guarded>
      )}
    </div>
  );
}

/** A question that cannot be shown can only be rejected. */
function Unshown(props: {
  question: Question; disabled: string | false; ready: boolean; onAnswer: (choice: string) => void;
}) {
  const reject = keyChoice(props.question, 'reject_once');
  return (
    <div class="above-part permission" role="group" aria-label="A question that cannot be shown">
      <p class="permission-title"><Icon name="circle-alert" class="is-err" />
        <span>The agent asks something that this page cannot show.{reject === null && ' Stop the agent.'}</span></p>
      {reject !== null && (
        <div class="buttons permission-buttons">
          <Button icon="x" disabled={props.disabled || (props.ready ? false : 'This question has just come.')}
            onClick={() => props.onAnswer(reject)}>Reject</Button>
        </div>
      )}
    </div>
  );
}

function short(text: string): string {
  return text.length > 40 ? `${text.slice(0, 39)}…` : text;
}
