// The regions of the page that F6 and Alt with a number move between.

/** The regions in reading order. Those that are not shown are left out. */
function regions(): HTMLElement[] {
  return [...document.querySelectorAll<HTMLElement>('[data-region]')]
    .filter((region) => region.getClientRects().length > 0 && !region.closest('[inert]'));
}

const targets = 'textarea, [role="log"], [role="tab"][aria-selected="true"], button:not([tabindex="-1"]), a[href], '
  + 'input, select, [tabindex="0"]';

function enter(region: HTMLElement | undefined): boolean {
  if (!region) return false;
  const name = region.dataset['region'];
  const first = name === 'composer' ? region.querySelector<HTMLElement>('textarea')
    : name === 'conversation' ? region.querySelector<HTMLElement>('[role="log"]')
      : name === 'sessions' ? region.querySelector<HTMLElement>('[aria-current="true"]') : null;
  const target = first ?? [...region.querySelectorAll<HTMLElement>(targets)].find((one) => one.getClientRects().length > 0);
  target?.focus();
  return target !== undefined && target !== null;
}

/** Moves to the next (1) or previous (-1) region. */
export function moveRegion(step: 1 | -1): void {
  const all = regions();
  const at = all.findIndex((region) => region.contains(document.activeElement));
  for (let n = 1; n <= all.length; n += 1) {
    const from = at < 0 ? (step > 0 ? -1 : 0) : at;
    if (enter(all[(from + step * n + all.length * n) % all.length])) return;
  }
}

export function goToRegion(name: string): boolean {
  return enter(regions().find((region) => region.dataset['region'] === name));
}
