// What screen readers say: one polite region, and an assertive one for a lost connection and errors.
import { signal, type ReadonlySignal } from '@preact/signals';

const polite = signal('');
const assertive = signal('');

export const politeText: ReadonlySignal<string> = polite;
export const assertiveText: ReadonlySignal<string> = assertive;

/** Says a text when the screen reader has nothing else to say. */
export function say(text: string): void {
  // The same text again must be another text, or nothing is said.
  polite.value = polite.peek() === text ? `${text}\u00a0` : text;
}

/** Says a text at once. */
export function sayNow(text: string): void {
  assertive.value = assertive.peek() === text ? `${text}\u00a0` : text;
}
