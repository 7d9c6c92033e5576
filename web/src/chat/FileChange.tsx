// The change of one file in the conversation or in a question, with its path.
import type { FileDiff } from 'acp-conductor-client/link';
import { Button } from '../parts/Button';
import { Diff } from '../parts/Diff';
import { Marked } from '../parts/Marked';
import type { OnDiff, OnFile } from './Blocks';

export function FileChange(props: { diff: FileDiff; onFile: OnFile; onDiff: OnDiff | undefined }) {
  const { diff, onDiff } = props;
  return (
    <div class="tool-diff">
      <p class="tool-diff-head">
        <button type="button" class="file-link small" onClick={() => props.onFile(diff.path)}><Marked text={diff.path} strict /></button>
        {diff.old === null && <span class="chip">new file</span>}
        {onDiff && (
          <Button kind="plain" class="open-diff" icon="file-diff" label={`Show the changes of ${diff.path} in the editor`}
            onClick={() => onDiff(diff)} />
        )}
      </p>
      <Diff old={diff.old} new={diff.new} path={diff.path} />
    </div>
  );
}
