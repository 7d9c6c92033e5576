// Where the focus goes when the element that had it is removed.

/** Whether no element has the focus. */
export function focusIsLost(): boolean {
  return document.activeElement === null || document.activeElement === document.body;
}

/** Focuses the first of these elements that is shown, if the focus is lost. */
export function rescueFocus(within: ParentNode | null, ...selectors: string[]): void {
  if (!focusIsLost() || !within) return;
  for (const selector of selectors) {
    const found = [...within.querySelectorAll<HTMLElement>(selector)].find((one) => one.getClientRects().length > 0);
    if (!found) continue;
    found.focus();
    return;
  }
}
