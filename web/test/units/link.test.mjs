// The link: decoder, replica, actions, reconnect, and a simulation of a bad network.
import assert from 'node:assert/strict';
import test from 'node:test';
import { load } from './load.mjs';

const { LinkStore, FakeTransport, backoff, decodeFrame } = await load('link/store.ts', 'link/fake.ts', '../../clients/typescript/src/link/decode.ts');

const features = { chat: true, title: 'chain', folder: '/p' };
const note = (text) => ({ kind: 'note', text });

/** A clock and a queue of frames that a test moves by hand. */
function surroundings(random = () => 0.5) {
  let now = 0;
  const timers = [];
  const problems = [];
  return {
    problems,
    now: () => now,
    random,
    report: (problem) => problems.push(problem),
    later(ms, run) {
      const timer = { at: now + ms, run };
      timers.push(timer);
      return () => timers.splice(timers.indexOf(timer) >>> 0, timers.includes(timer) ? 1 : 0);
    },
    frame(run) {
      timers.push({ at: now, run });
    },
    /** Runs all timers up to `ms` from now. */
    advance(ms) {
      const end = now + ms;
      for (;;) {
        timers.sort((a, b) => a.at - b.at);
        if (!timers.length || timers[0].at > end) break;
        const timer = timers.shift();
        now = Math.max(now, timer.at);
        timer.run();
      }
      now = end;
    },
  };
}

/** A store with a connection that has been welcomed. */
async function connected(...topics) {
  const around = surroundings();
  const fake = new FakeTransport();
  const store = new LinkStore(fake, around);
  const followed = topics.map((name) => store.topic(name));
  await Promise.resolve();
  fake.push({ t: 'welcome', v: 1, run: 'r1', features });
  around.advance(0);
  return { around, fake, store, followed };
}

const contents = (topic) => topic.entries.value.map(([id, entry]) => [id, entry.text]);

test('a snapshot and increments make the topic', async () => {
  const { around, fake, store, followed: [topic] } = await connected('t');
  assert.equal(store.state.value, 'live');
  assert.deepEqual(fake.sent[0], { t: 'hello', v: 1, token: 'token', run: '', want: [{ topic: 't', at: null }] });
  assert.equal(topic.loaded.value, false);
  fake.push({ t: 'snap', topic: 't', at: 3, entries: [['a', note('A')], ['b', note('B')]] });
  fake.push({ t: 'inc', topic: 't', from: 3, at: 5, changes: [
    { c: 'append', id: 'a', offset: 1, text: '!' }, { c: 'put', id: 'c', entry: note('C') }, { c: 'del', id: 'b' },
  ] });
  around.advance(0);
  assert.equal(topic.loaded.value, true);
  assert.deepEqual(contents(topic), [['a', 'A!'], ['c', 'C']]);
});

test('the ids stay the same value while only text grows', async () => {
  const { around, fake, followed: [topic] } = await connected('t');
  fake.push({ t: 'snap', topic: 't', at: 1, entries: [['a', note('A')]] });
  around.advance(0);
  const ids = topic.ids.value;
  const one = topic.get('a');
  fake.push({ t: 'inc', topic: 't', from: 1, at: 2, changes: [{ c: 'append', id: 'a', offset: 1, text: 'b' }] });
  around.advance(0);
  assert.equal(topic.ids.value, ids);
  assert.equal(one.value.text, 'Ab');
});

test('an increment from another position asks for a snapshot once', async () => {
  const { around, fake, followed: [topic] } = await connected('t');
  fake.push({ t: 'snap', topic: 't', at: 3, entries: [['a', note('A')]] });
  fake.push({ t: 'inc', topic: 't', from: 4, at: 5, changes: [{ c: 'put', id: 'x', entry: note('X') }] });
  fake.push({ t: 'inc', topic: 't', from: 5, at: 6, changes: [{ c: 'put', id: 'y', entry: note('Y') }] });
  around.advance(0);
  assert.deepEqual(fake.sent.filter((m) => m.t === 'want'), [{ t: 'want', topic: 't', at: null }]);
  assert.deepEqual(contents(topic), [['a', 'A']]);
  fake.push({ t: 'snap', topic: 't', at: 6, entries: [['a', note('A')], ['y', note('Y')]] });
  around.advance(0);
  assert.deepEqual(contents(topic), [['a', 'A'], ['y', 'Y']]);
});

test('an increment that came already is ignored', async () => {
  const { around, fake, followed: [topic] } = await connected('t');
  fake.push({ t: 'snap', topic: 't', at: 1, entries: [['a', note('A')]] });
  const increment = { t: 'inc', topic: 't', from: 1, at: 2, changes: [{ c: 'append', id: 'a', offset: 1, text: 'B' }] };
  fake.push(increment, increment);
  around.advance(0);
  assert.deepEqual(contents(topic), [['a', 'AB']]);
  assert.equal(fake.sent.some((m) => m.t === 'want'), false);
});

