// Edits that wait for an answer. The extension shows them, too. The first answer counts.
import { useEffect } from 'preact/hooks';
import '../style/files.css';
import type { FileDiff } from 'acp-conductor-client/link';
import { EditReview } from '../files/EditReview';
import type { PageData } from '../page/use-page';
import { Dialog } from '../parts/Dialog';

export function Edits(props: {
  page: PageData; onFile: (path: string) => void; onDiff: (diff: FileDiff) => void; onClose: () => void;
}) {
  const { page } = props;
  const first = page.edits[0];
  const none = first === undefined;
  useEffect(() => {
    if (none) props.onClose();
  }, [none]);
  if (!first) return null;
  const [id, edit] = first;
  return (
    <Dialog title={edit.label || 'Proposed edit'} class="edits" bare onClose={props.onClose}>
      <EditReview key={id} edit={edit} blocked={page.lost || null} onClose={props.onClose}
        onAnswer={async (accept) => void await page.store.do({ op: 'answerEdit', edit: id, accept })}
        onOpen={(path) => {
          const file = edit.files.find((one) => one.path === path);
          if (file) props.onDiff(file);
          else props.onFile(path);
        }} />
    </Dialog>
  );
}
