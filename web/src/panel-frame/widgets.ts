// The widgets of a panel: what they are called, and which events they send. Only real input counts.
import { limits, type FromFrame, type Inputs } from './messages';

type Send = (message: FromFrame) => void;

/** Listens to all widgets, also those that are shown later. */
export function listen(root: HTMLElement, send: Send): void {
  const real = <E extends Event>(name: string, run: (event: E, target: Element) => void) => {
    root.addEventListener(name, (event) => {
      if (event.isTrusted && event.target instanceof Element) run(event as E, event.target);
    });
  };
  real<MouseEvent>('click', (event, target) => click(root, event, target, send));
  real<MouseEvent>('auxclick', (event, target) => {
    // A middle click would open a tab.
    if (target.closest('a')) event.preventDefault();
  });
  real<KeyboardEvent>('keydown', (event, target) => key(event, target, send));
  real('change', (_event, target) => {
    if (target.matches('select.c-choice[data-widget]')) {
      send({ t: 'event', widget: nameOf(target), kind: 'choice', value: (target as HTMLSelectElement).value });
    }
  });
  real('input', (_event, target) => {
    if (target.matches('.c-input')) note(target, '');
  });
}

/** Keys that edit or copy text stay in the panel. */
const ofText = /^([acvxyz]|Enter|Backspace|Delete|Insert|Home|End|Arrow\w+|Control|Meta|Shift|Alt|AltGraph)$/i;

function chordOf(event: KeyboardEvent): string | null {
  const control = event.ctrlKey || event.metaKey;
  if (control ? ofText.test(event.key) || event.altKey : !/^F\d+$/.test(event.key)) return null;
  const key = event.key.length === 1 ? event.key.toUpperCase() : event.key;
  return `${control ? 'Ctrl+' : ''}${event.altKey ? 'Alt+' : ''}${event.shiftKey ? 'Shift+' : ''}${key}`;
}

/** Tells the keys of an editor around the page. */
export function listenToChords(send: Send): void {
  document.addEventListener('keydown', (event) => {
    const keys = event.isTrusted && !event.isComposing ? chordOf(event) : null;
    if (keys === null) return;
    event.preventDefault();
    if (keys !== 'F6' && keys !== 'Shift+F6') send({ t: 'chord', keys });
  });
}

function nameOf(widget: Element): string {
  return widget.getAttribute('data-widget') ?? '';
}

function click(root: HTMLElement, event: MouseEvent, target: Element, send: Send): void {
  const link = target.closest('a');
  if (link) {
    event.preventDefault();
    follow(link, send);
    return;
  }
  const summary = target.closest('summary');
  const details = summary?.parentElement;
  if (details instanceof HTMLDetailsElement && details.matches('.c-collapsible[data-widget]')) {
    // The element changes after this event.
    send({ t: 'event', widget: nameOf(details), kind: 'toggle', value: !details.open });
  }
  const button = target.closest('button');
  if (!button || button.disabled) return;
  const value = button.getAttribute('data-value');
  if (button.matches('.x-send')) {
    const input = button.previousElementSibling;
    if (input) submit(input, send);
    return;
  }
  const choice = button.closest('.c-choice[data-widget]');
  if (choice) {
    for (const other of choice.querySelectorAll('button')) other.setAttribute('aria-pressed', String(other === button));
    send({ t: 'event', widget: nameOf(choice), kind: 'choice', value: value ?? button.textContent.trim() });
  } else if (button.matches('.c-button[data-widget]')) {
    if (button.hasAttribute('data-submit')) submitAll(root, nameOf(button), value, send);
    else send({ t: 'event', widget: nameOf(button), kind: 'click', value });
  }
}

