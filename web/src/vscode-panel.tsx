// One panel as a tab of VS Code. `vscode/api.ts` says what the extension has to write, `vscode/frames.ts` how it is safe.
import { signal } from '@preact/signals';
import { render } from 'preact';
import './style/tokens.css';
import './style/base.css';
import './style/panels.css';
import { colours, themeTokens } from './base/theme';
import { PanelHost } from './panels/PanelHost';
import { Live } from './parts/Live';
import { type Command, onMessage, vscode } from './vscode/api';
import { startFrames } from './vscode/frames';
import { startIdle } from './vscode/idle';
import { startVsCodeTheme } from './vscode/theme';
// After the styles of all parts.
import './style/vscode.css';

interface Panel {
  label: string;
  contents: string;
}

function panelOf(value: unknown): Panel | null {
  if (typeof value !== 'object' || value === null) return null;
  const { label, contents } = value as Record<string, unknown>;
  return typeof label === 'string' && typeof contents === 'string' ? { label, contents } : null;
}

/** VS Code does not see keys in the frame. These are the ones that people use everywhere. */
const commands: Record<string, Command> = {
  F1: 'workbench.action.showCommands', 'Ctrl+Shift+P': 'workbench.action.showCommands', 'Ctrl+P': 'workbench.action.quickOpen',
  'Ctrl+B': 'workbench.action.toggleSidebarVisibility', 'Ctrl+J': 'workbench.action.togglePanel',
  'Ctrl+W': 'workbench.action.closeActiveEditor', 'Ctrl+PageDown': 'workbench.action.nextEditor',
  'Ctrl+PageUp': 'workbench.action.previousEditor', F6: 'workbench.action.focusNextPart',
  'Shift+F6': 'workbench.action.focusPreviousPart',
};

/** Another key works when it is pressed again, because then the focus is in a place where VS Code sees it. */
function takeKeys(keys: string): void {
  document.querySelector<HTMLElement>('main')?.focus();
  const command = Object.hasOwn(commands, keys) ? commands[keys] : undefined;
  if (command) vscode.postMessage({ host: 'command', command });
}

const panel = signal<Panel | null>(null);

function Page() {
  const shown = panel.value;
  if (!shown) return null;
  const vars = colours.value ? themeTokens() : {};
  return (
    <main class="panel-view" aria-label={shown.label} tabIndex={-1}>
      <h1 class="hidden-text">{shown.label}</h1>
      <PanelHost id="panel" label={shown.label} contents={shown.contents} theme={vars}
        onEvent={(widget, kind, value, inputs) => {
          vscode.postMessage({ event: { widget, kind, value, ...(inputs && { inputs }) } });
        }}
        onFile={(path, line) => vscode.postMessage({ host: 'openFile', path, ...(line === undefined ? {} : { line }) })}
        onLink={(href) => vscode.postMessage({ host: 'openLink', href })} onKeys={takeKeys} />
      <Live />
    </main>
  );
}

startVsCodeTheme();
startFrames();
startIdle(() => true);
onMessage((message) => {
  panel.value = panelOf(message['panel']) ?? panel.value;
});
const root = document.getElementById('root');
if (root) render(<Page />, root);
vscode.postMessage({ ready: true });
