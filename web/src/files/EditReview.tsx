// An edit that a component proposes: the difference of each file, and the answer of the person.
import { useEffect, useRef, useState } from 'preact/hooks';
import { rescueFocus } from '../base/focus';
import { plural } from '../base/format';
import { useReady } from '../base/held';
import { own } from '../base/own';
import { markSuspicious } from '../base/suspicious';
import { Button } from '../parts/Button';
import { Diff, diffStat } from '../parts/Diff';
import { Icon, type IconName } from '../parts/Icon';
import { Marked, MarkedNote } from '../parts/Marked';
import type { Edit } from './model';
import { reason } from './results';

const states: Record<string, { icon: IconName; cls: string; text: string }> = {
  open: { icon: 'circle-dot', cls: 'is-warn', text: 'Waits for your answer' },
  accepted: { icon: 'circle-check', cls: 'is-ok', text: 'Accepted. The files are changed.' },
  rejected: { icon: 'circle-x', cls: 'muted', text: 'Rejected. The files are as before.' },
  failed: { icon: 'circle-alert', cls: 'is-err', text: 'Failed. The files have changed since the edit was proposed.' },
};

export function EditReview(props: {
  edit: Edit;
  /** Why it cannot be answered now. */
  blocked: string | null;
  onAnswer: (accept: boolean) => Promise<void>;
  onOpen: (path: string) => void;
  onClose: () => void;
}) {
  const { edit } = props;
  const [sent, setSent] = useState<boolean | null>(null);
  const [failed, setFailed] = useState<string | null>(null);
  const state = own(states, edit.state) ?? states.failed!;
  const open = edit.state === 'open';
  const section = useRef<HTMLElement>(null);
  const answered = useRef(false);
  useEffect(() => {
    if (answered.current && !open) rescueFocus(section.current, '.file-head button');
  }, [open]);

  const answer = async (accept: boolean) => {
    setSent(accept);
    answered.current = true;
    setFailed(null);
    await props.onAnswer(accept).catch((error: unknown) => setFailed(reason(error)));
    setSent(null);
  };
  const ready = useReady(open ? 'open' : null);
  const disabled = sent !== null ? 'The answer is being sent.' : props.blocked ?? (ready ? false : 'This edit has just come.');
  return (
    <section ref={section} class="edit" data-ready={ready ? 'true' : 'false'} aria-label={`Edit: ${edit.label || 'without a name'}`}>
      <div class="file-head">
        <h3 class="cut grow file-path">{edit.label || 'Proposed edit'}</h3>
        <span class="muted small file-lines">{plural(edit.files.length, 'file')}</span>
        <Button kind="plain" icon="x" label="Close the edit" onClick={props.onClose} />
      </div>
      <div class="edit-files" tabIndex={0} role="group" aria-label="Changes">
        <MarkedNote found={edit.files.reduce((sum, file) => (
          sum + markSuspicious(file.path).filter((piece) => piece.why !== null).length), 0)} />
        {edit.files.map((file) => {
          const { added, removed } = diffStat(file.old, file.new);
          return (
            <article class="edit-file" key={file.path} aria-label={file.path}>
              <div class="edit-file-head">
                <button type="button" class="edit-path cut" title={`Open ${file.path}`} onClick={() => props.onOpen(file.path)}>
                  <Marked text={file.path} strict /></button>
                {file.old === null && <span class="chip">New file</span>}
                <span class="grow" />
                <span class="num small"><span class="is-ok">+{added}</span> <span class="is-err">−{removed}</span></span>
              </div>
              <Diff old={file.old} new={file.new} path={file.path} />
            </article>
          );
        })}
      </div>
      <div class="edit-foot">
        <p class={`row grow ${state.cls}`} role="status"><Icon name={state.icon} /><span>{state.text}</span></p>
        {failed !== null && <p class="is-err" role="alert">The answer was not sent: {failed}</p>}
        {open && (
          <div class="row">
            <Button disabled={disabled} onClick={() => void answer(false)}>{sent === false ? 'Rejecting…' : 'Reject'}</Button>
            <Button kind="main" icon="check" disabled={disabled} onClick={() => void answer(true)}>
              {sent === true ? 'Accepting…' : 'Accept'}</Button>
          </div>
        )}
      </div>
    </section>
  );
}
