// What a session without messages shows: one sentence and three examples.
import { Icon, type IconName } from '../parts/Icon';

const examples: ReadonlyArray<{ icon: IconName; text: string }> = [
  { icon: 'folder-open', text: 'Give me a walkthrough of this project' },
  { icon: 'search', text: 'Find the tests that are missing' },
  { icon: 'pencil', text: 'Fix the last failing test' },
];

export function Empty(props: { agent: string; folder: string; onExample: (text: string) => void }) {
  return (
    <div class="empty">
      <h2>What should {props.agent} do?</h2>
      <p class="muted">It works in <code>{props.folder}</code>. You are asked when it requests permission.</p>
      <ul role="list" class="examples">
        {examples.map((example) => (
          <li key={example.text}>
            <button type="button" class="example" onClick={() => props.onExample(example.text)}>
              <Icon name={example.icon} class="muted" />
              <span>{example.text}</span>
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}
