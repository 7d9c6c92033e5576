// The holder's side of the link: topics with their changes, and LinkHost, which answers pages.
import assert from 'node:assert/strict';
import test from 'node:test';
import { decodeFrame, LinkHost, Replica, Topics } from './help.mjs';
import { until } from './until.mjs';

const note = (text) => ({ kind: 'note', text });
const features = () => ({ chat: true, title: 'Test', folder: '/p' });

/** A page: its replicas, and the results of its actions. */
function page(host, topics, { hello = true, run = '', want } = {}) {
  const replicas = new Map(topics.map((topic) => [topic, new Replica()]));
  const done = new Map();
  const kinds = [];
  const checks = new Set();
  let welcome = null;
  const link = host.connect((frame) => {
    for (const message of decodeFrame(frame, (problem) => assert.fail(problem))) {
      kinds.push(message.t);
      if (message.t === 'welcome') welcome = message;
      else if (message.t === 'done') done.set(message.id, message);
      else assert.notEqual(replicas.get(message.topic)[message.t](message), 'ask');
    }
    for (const check of [...checks]) check();
  });
  if (hello)
    link.receive({ t: 'hello', v: 1, token: '', run, want: want ?? topics.map((topic) => ({ topic, at: null })) });
  return {
    ...link,
    kinds,
    done,
    replicas,
    welcome: () => welcome,
    entries: (topic) => [...replicas.get(topic).entries],
    until: (fact, what) =>
      until(
        (check) => {
          checks.add(check);
          return () => checks.delete(check);
        },
        fact,
        what,
      ),
  };
}

test('a page that reads at any time has the entries of the topic', () => {
  let state = 1;
  const random = (below) => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    return (state >>> 8) % below;
  };
  for (let round = 0; round < 200; round += 1) {
    const topics = new Topics();
    const replica = new Replica();
    for (let step = 0; step < 300; step += 1) {
      const id = `e${random(5)}`;
      const kind = random(8);
      if (kind === 0) topics.put('t', id, note('ä🎉'));
      else if (kind === 1 && random(20) === 0) topics.clear('t');
      else if (kind === 1) topics.remove('t', id);
      else if (kind < 7) topics.append('t', id, 'x🎉');
      else {
        const news = topics.news('t', replica.cursor);
        if (news) assert.notEqual(replica[news.t](news.t === 'snap' ? { ...news, unreadable: [] } : news), 'ask');
        assert.deepEqual([...replica.entries], topics.entries('t'), `round ${round}`);
      }
    }
  }
});

test('an append counts UTF-16 units, and changes are told when they are made', () => {
  const topics = new Topics();
  const changes = [];
  const end = topics.follow((topic, change) => changes.push([topic, change, topics.get('t', 'a')]));
  topics.put('t', 'a', note('ä🎉'));
  topics.put('t', 'a', note('ä🎉'));
  topics.append('t', 'a', '!');
  topics.append('t', 'a', '');
  topics.append('t', 'none', 'x');
  topics.remove('t', 'none');
  topics.put('t', 'chain', { kind: 'changed', version: 1 });
  topics.append('t', 'chain', 'it has no text');
  topics.remove('t', 'a');
  topics.clear('t');
  end();
  topics.put('t', 'b', note(''));
  assert.deepEqual(changes, [
    ['t', { c: 'put', id: 'a', entry: note('ä🎉') }, note('ä🎉')],
    ['t', { c: 'append', id: 'a', offset: 3, text: '!' }, note('ä🎉!')],
    ['t', { c: 'put', id: 'chain', entry: { kind: 'changed', version: 1 } }, note('ä🎉!')],
    ['t', { c: 'del', id: 'a' }, undefined],
    ['t', { c: 'clear' }, undefined],
  ]);
});

test('a page that was away gets what it missed, or everything', () => {
  const topics = new Topics();
  topics.put('t', 'a', note(''));
  const early = topics.news('t', null).at;
  for (let count = 0; count < 3; count += 1) topics.append('t', 'a', 'xy');
  assert.deepEqual(topics.news('t', early).changes, [{ c: 'append', id: 'a', offset: 0, text: 'xyxyxy' }]);
  for (let count = 0; count < 30_000; count += 1) topics.append('t', 'a', 'x');
  assert.equal(topics.news('t', early).t, 'snap');
  const { at } = topics.news('t', null);
  assert.equal(topics.news('t', at), undefined);
  assert.equal(topics.news('t', at - 3).changes.length, 1);
  // Positions of another run, or nonsense.
  for (const other of [at + 1, -1, 1.5, 2 ** 60]) assert.equal(topics.news('t', other).t, 'snap');
  for (let count = 0; count < 5; count += 1) topics.put('t', 'b', note('y'.repeat(4 * 1024 * 1024) + count));
  assert.equal(topics.news('t', at).t, 'snap', 'the changes are not kept without limit');
  assert.deepEqual(topics.news('other', null), { t: 'snap', topic: 'other', at: 0, entries: [] });
});

