// What the user did in a panel stays when its HTML is replaced: texts, open parts, focus, scroll position.

interface Kept {
  value?: string;
  open?: boolean;
  pressed?: string | null;
}

/** A name for each control, the same before and after if the HTML has the same controls. */
function controls(root: Element): Map<string, Element> {
  const found = new Map<string, Element>();
  const counts = new Map<string, number>();
  for (const element of root.querySelectorAll('input, textarea, select, details, button, a')) {
    const widget = element.getAttribute('data-widget') ?? element.parentElement?.getAttribute('data-widget') ?? '';
    const title = element.localName === 'details' ? element.querySelector('summary')?.textContent : '';
    const file = element.getAttribute('data-file') ?? element.getAttribute('href') ?? '';
    const base = [element.localName, widget, element.getAttribute('data-value') ?? '', title, file].join('\n');
    const count = (counts.get(base) ?? 0) + 1;
    counts.set(base, count);
    found.set(`${base}\n${count}`, element);
  }
  return found;
}

/** Remembers the state of the controls. The result restores it. */
export function keep(root: Element): () => void {
  const scroller = document.scrollingElement;
  const top = scroller?.scrollTop ?? 0;
  const states = new Map<string, Kept>();
  let focused: string | null = null;
  for (const [name, element] of controls(root)) {
    if (element === document.activeElement) focused = name;
    if (element instanceof HTMLInputElement || element instanceof HTMLTextAreaElement) {
      if (element.value !== element.defaultValue) states.set(name, { value: element.value });
    } else if (element instanceof HTMLDetailsElement) {
      states.set(name, { open: element.open });
    } else if (element instanceof HTMLSelectElement) {
      const first = [...element.options].find((option) => option.defaultSelected) ?? element.options[0];
      if (first && first.value !== element.value) states.set(name, { value: element.value });
    } else if (element.hasAttribute('aria-pressed')) {
      states.set(name, { pressed: element.getAttribute('aria-pressed') });
    }
  }
  return () => {
    for (const [name, element] of controls(root)) {
      const state = states.get(name);
      if (state?.value !== undefined) (element as HTMLInputElement).value = state.value;
      if (state?.open !== undefined) (element as HTMLDetailsElement).open = state.open;
      if (state?.pressed) element.setAttribute('aria-pressed', state.pressed);
      if (name === focused) (element as HTMLElement).focus({ preventScroll: true });
    }
    if (scroller) scroller.scrollTop = top;
  };
}
