// The steps of the plan, and its summary above the composer.
import { useState } from 'preact/hooks';
import { own } from '../base/own';
import type { Step } from 'acp-conductor-client/link';
import { Icon, type IconName } from '../parts/Icon';

const marks: Record<string, { icon: IconName; word: string; cls: string }> = {
  pending: { icon: 'circle', word: 'Not begun', cls: 'muted' },
  in_progress: { icon: 'circle-dot', word: 'In progress', cls: 'is-accent' },
  completed: { icon: 'circle-check', word: 'Done', cls: 'is-ok' },
};

export function Steps({ steps }: { steps: readonly Step[] }) {
  return (
    <ol role="list" class="steps">
      {steps.map((step, index) => {
        const mark = own(marks, step.status) ?? { icon: 'circle' as const, word: step.status, cls: 'muted' };
        return (
          <li key={index} class={`step ${step.status}`}>
            <Icon name={mark.icon} class={mark.cls} size={14} />
            <span class="hidden-text">{mark.word}: </span>
            <span>{step.text}</span>
            {step.priority === 'high' && step.status !== 'completed' && <span class="chip">high</span>}
          </li>
        );
      })}
    </ol>
  );
}

export function PlanSummary({ steps }: { steps: readonly Step[] }) {
  const [open, setOpen] = useState(false);
  const done = steps.filter((step) => step.status === 'completed').length;
  const current = steps.find((step) => step.status === 'in_progress') ?? steps.find((step) => step.status === 'pending');
  return (
    <section class="above-part" aria-label="Plan">
      <button type="button" class="above-head" aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon name={open ? 'chevron-down' : 'chevron-right'} size={14} class="muted" />
        <Icon name="list-todo" class="muted" />
        <span class="num nowrap">Plan, {done} of {steps.length}</span>
        {!open && current && <span class="muted cut">{current.text}</span>}
      </button>
      {open && <Steps steps={steps} />}
    </section>
  );
}
