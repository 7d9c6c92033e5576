// What survives when VS Code throws the page away: the shown session, drafts, and where the person reads.
import type { Attachment } from 'acp-conductor-client/link';
import { debounce } from '../base/signals';
import { keepDrafts, type KeptDraft } from '../chat/drafts';
import type { KeptPlace, ReadingPlace } from '../chat/place';
import { startViewAt } from '../page/view';
import { vscode } from './api';

interface State {
  v: 1;
  session: string | null;
  drafts: Record<string, KeptDraft>;
  places: Record<string, ReadingPlace>;
}

/** Attachments above so many characters are not kept: VS Code writes the state into its own storage. */
const mostAttached = 1_000_000;
/** Places of so many sessions are kept. */
const mostPlaces = 50;

type Fields = Record<string, unknown>;
const isFields = (value: unknown): value is Fields => typeof value === 'object' && value !== null;
const fieldsOf = (value: unknown): Fields => (isFields(value) ? value : {});
const isText = (value: unknown): value is string => typeof value === 'string';

function attachmentOf(value: unknown): Attachment[] {
  const { attach, path, name, mime, data, text } = fieldsOf(value);
  if (attach === 'file' && isText(path)) return [{ attach, path }];
  if (attach === 'image' && isText(name) && isText(mime) && isText(data)) return [{ attach, name, mime, data }];
  return attach === 'text' && isText(name) && isText(text) ? [{ attach, name, text }] : [];
}

/** The state of the page before, as far as it is sound: it may be of another version. */
function restored(): State {
  const state: State = { v: 1, session: null, drafts: {}, places: {} };
  const from = fieldsOf(vscode.getState());
  if (from['v'] !== 1) return state;
  if (isText(from['session'])) state.session = from['session'];
  for (const [id, value] of Object.entries(fieldsOf(from['drafts']))) {
    const { text, attachments, mentioned, common } = fieldsOf(value);
    if (!isText(text)) continue;
    state.drafts[id] = {
      text, attachments: Array.isArray(attachments) ? attachments.flatMap(attachmentOf) : [],
      mentioned: Array.isArray(mentioned) ? mentioned.filter(isText) : [],
      common: isText(common) ? common : '',
    };
  }
  for (const [id, value] of Object.entries(fieldsOf(from['places']))) {
    const { row, below } = fieldsOf(value);
    if (isText(row) && typeof below === 'number') state.places[id] = { row, below };
  }
  return state;
}

/** Goes on where the page before was. The result keeps the reading place of a session. */
export function startKeeping(): (session: string | null) => KeptPlace {
  const state = restored();
  const save = debounce(100, () => vscode.setState(state));
  addEventListener('pagehide', save.flush);
  document.addEventListener('visibilitychange', save.flush);
  startViewAt(state.session, (id) => {
    state.session = id;
    save.call();
  });
  keepDrafts(state.drafts, (session, draft) => {
    const size = draft.attachments.reduce((sum, one) => sum + JSON.stringify(one).length, 0);
    const attachments = size > mostAttached ? [] : draft.attachments;
    if (draft.text === '' && attachments.length === 0) delete state.drafts[session];
    else state.drafts[session] = { ...draft, attachments };
    save.call();
  });
  return (session) => {
    const id = session ?? '';
    return {
      get: () => (Object.hasOwn(state.places, id) ? state.places[id] ?? null : null),
      set(place) {
        delete state.places[id];
        if (place) state.places[id] = place;
        for (const old of Object.keys(state.places).slice(0, -mostPlaces)) delete state.places[old];
        save.call();
      },
    };
  };
}
