// Plays VS Code and the extension around one page, for tests. It is never part of the extension.
//
// As in VS Code, the HTML of the extension is written into a frame of the same origin, after a script with the API and
// after plain styles. The page can be thrown away and made again at any time, and then has only its state.
import { type Action, type Entry, LinkHost, Topics } from 'acp-conductor-client/link';
import { features, states } from '../src/parts-page/fixtures';

type Fields = Record<string, unknown>;

/** What the frame calls. VS Code has it on the window around the frame, too. */
type Post = (channel: 'message' | 'state', data: unknown) => void;

interface Theme {
  kind: string;
  /** The variables without `--vscode-`. */
  colours: Record<string, string>;
}

declare global {
  interface Window {
    host: typeof host;
    playedPost?: Post;
  }
}

const defaults = `
@layer vscode-default {
  body { background-color: transparent; color: var(--vscode-editor-foreground); font-family: var(--vscode-font-family);
    font-size: var(--vscode-font-size); margin: 0; padding: 0 20px; }
  img { max-width: 100%; max-height: 100%; }
  a, a code { color: var(--vscode-textLink-foreground); }
  textarea:focus, input:focus, select:focus { outline: 1px solid red; }
  code { color: var(--vscode-textPreformat-foreground); background: var(--vscode-textPreformat-background); padding: 1px 3px; }
  blockquote { background: var(--vscode-textBlockQuote-background); }
}`;

const api = `globalThis.acquireVsCodeApi = (() => {
  const post = window.parent.playedPost;
  let [acquired, state] = [false, STATE];
  return () => {
    if (acquired) throw new Error('The API was acquired before.');
    acquired = true;
    return Object.freeze({
      postMessage: (message) => post('message', structuredClone(message)),
      setState: (next) => { state = next; post('state', JSON.stringify(next)); return next; },
      getState: () => state,
    });
  };
})();
window.parent = window;`;

let frame: HTMLIFrameElement | null = null;
let state: string | null = null;
let connection: { receive(message: unknown): void; close(): void } | null = null;
let topics = new Topics();
const act = (action: Action): Promise<unknown> => {
  host.asked.push(action);
  const answer = host.answers[action.op];
  if (answer instanceof Error) return Promise.reject(answer);
  if (action.op === 'draft') topics.put(`session/${action.session}`, 'draft', { kind: 'draft', text: action.text });
  if (action.op === 'findFiles') {
    return Promise.resolve(['src/router.rs', 'src/seat.rs', 'README.md'].filter((path) => path.includes(action.text))
      .map((path) => ({ path })));
  }
  return Promise.resolve(answer ?? (action.op === 'newSession' ? 's1' : null));
};
let link = new LinkHost(topics, () => features, act);

function take(message: Fields): void {
  host.posted.push(message);
  if (!('link' in message) || !host.answering) return;
  connection ??= link.connect((text) => host.send({ frame: text }));
  connection.receive(message['link']);
}

function colour(inside: Document): void {
  inside.body.classList.remove('vscode-light', 'vscode-dark', 'vscode-high-contrast', 'vscode-high-contrast-light');
  inside.body.classList.add(host.theme.kind);
  if (host.theme.kind === 'vscode-high-contrast-light') inside.body.classList.add('vscode-high-contrast');
  const { style } = inside.documentElement;
  for (let at = style.length - 1; at >= 0; at -= 1) {
    const name = style[at];
    if (name?.startsWith('--vscode-')) style.removeProperty(name);
  }
  for (const [name, value] of Object.entries(host.theme.colours)) style.setProperty(`--vscode-${name}`, value);
}

const host = {
  /** All messages of the page. */
  posted: [] as Fields[],
  /** All actions of the page. */
  asked: [] as Action[],
  /** Answers to actions by their names. An error refuses. */
  answers: {} as Record<string, unknown>,
  /** Whether messages of the link are answered. */
  answering: true,
  theme: { kind: 'vscode-dark', colours: {} } as Theme,
  /** What VS Code keeps of the page. */
  state: () => (state === null ? null : JSON.parse(state) as unknown),

  /** The next page is made without the state of this one. */
  forget(): void {
    host.throwAway();
    state = null;
  },

  /** Begins with the topics of a state of `fixtures.ts`. */
  begin(name: string): void {
    topics = new Topics();
    for (const [topic, entries] of Object.entries(states[name]?.topics ?? {})) {
      for (const [id, entry] of entries) topics.put(topic, id, entry);
    }
    link = new LinkHost(topics, () => features, act);
  },
  put: (topic: string, id: string, entry: Entry) => topics.put(topic, id, entry),
  append: (topic: string, id: string, text: string) => topics.append(topic, id, text),
  remove: (topic: string, id: string) => topics.remove(topic, id),

  /** A session gets another id, with all its entries. */
  move(from: string, to: string): void {
    const session = topics.get('sessions', from);
    if (!session) return;
    for (const [id, entry] of topics.entries(`session/${from}`)) topics.put(`session/${to}`, id, entry);
    topics.clear(`session/${from}`);
    topics.remove('sessions', from);
    topics.put('sessions', to, session);
  },

  /** Shows the page that the extension writes. */
  show(html: string): Promise<void> {
    host.throwAway();
    const made = document.createElement('iframe');
    made.id = 'active-frame';
    made.title = 'The page';
    made.setAttribute('sandbox', 'allow-same-origin allow-pointer-lock allow-scripts allow-downloads allow-forms');
    made.setAttribute('allow', 'cross-origin-isolated; autoplay; clipboard-read; clipboard-write;');
    made.src = '/fake.html';
    frame = made;
    return new Promise((done) => {
      made.addEventListener('load', () => {
        const inside = made.contentDocument;
        if (!inside) return;
        const written = new DOMParser().parseFromString(html, 'text/html');
        const script = written.createElement('script');
        script.textContent = api.replace('STATE', state ?? 'undefined');
        const style = written.createElement('style');
        style.textContent = defaults;
        written.head.prepend(style, script);
        written.body.setAttribute('role', 'document');
        colour(written);
        const text = `<!DOCTYPE html>\n${written.documentElement.outerHTML}`;
        // Not in the event itself: then there would be no other one for what is written.
        setTimeout(() => {
          inside.open();
          inside.write(text);
          inside.close();
          made.contentWindow?.addEventListener('load', () => done(), { once: true });
        });
      }, { once: true });
      document.body.append(made);
    });
  },
  throwAway(): void {
    connection?.close();
    connection = null;
    frame?.remove();
    frame = null;
  },
  send: (message: unknown) => frame?.contentWindow?.postMessage(message, self.origin),
  /** The extension has lost its state, for example because the program was started again. */
  cut(): void {
    connection?.close();
    connection = null;
    host.send({ closed: true });
  },
  setTheme(theme: Theme): void {
    host.theme = theme;
    if (frame?.contentDocument) colour(frame.contentDocument);
  },
};

window.playedPost = (channel, data) => {
  if (channel === 'state') state = data as string;
  else take(data as Fields);
};
window.host = host;
