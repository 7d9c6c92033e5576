// The studio: wires the link to the page.
import { render } from 'preact';
import './style/tokens.css';
import './style/base.css';
import './style/page.css';
import './style/chat.css';
import { startTheme } from './base/theme';
import { takeKey, WebSocketTransport } from './link/socket';
import { LinkStore } from './link/store';
import { App } from './page/App';
import { startView } from './page/view';

const key = takeKey();
startTheme();
const transport = new WebSocketTransport(key);
const store = new LinkStore(transport);
// The address of a new log-in may be opened in the tab that needs it. Then only the fragment changes.
startView(() => {
  const next = takeKey();
  if (next === null) return false;
  transport.useKey(next);
  store.retryNow();
  return true;
});
addEventListener('online', () => store.retryNow());
document.addEventListener('visibilitychange', () => {
  if (!document.hidden) store.retryNow();
});
const root = document.getElementById('root');
if (root) render(<App store={store} />, root);

declare global {
  interface Window {
    /** Resolves when nothing waits to be shown or answered. For tests. */
    __idle?: () => Promise<void>;
  }
}

const twoFrames = () => new Promise<void>((done) => {
  requestAnimationFrame(() => requestAnimationFrame(() => done()));
});
window.__idle = async () => {
  do await twoFrames();
  while (!store.idle);
};
