// Light, dark, or what the system says. The choice is kept; it is no content.
import { computed, effect, signal } from '@preact/signals';

export type ThemeChoice = 'system' | 'light' | 'dark';

const name = 'conductor-theme';

function stored(): ThemeChoice {
  try {
    const value = localStorage.getItem(name);
    return value === 'light' || value === 'dark' ? value : 'system';
  } catch {
    return 'system';
  }
}

export const themeChoice = signal<ThemeChoice>('system');
const systemDark = signal(false);

/** The theme that is shown. */
export const theme = computed<'light' | 'dark'>(() => {
  if (themeChoice.value !== 'system') return themeChoice.value;
  return systemDark.value ? 'dark' : 'light';
});

/** How often another program, such as an editor, has changed its colours. */
const changes = signal(0);

/** Another value whenever the colours change. They can change while the theme stays light or dark. */
export const colours = computed(() => `${theme.value} ${changes.value}`);

/** Takes the theme of another program, instead of `startTheme`. */
export function takeTheme(kind: 'light' | 'dark'): void {
  document.documentElement.dataset['theme'] = kind;
  themeChoice.value = kind;
  changes.value += 1;
}

/** Follows the system and the choice of the user. Called once by the page. */
export function startTheme(): void {
  const media = matchMedia('(prefers-color-scheme: dark)');
  systemDark.value = media.matches;
  media.addEventListener('change', () => (systemDark.value = media.matches));
  themeChoice.value = stored();
  effect(() => {
    if (themeChoice.value === 'system') delete document.documentElement.dataset['theme'];
    else document.documentElement.dataset['theme'] = themeChoice.value;
  });
}

export function setTheme(choice: ThemeChoice): void {
  themeChoice.value = choice;
  try {
    if (choice === 'system') localStorage.removeItem(name);
    else localStorage.setItem(name, choice);
  } catch {
    // Without storage, the choice holds until the page is closed.
  }
}

/** The next choice of the switch. */
export function nextTheme(choice: ThemeChoice): ThemeChoice {
  return choice === 'system' ? 'light' : choice === 'light' ? 'dark' : 'system';
}

const panelTokens = `bg bg-2 bg-3 ins-bg del-bg warn-bg line ctl text text-2 accent on-accent ok warn err
  code-keyword code-string code-number code-comment code-function code-type`.split(/\s+/);

/** The current values of the colours, for the panel frame. */
export let themeTokens = (): Record<string, string> => {
  const style = getComputedStyle(document.body);
  const values: Record<string, string> = { scheme: theme.value };
  for (const token of panelTokens) values[`--${token}`] = style.getPropertyValue(`--${token}`).trim();
  return values;
};

/** The colours of another program need more work before a frame can use them. */
export function improveTokens(improve: (values: Record<string, string>) => Record<string, string>): void {
  const plain = themeTokens;
  themeTokens = () => improve(plain());
}
