// Short messages at the corner. They stay until they are closed if they tell of an error.
import { signal } from '@preact/signals';
import { say, sayNow } from '../base/live';
import { Button } from './Button';
import { Icon } from './Icon';

interface ToastData {
  id: number;
  kind: 'ok' | 'err';
  text: string;
}

const toasts = signal<readonly ToastData[]>([]);
let next = 1;

/** Shows a message. An error stays, anything else goes after five seconds. */
export function toast(kind: 'ok' | 'err', text: string): void {
  const id = next++;
  toasts.value = [...toasts.value.filter((other) => other.text !== text), { id, kind, text }].slice(-4);
  if (kind === 'err') sayNow(text);
  else {
    say(text);
    setTimeout(() => closeToast(id), 5000);
  }
}

export function closeToast(id: number): void {
  toasts.value = toasts.value.filter((other) => other.id !== id);
}

export function Toasts() {
  if (!toasts.value.length) return null;
  return (
    <section class="toasts" aria-label="Messages">
      {toasts.value.map((data) => (
        <div key={data.id} class={`toast ${data.kind}`}>
          <Icon name={data.kind === 'err' ? 'circle-alert' : 'circle-check'} />
          <span class="toast-text">{data.text}</span>
          <Button kind="plain" icon="x" label="Close this message" onClick={() => closeToast(data.id)} />
        </div>
      ))}
    </section>
  );
}