function key(event: KeyboardEvent, target: Element, send: Send): void {
  if (event.key === 'F6' || event.key === 'Escape') {
    event.preventDefault();
    send({ t: 'key', key: event.key, shift: event.shiftKey });
  } else if (event.key === 'Enter' && !event.isComposing) {
    const area = target instanceof HTMLTextAreaElement;
    if (target.matches('.c-input[data-widget]') && (!area || event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      submit(target, send);
    } else if (target.matches('a.c-file')) {
      event.preventDefault();
      follow(target, send);
    }
  }
}

function follow(link: Element, send: Send): void {
  const file = link.getAttribute('data-file');
  const href = link.getAttribute('href');
  const line = Number(link.getAttribute('data-line'));
  if (file) send({ t: 'open', file, line: Number.isInteger(line) && line > 0 ? line : null });
  else if (href) send({ t: 'link', href });
}

/** A button that sends what is written in the inputs of the panel. If a text is too long, nothing is sent. */
function submitAll(root: HTMLElement, widget: string, value: string | null, send: Send): void {
  const inputs: Inputs = {};
  const sent: Element[] = [];
  let length = 0;
  for (const input of root.querySelectorAll<HTMLInputElement>('.c-input[data-widget]')) {
    const name = nameOf(input);
    if (input.value.trim() === '' || name === '' || name.length > 200) continue;
    length += input.value.length;
    if (input.value.length > limits.input || length > limits.inputs) {
      note(input, 'Too long');
      input.focus();
      return;
    }
    inputs[name] = input.value;
    sent.push(input);
  }
  for (const input of sent) note(input, 'Sent');
  send({ t: 'event', widget, kind: 'click', value, ...(sent.length > 0 ? { inputs } : {}) });
}

function submit(input: Element, send: Send): void {
  const { value } = input as HTMLInputElement;
  const fits = value.length <= limits.input;
  note(input, fits ? 'Sent' : 'Too long');
  if (fits) send({ t: 'event', widget: nameOf(input), kind: 'input', value });
}

/** Says beside an input what happened to it. */
function note(input: Element, text: string): void {
  const place = input.parentElement?.querySelector('.x-note');
  if (place && place.textContent !== text) place.textContent = text;
}

/** Adds what authors need not write: names, send buttons, focus for links to files. */
export function prepare(root: DocumentFragment | Element): void {
  for (const link of root.querySelectorAll('a')) {
    const href = link.getAttribute('href');
    if (link.hasAttribute('data-file')) {
      link.removeAttribute('href');
      link.setAttribute('role', 'link');
      link.tabIndex = 0;
      link.classList.add('c-file');
      if (/^\S*[./]\S*$/.test(link.textContent.trim())) link.classList.add('x-path');
      if (!link.title) link.title = placeText(link);
    } else if (href && !link.title) {
      link.title = href;
    }
  }
  for (const image of root.querySelectorAll('img:not([src])')) {
    const text = ['Image', image.getAttribute('alt')].filter(Boolean).join(': ');
    const address = image.getAttribute('title');
    image.replaceWith(make('span', 'x-image', address ? `${text} (not loaded: ${address})` : text));
  }
  for (const widget of root.querySelectorAll('select, .c-input, progress, div.c-choice')) {
    if (widget.closest('label') === null && !widget.hasAttribute('aria-label')) {
      widget.setAttribute('aria-label', widget.getAttribute('placeholder') || nameOf(widget) || widget.localName);
    }
  }
  for (const choice of root.querySelectorAll('div.c-choice')) {
    choice.setAttribute('role', 'group');
    for (const button of choice.querySelectorAll('button')) {
      button.setAttribute('aria-pressed', String(button.classList.contains('c-chosen')));
    }
  }
  for (const input of root.querySelectorAll('.c-input[data-widget]')) {
    const row = make('span', input.localName === 'textarea' ? 'x-entry x-tall' : 'x-entry');
    const send = make('button', 'x-send', 'Send');
    send.setAttribute('type', 'button');
    const text = make('span', 'x-note');
    text.setAttribute('role', 'status');
    input.replaceWith(row);
    row.append(input, send, text);
  }
  for (const table of root.querySelectorAll('table')) {
    const box = make('div', 'x-table');
    table.replaceWith(box);
    box.append(table);
    reachable(box, 'Table');
  }
}

function placeText(link: Element): string {
  const line = link.getAttribute('data-line');
  return `Open ${link.getAttribute('data-file')}${line ? `, line ${line}` : ''}`;
}

/** What scrolls by itself must be reachable with the keyboard. */
export function reachable(box: HTMLElement, label: string): void {
  box.tabIndex = 0;
  box.setAttribute('role', 'group');
  box.setAttribute('aria-label', label);
}

export function make(tag: string, cls: string, text = ''): HTMLElement {
  const element = document.createElement(tag);
  element.className = cls;
  element.textContent = text;
  return element;
}
