// The theme of VS Code: it changes classes of the body and variables of the document while the page is shown.
import { improveTokens, takeTheme, theme } from '../base/theme';
import { readable } from './contrast';

function kind(): 'light' | 'dark' {
  const { classList } = document.body;
  return classList.contains('vscode-light') || classList.contains('vscode-high-contrast-light') ? 'light' : 'dark';
}

type Colours = Record<string, string>;

/** Colours as they are seen on the background: no transparency, no functions. Frames and diagrams know no others. */
function solid(values: Colours): Colours {
  const context = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
  if (!context) return values;
  const paper = theme.value === 'dark' ? '#1f1f1f' : '#ffffff';
  const seen = (value: string, below: string) => {
    for (const colour of [paper, below, value]) {
      // What is no colour changes nothing.
      context.fillStyle = colour;
      context.fillRect(0, 0, 1, 1);
    }
    const [r = 0, g = 0, b = 0] = context.getImageData(0, 0, 1, 1).data;
    return `#${[r, g, b].map((part) => part.toString(16).padStart(2, '0')).join('')}`;
  };
  const bg = seen(values['--bg'] ?? paper, paper);
  return Object.fromEntries(Object.entries(values)
    .map(([name, value]) => [name, name.startsWith('--') ? seen(value, bg) : value]));
}

/** The tokens for frames. Panels have coloured texts on coloured grounds, so their contrast is made sure. */
function forFrames(values: Colours): Colours {
  const style = getComputedStyle(document.body);
  const of = (name: string) => style.getPropertyValue(name).trim();
  const main = of('--vscode-button-background') || of('--accent');
  const border = of('--vscode-contrastBorder');
  const colours = solid({
    ...values, '--main': main, '--on-main': of('--vscode-button-foreground') || of('--on-accent'), '--main-line': border || main,
    // Only themes with high contrast have it. There, grounds do not tell parts apart.
    '--badge-line': border || values['--bg'] || '',
  });
  if (!border) colours['--badge-line'] = 'transparent';
  return { ...readable(colours), '--font': of('--font'), '--mono': of('--mono') };
}

/** Follows the theme. Called once by the page. */
export function startVsCodeTheme(): void {
  improveTokens(forFrames);
  takeTheme(kind());
  let asked = false;
  const observer = new MutationObserver(() => {
    if (asked) return;
    asked = true;
    // One change of the theme changes hundreds of variables.
    requestAnimationFrame(() => {
      asked = false;
      takeTheme(kind());
      observer.takeRecords();
    });
  });
  observer.observe(document.body, { attributes: true, attributeFilter: ['class', 'data-vscode-theme-id'] });
  observer.observe(document.documentElement, { attributes: true, attributeFilter: ['style'] });
}
