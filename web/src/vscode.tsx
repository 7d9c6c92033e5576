// The chat of the VS Code extension: wires the link to the page. `vscode/api.ts` says what the extension has to write.
import { render } from 'preact';
import './style/tokens.css';
import './style/base.css';
import './style/page.css';
import './style/chat.css';
import { LinkStore } from './link/store';
import { ChatPage } from './vscode/ChatPage';
import { startCommands, type Commands } from './vscode/commands';
import { startFrames } from './vscode/frames';
import { startIdle } from './vscode/idle';
import { startKeeping } from './vscode/keep';
import { startVsCodeTheme } from './vscode/theme';
import { VsCodeTransport } from './vscode/transport';
// After the styles of all parts.
import './style/vscode.css';

let commands: Commands | null = null;
startVsCodeTheme();
startFrames();
const place = startKeeping();
startCommands(() => commands);
const store = new LinkStore(new VsCodeTransport());
startIdle(() => store.idle);
const root = document.getElementById('root');
if (root) render(<ChatPage store={store} place={place} onCommands={(next) => (commands = next)} />, root);