test('an append with another offset asks for a snapshot', async () => {
  const { around, fake } = await connected('t');
  fake.push({ t: 'snap', topic: 't', at: 1, entries: [['a', note('A')]] });
  fake.push({ t: 'inc', topic: 't', from: 1, at: 2, changes: [{ c: 'append', id: 'a', offset: 7, text: 'B' }] });
  around.advance(0);
  assert.equal(fake.sent.filter((m) => m.t === 'want').length, 1);
});

test('bad messages are reported and ignored', async () => {
  const { around, fake, followed: [topic] } = await connected('t');
  fake.push({ t: 'snap', topic: 't', at: 1, entries: [
    ['a', note('A')], ['bad', { kind: 'note', text: 7 }], ['later', { kind: 'hologram' }],
  ] });
  fake.push({ t: 'inc', topic: 't', from: 1, at: 2, changes: [{ c: 'append', id: 'later', offset: 0, text: 'x' }] });
  fake.push({ t: 'dance' });
  fake.push({ t: 'inc', topic: 't', from: 2, at: 3, changes: [{ c: 'append', id: 'a', offset: 1, text: 'B' }] });
  around.advance(0);
  assert.deepEqual(contents(topic), [['a', 'AB']]);
  assert.equal(around.problems.length, 3);
  assert.match(around.problems[0], /t bad\.text: expected a text, found a number/);
  assert.equal(fake.sent.some((m) => m.t === 'want'), false);
});

test('the decoder survives anything', () => {
  for (const text of ['', '{', 'null', '[]', '[null,1,"x",[]]', '{"t":"snap"}', '{"t":"inc","topic":"t","from":0,"at":1,"changes":[7]}',
    '{"t":"welcome","v":1,"run":"r","features":null}', '{"t":"__proto__"}']) {
    const problems = [];
    assert.deepEqual(decodeFrame(text, (problem) => problems.push(problem)), []);
    assert.ok(problems.length > 0 || text === '[]', text);
  }
});

test('an action is sent again after a reconnect until it is answered', async () => {
  const { around, fake, store } = await connected();
  const result = store.do({ op: 'listSessions' });
  const first = fake.sent.at(-1);
  assert.equal(first.t, 'do');
  fake.cut();
  assert.equal(store.state.value, 'lost');
  around.advance(300);
  await Promise.resolve();
  fake.push({ t: 'welcome', v: 1, run: 'r1', features });
  around.advance(0);
  assert.deepEqual(fake.sent.at(-1), first);
  fake.push({ t: 'done', id: first.id, ok: { n: 1 } }, { t: 'done', id: first.id, ok: { n: 2 } });
  around.advance(0);
  assert.deepEqual(await result, { n: 1 });
});

test('a failed action rejects with the reason', async () => {
  const { around, fake, store } = await connected();
  const result = store.do({ op: 'newSession' });
  fake.push({ t: 'done', id: fake.sent.at(-1).id, error: 'The agent has ended.' });
  around.advance(0);
  await assert.rejects(result, /The agent has ended\./);
});

test('another run of the server voids positions and open actions', async () => {
  const { around, fake, store, followed: [topic] } = await connected('t');
  fake.push({ t: 'snap', topic: 't', at: 9, entries: [['a', note('A')]] });
  around.advance(0);
  const result = store.do({ op: 'newSession' });
  fake.cut();
  around.advance(300);
  await Promise.resolve();
  assert.deepEqual(fake.sent.at(-1), { t: 'hello', v: 1, token: 'token', run: 'r1', want: [{ topic: 't', at: 9 }] });
  fake.push({ t: 'welcome', v: 1, run: 'r2', features }, { t: 'snap', topic: 't', at: 1, entries: [['b', note('B')]] });
  around.advance(0);
  await assert.rejects(result, /restarted/);
  assert.deepEqual(contents(topic), [['b', 'B']]);
});

test('a closed port is told as ended after three tries, and a live server ends that', async () => {
  const { around, fake, store } = await connected();
  fake.cut('refused');
  for (const expected of ['lost', 'ended']) {
    assert.equal(store.state.value, 'lost');
    around.advance(2000);
    await Promise.resolve();
    fake.cut('refused');
    assert.equal(store.state.value, expected);
  }
  store.retryNow();
  await Promise.resolve();
  fake.push({ t: 'welcome', v: 1, run: 'r1', features });
  around.advance(0);
  assert.equal(store.state.value, 'live');
});

