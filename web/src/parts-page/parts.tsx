// The page of all parts in all states, for tests and pictures: `parts.html?state=NAME`, or the list of small parts.
import { render } from 'preact';
import '../style/tokens.css';
import '../style/base.css';
import '../style/page.css';
import '../style/chat.css';
import { signal } from '@preact/signals';
import { startTheme } from '../base/theme';
import { FakeTransport, fixedTransport } from '../link/fake';
import { LinkStore } from '../link/store';
import type { Action } from 'acp-conductor-client/link';
import { App } from '../page/App';
import { startView } from '../page/view';
import { Button } from '../parts/Button';
import { Icon, type IconName } from '../parts/Icon';
import { icons } from '../parts/icons';
import { Menu } from '../parts/Menu';
import { Tabs } from '../parts/Tabs';
import { features, states } from './fixtures';

/** What the page has asked for, for tests. */
const asked: Action[] = [];
declare global {
  interface Window {
    __asked?: Action[];
  }
}
window.__asked = asked;

function answer(action: Action): unknown {
  asked.push(action);
  switch (action.op) {
    case 'newSession': return 's1';
    case 'findFiles': return ['src/router.rs', 'src/seat.rs', 'tests/router.rs', 'README.md']
      .filter((path) => path.includes(action.text)).map((path) => ({ path }));
    case 'listFiles': return action.path ? [{ name: 'router.rs', folder: false }]
      : [{ name: 'src', folder: true }, { name: 'Cargo.toml', folder: false }];
    case 'readFile': return { path: action.path, text: 'fn main() {}\n', note: null };
    case 'unqueue': return 'And then run clippy, too.';
    default: return null;
  }
}

function Gallery() {
  const tab = signal('one');
  return (
    <main class="screen">
      <h1>Small parts</h1>
      <div class="buttons">
        <Button>Normal</Button><Button kind="main">Main</Button><Button kind="plain" icon="copy">Plain</Button>
        <Button icon="trash-2">Remove</Button><Button disabled="There is no connection.">Off</Button>
        <Button icon="plus" label="Add" /><Button pressed icon="sun" label="Pressed" />
      </div>
      <Menu button={{ children: 'Menu', label: 'Menu of parts' }} onSelect={() => undefined}
        items={[{ id: 'a', label: 'First', about: 'More about it', checked: true }, { id: 'b', label: 'Second', checked: false }]} />
      <Tabs label="Tabs" prefix="gallery" current={tab.value} onSelect={(id) => (tab.value = id)}
        tabs={[{ id: 'one', label: 'One' }, { id: 'two', label: 'Two', count: 2, countLabel: 'new' }]} />
      <div id="gallery-view-one" role="tabpanel" aria-labelledby="gallery-tab-one">A view</div>
      <p>Text, <a href="#x">a link</a>, <kbd>Ctrl+K</kbd>, <span class="chip">chip</span>, <span class="badge">3</span></p>
      <p>{(Object.keys(icons) as IconName[]).map((name) => <Icon key={name} name={name} size={20} />)}</p>
      <ul>{Object.keys(states).map((name) => <li key={name} class="step"><a href={`?state=${name}`}>{name}</a></li>)}</ul>
    </main>
  );
}

startTheme();
const root = document.getElementById('root');
const name = new URLSearchParams(location.search).get('state') ?? '';
const state = Object.hasOwn(states, name) ? states[name] : undefined;
if (root && !state) render(<Gallery />, root);
if (root && state) {
  startView(() => false);
  const { link } = state;
  const transport = link && link !== 'lost' ? new FakeTransport() : fixedTransport(state.features ?? features, state.topics, answer);
  const store = new LinkStore(transport);
  render(<App store={store} />, root);
  if (link) {
    const reason = link === 'login' || link === 'version' ? link : link === 'ended' ? 'refused' : 'lost';
    const tries = link === 'ended' ? 3 : 1;
    setTimeout(() => {
      for (let n = 0; n < tries; n += 1) {
        if (n) store.retryNow();
        transport.cut(reason);
      }
      store.stop();
    }, link === 'lost' ? 700 : 100);
  }
}
