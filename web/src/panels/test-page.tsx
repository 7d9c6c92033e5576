// A page with one panel or one Markdown text, for tests. It is never part of the program.
import { signal } from '@preact/signals';
import { render } from 'preact';
import '../style/tokens.css';
import '../style/base.css';
import '../style/panels.css';
import { colours, setTheme, startTheme, themeTokens } from '../base/theme';
import { Markdown } from '../parts/Markdown';
import { PanelHost } from './PanelHost';

const contents = signal('');
const number = signal(0);
const text = signal<{ text: string; open: boolean } | null>(null);
const events: unknown[] = [];

declare global {
  interface Window {
    panelTest: {
      show(html: string): void;
      fresh(html: string): void;
      markdown(text: string, open: boolean): void;
      events: unknown[];
      setTheme: typeof setTheme;
    };
  }
}

window.panelTest = {
  /** Other HTML for the same panel. */
  show: (html) => (contents.value = html),
  /** A new panel. */
  fresh: (html) => {
    number.value += 1;
    contents.value = html;
    events.length = 0;
  },
  /** Markdown instead of a panel. */
  markdown: (markdown, open) => (text.value = { text: markdown, open }),
  events,
  setTheme,
};

function Page() {
  if (text.value) {
    return (
      <main class="panel-text">
        <h1 class="hidden-text">Markdown test</h1>
        <Markdown text={text.value.text} open={text.value.open}
          onFile={(path, line) => events.push({ path, line: line ?? null })} />
      </main>
    );
  }
  if (number.value === 0) return null;
  // The colours are read again when the theme changes.
  const vars = colours.value ? themeTokens() : {};
  return (
    <main class="panel-view">
      <h1 class="hidden-text">Panel test</h1>
      <PanelHost key={number.value} id="p" label="Walkthrough" contents={contents.value} theme={vars}
        onEvent={(widget, event, value, inputs) => events.push({ widget, event, value, ...(inputs && { inputs }) })}
        onFile={(path, line) => events.push({ path, line: line ?? null })}
        onLink={(href) => events.push({ href })} />
    </main>
  );
}

startTheme();
addEventListener('keydown', (event) => {
  if (event.key === 'F6' || event.key === 'Escape') events.push({ key: event.key, shift: event.shiftKey });
});
document.body.classList.add('panels');
render(<Page />, document.body);