test('two pages, one of which comes later, see the same', async () => {
  const topics = new Topics();
  const host = new LinkHost(topics, features, async () => null);
  topics.put('t', 'a', note('one'));
  const first = page(host, ['t']);
  await first.until(() => first.entries('t').length === 1, 'the snapshot');
  assert.deepEqual(first.welcome().features, features());
  topics.append('t', 'a', ' 🎉');
  topics.append('t', 'a', ' two');
  topics.put('t', 'b', note('b'));
  await first.until(() => first.entries('t').length === 2, 'the increment');
  assert.deepEqual(first.kinds, ['welcome', 'snap', 'inc'], 'changes of a tick are joined');
  const second = page(host, ['t', 'none']);
  await second.until(() => second.entries('t').length === 2 && second.replicas.get('none').at === 0, 'both topics');
  assert.deepEqual(second.entries('t'), topics.entries('t'));
  topics.remove('t', 'a');
  topics.clear('none');
  await first.until(() => first.entries('t').length === 1, 'the removal');
  await second.until(() => second.entries('t').length === 1, 'the removal');
  // A page that comes back names its position.
  const { run } = second.welcome();
  const back = page(host, [], { run, want: [] });
  back.replicas.set('t', Object.assign(new Replica(), { at: first.replicas.get('t').at, stale: false }));
  topics.put('t', 'c', note('c'));
  back.receive({ t: 'want', topic: 't', at: first.replicas.get('t').at });
  await back.until(() => back.entries('t').length === 1, 'only what is new');
  assert.deepEqual(back.kinds, ['welcome', 'inc']);
  first.receive({ t: 'drop', topic: 't' });
  second.close();
  const seen = [first.kinds.length, second.kinds.length];
  topics.put('t', 'd', note('d'));
  await back.until(() => back.entries('t').length === 2, 'the page that follows');
  assert.deepEqual([first.kinds.length, second.kinds.length], seen);
});

test('an action is done once, and its changes come before its result', async () => {
  const topics = new Topics();
  const acted = [];
  const host = new LinkHost(topics, features, async (action) => {
    acted.push(action);
    if (action.op === 'cancel') throw new Error('there is no turn');
    topics.put('t', `a${acted.length}`, note(''));
    return acted.length;
  });
  const one = page(host, ['t']);
  await one.until(() => one.kinds.includes('snap'), 'the snapshot');
  const action = { op: 'closeSession', session: 's', unknown: 1 };
  one.receive({ t: 'do', id: 'x', action });
  one.receive(JSON.stringify({ t: 'do', id: 'x', action }));
  await one.until(() => one.kinds.filter((it) => it === 'done').length === 2, 'both answers');
  assert.deepEqual(one.kinds.slice(2), ['inc', 'done', 'done']);
  assert.deepEqual(acted, [{ op: 'closeSession', session: 's' }]);
  const two = page(host, []);
  two.receive({ t: 'do', id: 'x', action });
  await two.until(() => two.done.has('x'), 'the same result');
  assert.equal(two.done.get('x').ok, 1);
  two.receive({ t: 'do', id: 'y', action: { op: 'cancel', session: 's' } });
  two.receive({ t: 'do', id: 'z', action: { op: 'listFiles', path: '' } });
  two.receive({ t: 'do', id: 'z', action: { op: 'listFiles', path: '' } });
  await two.until(() => two.done.has('y') && acted.length === 4, 'an action without effect is done again');
  assert.deepEqual(two.done.get('y'), { t: 'done', id: 'y', error: 'there is no turn' });
});

test('what cannot be read is refused or ignored', async () => {
  const host = new LinkHost(new Topics(), features, async () => 'done');
  const one = page(host, [], { hello: false });
  for (const bad of [
    null,
    7,
    'no JSON',
    {},
    { t: 'x' },
    { t: 'hello' },
    { t: 'want', topic: 4 },
    { t: 'do', action: {} },
    [],
    { t: 'ack' },
  ]) {
    one.receive(bad);
  }
  one.receive({ t: 'do', id: 'a', action: { op: 'nothing' } });
  one.receive({
    t: 'do',
    id: 'b',
    action: { op: 'prompt', session: 's', text: 't', attachments: [{ attach: 'file' }] },
  });
  one.receive({ t: 'do', id: 'c', action: { op: 'viewing', open: [], active: null, selection: [1, 2, 3] } });
  one.receive({ t: 'do', id: 'd', action: { op: 'newSession' } });
  await one.until(() => one.done.size === 4, 'all answers');
  assert.match(one.done.get('a').error, /the message is invalid: action\.op: expected a known kind/);
  assert.match(one.done.get('b').error, /action\.attachments\[0\]\.path: expected a text, found nothing/);
  assert.match(one.done.get('c').error, /four numbers/);
  assert.equal(one.done.get('d').ok, 'done');
});

test('a page that cannot be reached any more is left out', async () => {
  const topics = new Topics();
  const host = new LinkHost(topics, features, async () => null);
  const gone = host.connect(() => {
    throw new Error('disposed');
  });
  gone.receive({ t: 'hello', v: 1, token: '', run: '', want: [{ topic: 't', at: null }] });
  const one = page(host, ['t']);
  topics.put('t', 'a', note(''));
  await one.until(() => one.entries('t').length === 1, 'the other page');
});

test('a page that does not handle its frames gets no more until it does', async (t) => {
  // The host sends changes after a pause. The test decides when a pause is over.
  t.mock.timers.enable({ apis: ['setTimeout', 'Date'] });
  const pause = () => t.mock.timers.tick(10_000);
  const topics = new Topics();
  const host = new LinkHost(topics, features, async () => null);
  const one = page(host, ['t']);
  topics.put('t', 'big', note('x'.repeat(3 * 1024 * 1024)));
  pause();
  assert.ok(one.kinds.includes('snap'), 'the large snapshot');
  topics.put('t', 'small', note(''));
  // Results still come, with what has changed.
  one.receive({ t: 'do', id: 'a', action: { op: 'newSession' } });
  await one.until(() => one.done.has('a'), 'the result');
  const count = one.kinds.length;
  topics.put('t', 'later', note(''));
  pause();
  assert.equal(one.kinds.length, count);
  one.receive({ t: 'ack', frames: 3 });
  pause();
  assert.equal(one.entries('t').length, 3, 'the rest');
});