test('the pause grows from 0.25 s to 8 s, within 20 percent', () => {
  assert.deepEqual([0, 1, 2, 5, 6, 60].map((n) => backoff(n, 0.5)), [250, 500, 1000, 8000, 8000, 8000]);
  assert.equal(backoff(0, 0), 200);
  assert.equal(Math.round(backoff(5, 1)), 9600);
});

test('a topic without users is dropped, but not when it only moves', async () => {
  const { around, fake, store, followed: [topic] } = await connected('t');
  topic.release();
  const again = store.topic('t');
  around.advance(5000);
  assert.equal(fake.sent.some((m) => m.t === 'drop'), false);
  again.release();
  again.release();
  around.advance(5000);
  assert.deepEqual(fake.sent.filter((m) => m.t === 'drop'), [{ t: 'drop', topic: 't' }]);
});

test('frames are acknowledged', async () => {
  const { around, fake } = await connected('t');
  fake.push({ t: 'snap', topic: 't', at: 1, entries: [] });
  around.advance(1000);
  assert.deepEqual(fake.sent.filter((m) => m.t === 'ack').at(-1), { t: 'ack', frames: 2 });
});

// The simulation.

function random(seed) {
  let state = seed * 2654435761 >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A recorded session: changes of three topics, with streaming text. */
function recording() {
  const list = [];
  const put = (topic, id, entry) => list.push([topic, { c: 'put', id, entry }]);
  const chain = (state) => ({
    kind: 'chain', state, components: ['brief', 'demo'], agent: null, error: null, canLoad: true, images: true, logins: [],
  });
  put('chain', 'chain', chain('starting'));
  put('chain', 'chain', chain('running'));
  for (let turn = 0; turn < 12; turn += 1) {
    put('session/1', `u${turn}`, { kind: 'user', text: `Question ${turn}`, attachments: [], queued: false, time: turn });
    put('sessions', '1', { kind: 'session', title: `Turn ${turn}`, cwd: '/p', state: 'running', time: turn });
    let text = '';
    put('session/1', `a${turn}`, { kind: 'agent', text, open: true, time: turn, blocks: [] });
    for (let part = 0; part < 9; part += 1) {
      const piece = `Wörd ${part} 🎉 `;
      list.push(['session/1', { c: 'append', id: `a${turn}`, offset: text.length, text: piece }]);
      text += piece;
      if (part === 4) put('chain', `log:${turn}`, { kind: 'log', level: 'info', component: 'demo', text: 'half', time: turn });
    }
    put('session/1', `a${turn}`, { kind: 'agent', text, open: false, time: turn, blocks: [] });
    if (turn % 3 === 2) list.push(['session/1', { c: 'del', id: `u${turn - 1}` }]);
    put('sessions', '1', { kind: 'session', title: `Turn ${turn}`, cwd: '/p', state: 'idle', time: turn });
  }
  return list;
}

/** The server side as the protocol describes it, with a ring of the last changes. */
class Server {
  topics = new Map();
  done = new Map();
  count = 0;
  page = null;

  topic(name) {
    if (!this.topics.has(name)) this.topics.set(name, { at: 0, entries: new Map(), ring: [] });
    return this.topics.get(name);
  }

  change(name, change) {
    const topic = this.topic(name);
    if (change.c === 'put') topic.entries.set(change.id, change.entry);
    else if (change.c === 'del') topic.entries.delete(change.id);
    else {
      const entry = topic.entries.get(change.id);
      topic.entries.set(change.id, { ...entry, text: entry.text + change.text });
    }
    topic.at += 1;
    topic.ring.push(change);
    if (topic.ring.length === 20) topic.ring.shift();
  }

  /** Sends what the page lacks, as one frame. */
  flush() {
    if (!this.page) return;
    const messages = [];
    for (const [name, sent] of this.page.follows) {
      const topic = this.topic(name);
      if (sent === topic.at) continue;
      const lack = sent === null ? Infinity : topic.at - sent;
      if (lack > topic.ring.length) {
        messages.push({ t: 'snap', topic: name, at: topic.at, entries: [...topic.entries] });
      } else messages.push({ t: 'inc', topic: name, from: sent, at: topic.at, changes: topic.ring.slice(-lack) });
      this.page.follows.set(name, topic.at);
    }
    if (messages.length) this.page.send(messages);
  }

  receive(message) {
    const follow = ({ topic, at }, run) => {
      this.page.follows.set(topic, run === 'sim' ? at : null);
      // An empty topic has a snapshot, too.
      if (at === null && this.topic(topic).at === 0) this.page.send([{ t: 'snap', topic, at: 0, entries: [] }]);
    };
    if (message.t === 'hello') {
      this.page.send([{ t: 'welcome', v: 1, run: 'sim', features }]);
      for (const want of message.want) follow(want, message.run);
    } else if (message.t === 'want') follow(message, 'sim');
    else if (message.t === 'drop') this.page.follows.delete(message.topic);
    else if (message.t === 'do') {
      if (!this.done.has(message.id)) this.done.set(message.id, (this.count += 1));
      this.page.send([{ t: 'done', id: message.id, ok: this.done.get(message.id) }]);
    }
    this.flush();
  }
}

/** A network that delays, doubles, reorders and cuts. */
class BadNetwork {
  constructor(server, around, chance, bad) {
    Object.assign(this, { server, around, chance, bad, turn: 0, live: false });
  }

  open(events) {
    this.close();
    const turn = this.turn;
    this.events = events;
    this.around.later(5 + this.chance() * 50, () => {
      if (turn !== this.turn) return;
      this.live = true;
      this.server.page = { follows: new Map(), send: (messages) => this.down(messages, turn) };
      events.opened('token');
    });
  }

  down(messages, turn) {
    const text = JSON.stringify(messages);
    const copies = this.bad && this.chance() < 0.15 ? 2 : 1;
    for (let copy = 0; copy < copies; copy += 1) {
      // Different delays reorder the frames.
      const delay = this.bad ? this.chance() ** 3 * 80 : 1;
      this.around.later(delay, () => {
        if (turn === this.turn) this.events.frame(text);
      });
    }
  }

  send(message) {
    if (!this.live) return false;
    const turn = this.turn;
    // To the server the order holds, as on a stream.
    this.lastUp = Math.max(this.lastUp ?? 0, this.around.now() + (this.bad ? this.chance() * 20 : 1));
    this.around.later(this.lastUp - this.around.now(), () => {
      if (turn === this.turn) this.server.receive(JSON.parse(JSON.stringify(message)));
    });
    return true;
  }

  cut() {
    if (!this.live) return;
    const { events } = this;
    this.close();
    events.closed('lost');
  }

  close() {
    this.turn += 1;
    this.live = false;
    this.server.page = null;
  }
}

async function simulate(seed, bad) {
  const chance = random(seed);
  const around = surroundings(chance);
  const server = new Server();
  const network = new BadNetwork(server, around, chance, bad);
  const store = new LinkStore(network, around);
  const topics = Object.fromEntries(['chain', 'sessions', 'session/1'].map((name) => [name, store.topic(name)]));
  const answers = [];
  let step = 0;
  for (const [topic, change] of recording()) {
    server.change(topic, change);
    if (chance() < 0.6) server.flush();
    if (bad && chance() < 0.06) network.cut();
    if (step % 10 === 0) store.do({ op: 'listSessions' }).then((answer) => answers.push(answer));
    around.advance(chance() * 30);
    step += 1;
  }
  server.flush();
  for (let round = 0; round < 40; round += 1) around.advance(1000);
  await new Promise(setImmediate);
  store.stop();
  return {
    state: Object.fromEntries(Object.entries(topics).map(([name, topic]) => [name, topic.entries.value])),
    expected: Object.fromEntries(Object.keys(topics).map((name) => [name, [...server.topic(name).entries]])),
    answers: answers.sort((a, b) => a - b),
    problems: around.problems,
    idle: store.pending.value === 0,
  };
}

test('a cut, delayed, doubled and reordered session ends in the same state (100 seeds)', async () => {
  const straight = await simulate(0, false);
  assert.deepEqual(straight.state, straight.expected);
  assert.ok(straight.state['session/1'].length === 20);
  for (let seed = 1; seed <= 100; seed += 1) {
    const result = await simulate(seed, true);
    assert.deepEqual(result.state, straight.state, `seed ${seed}`);
    assert.equal(result.idle, true, `seed ${seed}`);
    // Each action was done once, and answered.
    assert.deepEqual(result.answers, straight.answers, `seed ${seed}`);
    assert.deepEqual(result.problems, []);
  }
});

test('an action that is too large for the server fails, and is not sent', async () => {
  const { fake, store } = await connected();
  const text = 'ä'.repeat(7_600_000);
  await assert.rejects(store.do({ op: 'prompt', session: 's', text, attachments: [] }), /has 15\u202fMB. It may have 15\u202fMB/);
  assert.equal(store.pending.value, 0);
  assert.equal(fake.sent.some((it) => it.t === 'do'), false);
});

test('a page that is outdated for one try is not outdated for ever', async () => {
  const { around, fake, store } = await connected();
  fake.cut('version');
  assert.equal(store.outdated.value, true);
  around.advance(10_000);
  await Promise.resolve();
  fake.push({ t: 'welcome', v: 1, run: 'r1', features });
  around.advance(0);
  assert.equal(store.outdated.value, false);
});
