// The table of keys.
import { Dialog } from '../parts/Dialog';

interface Group {
  title: string;
  chat: boolean;
  keys: ReadonlyArray<readonly [string, string]>;
}

const groups: readonly Group[] = [
  { title: 'Everywhere', chat: false, keys: [
    ['Ctrl+K', 'Find a session, a file or a command'], ['F6 Shift+F6', 'Next or previous region'],
    ['Alt+1 … Alt+4', 'Sessions, conversation, composer, right side'], ['?', 'This table'],
    ['Esc', 'Close what is open, then stop the agent'],
  ] },
  { title: 'Composer', chat: true, keys: [
    ['Enter', 'Send'], ['Shift+Enter', 'New line'], ['@', 'Files'], ['/', 'Commands of the agent'],
    ['↑', 'Edit the last message, in an empty box'], ['Alt+M Alt+L', 'Choose the mode or the model'],
  ] },
  { title: 'Permission', chat: true, keys: [
    ['Ctrl+Enter', 'Allow once, if the composer is empty'], ['Ctrl+Backspace', 'Reject, if the composer is empty'],
  ] },
  { title: 'Conversation', chat: true, keys: [
    ['j k', 'Next or previous message'], ['o Enter', 'Open or close'], ['c', 'Copy as Markdown'], ['End', 'Latest message'],
  ] },
  { title: 'Files and comments', chat: false, keys: [
    ['n p', 'Next or previous thread'], ['r', 'Reply'], ['Ctrl+Enter', 'Send the reply'],
  ] },
];

/** In an editor, keys of the editor are left to it, and there are no files. */
function inEditor(group: Group): Group {
  const taken = /^(Ctrl\+K|F6|Alt\+)/;
  const keys = group.title === 'Files and comments' ? [] : group.keys.filter(([names]) => !taken.test(names));
  return { ...group, keys };
}

export function Help(props: { chat: boolean; editor?: boolean; onClose: () => void }) {
  const shown = props.editor ? groups.map(inEditor).filter((group) => group.keys.length) : groups;
  return (
    <Dialog title="Keys" class="help" onClose={props.onClose}>
      {shown.filter((group) => props.chat || !group.chat).map((group) => (
        <section key={group.title} class="help-group">
          <h3>{group.title}</h3>
          <dl>
            {group.keys.map(([keys, what]) => (
              <div key={keys} class="help-row">
                <dt>{keys.split(' ').map((key) => (key === '…' ? ' … ' : <kbd key={key}>{key}</kbd>))}</dt>
                <dd>{what}</dd>
              </div>
            ))}
          </dl>
        </section>
      ))}
    </Dialog>
  );
}
