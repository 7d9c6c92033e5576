// Conversations on disk: nothing is lost, files are private, and there is a limit.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmdirSync, rmSync, statSync, utimesSync, writeFileSync,
} from 'node:fs';
import { tmpdir, uptime } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { load } from './load.mjs';

const { chosen, decode, encode, fileName, isWorthKeeping, Keeper } = await load('keep');

const conversation = (id, time, ...texts) => ({
  id, session: { title: `Session ${id}`, cwd: '/p', state: 'idle', time },
  entries: texts.map((text, index) => [`u:${index}`, { kind: 'user', text, attachments: [], queued: false, time }]),
});

/** A keeper in a new folder. `restart` makes another one, as the next window has it. */
function keeping(t, source, most = 30) {
  const folder = join(mkdtempSync(join(tmpdir(), 'conductor-keep-')), 'conversations');
  t.after(() => rmSync(join(folder, '..'), { recursive: true, force: true }));
  const problems = [];
  const report = { problem: (text) => problems.push(text), kept: () => {} };
  const make = () => new Keeper(folder, [], () => most, () => source, report);
  return { folder, problems, make };
}

test('a conversation is the same after it was written and read', () => {
  const one = conversation('s-1', 5, 'hello', 'a 🎉 "text"');
  one.entries.push(['draft', { kind: 'draft', text: 'half' }]);
  assert.deepEqual(decode(encode(one)), one);
});

test('what cannot be read is left out, and what is no conversation is none', () => {
  const one = conversation('s', 1, 'hello');
  one.entries.push(['x', { kind: 'of another version' }]);
  assert.equal(decode(encode(one)).entries.length, 1);
  const empty = '[{"t":"snap","topic":"sessions","at":0,"entries":[]}]';
  for (const text of ['', '{}', '[]', 'null', empty]) assert.equal(decode(text), null);
});

test('of a conversation that is too long, the newest entries and the draft are kept', () => {
  const one = conversation('s', 1, 'old '.repeat(100), 'new');
  one.entries.unshift(['draft', { kind: 'draft', text: 'half' }]);
  const kept = decode(encode(one, 300));
  assert.deepEqual(kept.entries.map(([, entry]) => entry.kind), ['note', 'draft', 'user']);
  assert.equal(kept.entries.at(-1)[1].text, 'new');
});

const said = (kind, index, text) => [`m:${index}`, {
  kind, text, time: index, ...(kind === 'user' ? { attachments: [], queued: false } : { open: false, blocks: [] }),
}];
const image = (length) => ({ block: 'image', mime: 'image/png', data: 'A'.repeat(length) });
const tool = (index, length) => [`t:${index}`, {
  kind: 'tool', title: `Read ${index}`, tool: 'read', status: 'completed', blocks: [], terminals: [], places: [],
  diffs: [{ path: 'a.txt', old: null, new: 'x'.repeat(length) }], input: { path: 'a.txt' }, output: 'y'.repeat(length),
  time: index, ms: 1,
}];

test('one large message does not cost the others', () => {
  const one = conversation('s', 1);
  const small = Array.from({ length: 20 }, (_, index) => said(index % 2 ? 'agent' : 'user', index, `message ${index}`));
  const withImage = said('agent', 98, 'here it is');
  withImage[1].blocks = [image(2_200_000), image(40)];
  for (const large of [withImage, said('user', 99, 'x'.repeat(3_000_000)), tool(97, 3_000_000)]) {
    for (const entries of [[...small, large], [large, ...small], [...small, large, said('user', 100, 'last')]]) {
      const text = encode({ ...one, entries });
      assert.ok(text.length < 2 * 1024 * 1024);
      const kept = decode(text);
      assert.deepEqual(kept.entries.map(([id]) => id), entries.map(([id]) => id));
      for (const [id, entry] of kept.entries.filter(([id]) => id !== large[0])) {
        assert.deepEqual(entry, entries.find((it) => it[0] === id)[1]);
      }
      assert.ok(isWorthKeeping(kept));
    }
  }
  const kept = decode(encode({ ...one, entries: [...small, withImage] })).entries.at(-1)[1];
  assert.equal(kept.text, 'here it is');
  assert.deepEqual(kept.blocks, [
    { block: 'other', about: 'image (image/png), which was too large to be kept' }, image(40),
  ]);
});

test('of a long conversation with large outputs, what was said first stays', () => {
  const entries = [said('user', 0, 'the question'), ...Array.from({ length: 60 }, (_, index) => tool(index, 300_000))];
  const kept = decode(encode({ ...conversation('s', 1), entries }));
  assert.ok(isWorthKeeping(kept));
  assert.equal(kept.entries.find(([, entry]) => entry.kind === 'user')[1].text, 'the question');
  assert.equal(kept.entries.at(-1)[0], 't:59');
  // What is kept once is the same when it is kept again.
  assert.deepEqual(decode(encode(kept)), kept);
});

test('a draft is kept as it is, and a text never ends with half of a character', () => {
  const draft = ['draft', { kind: 'draft', text: 'd'.repeat(1_000_000) }];
  const emoji = said('agent', 1, '🎉'.repeat(400_000));
  const kept = decode(encode({ ...conversation('s', 1), entries: [said('user', 0, 'hi'), emoji, draft] }));
  assert.deepEqual(kept.entries.at(-1), draft);
  assert.equal(kept.entries[1][1].text.isWellFormed(), true);
  assert.equal(kept.entries[0][1].text, 'hi');
});

test('empty conversations are not kept, and the oldest are dropped', () => {
  const all = [
    conversation('old', 1, 'a'), conversation('empty', 9), conversation('new', 3, 'a'), conversation('middle', 2, 'a'),
  ];
  assert.deepEqual(chosen(all, 2).map(({ id }) => id), ['new', 'middle']);
});

test('the next window shows the conversations, and continues the last one', (t) => {
  const source = [conversation('a', 1, 'first'), conversation('b', 2, 'second')];
  const { folder, make, problems } = keeping(t, source);
  const keeper = make();
  assert.deepEqual(keeper.load(['x']), { conversations: [], current: null, elsewhere: [] });
  for (const { id } of source) keeper.touch(id);
  keeper.show('a');
  keeper.flush();
  assert.deepEqual(make().load(['x']), { conversations: source, current: 'a', elsewhere: [] });
  // The agent of another chain does not know the session.
  assert.deepEqual(make().load(['y']), { conversations: source, current: null, elsewhere: [] });
  for (const name of readdirSync(folder)) {
    assert.equal(statSync(join(folder, name)).mode & 0o077, 0, `${name} is private`);
  }
  assert.equal(statSync(folder).mode & 0o077, 0);
  assert.equal(readdirSync(folder).some((name) => name.endsWith('.part')), false);
  assert.deepEqual(problems, []);
});

test('a change is written by itself after a pause, without a flush', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const source = [conversation('a', 1, 'first')];
  const { folder, make } = keeping(t, source);
  make().touch('a');
  assert.equal(existsSync(folder), false);
  t.mock.timers.tick(1_000);
  assert.ok(readdirSync(folder).includes(fileName('a')));
});

test('a closed conversation is gone, and so is one above the limit', (t) => {
  const source = [conversation('a', 1, 'x'), conversation('b', 2, 'x'), conversation('c', 3, 'x')];
  const { make } = keeping(t, source, 2);
  const keeper = make();
  for (const { id } of source) keeper.touch(id);
  keeper.flush();
  assert.deepEqual(make().load([]).conversations.map(({ id }) => id), ['b', 'c']);
  source.splice(1, 1);
  keeper.forget('b');
  keeper.flush();
  assert.deepEqual(make().load([]).conversations.map(({ id }) => id), ['c']);
});

test('a draft that was deleted does not come back', (t) => {
  const source = [conversation('a', 1)];
  source[0].entries.push(['draft', { kind: 'draft', text: 'half' }]);
  const { make } = keeping(t, source);
  const keeper = make();
  keeper.touch('a');
  keeper.flush();
  assert.equal(make().load([]).conversations.length, 1);
  // Without words, it is no conversation.
  source.splice(0);
  keeper.touch('a');
  keeper.flush();
  assert.deepEqual(make().load([]).conversations, []);
});

test('without an editor, nothing is deleted', (t) => {
  const source = [conversation('a', 1, 'x')];
  const { folder, make } = keeping(t, source);
  const keeper = make();
  keeper.touch('a');
  keeper.flush();
  const report = { problem: (text) => assert.fail(text), kept: () => {} };
  const late = new Keeper(folder, [], () => 30, () => null, report);
  late.load([]);
  late.touch('a');
  late.flush();
  assert.deepEqual(make().load([]).conversations, source);
});

test('a conversation that gets another id is deleted when it is written with that one, and not before', (t) => {
  const source = [conversation('old', 1, 'first')];
  const { folder, make, problems } = keeping(t, source);
  const keeper = make();
  keeper.touch('old');
  keeper.flush();
  const kept = () => make().load([]).conversations.map(({ id }) => id);
  source[0] = { ...source[0], id: 'new' };
  keeper.forget('old');
  keeper.touch('new');
  assert.deepEqual(kept(), ['old'], 'the process may end here');
  // The disk is full: a folder is in the way of the file.
  mkdirSync(join(folder, fileName('new')));
  keeper.flush();
  assert.equal(problems.length, 1);
  assert.deepEqual(kept(), ['old']);
  rmdirSync(join(folder, fileName('new')));
  keeper.flush();
  assert.deepEqual(kept(), ['new']);
});

/** Windows of a workspace, each with its folder, and what they show. */
function windows(t, ...sources) {
  const root = mkdtempSync(join(tmpdir(), 'conductor-keep-'));
  t.after(() => rmSync(root, { recursive: true, force: true }));
  const folders = sources.map((_, index) => join(root, String(index)));
  const report = { problem: (text) => assert.fail(text), kept: () => {} };
  const open = (index, most = 30) => (
    new Keeper(folders[index], folders.filter((it) => it !== folders[index]), () => most, () => sources[index], report));
  /** Writes the conversations of a window, the last one as the one that it shows. */
  const keep = (index) => {
    const keeper = open(index);
    keeper.load([]);
    for (const { id } of sources[index]) keeper.touch(id);
    keeper.show(sources[index].at(-1).id);
    keeper.flush();
    return keeper;
  };
  /** Makes a window one of another process. `age` is how many seconds ago it has shown its conversation. */
  const of = (index, pid, age = 0) => {
    const path = join(folders[index], 'current.json');
    writeFileSync(path, JSON.stringify({ ...JSON.parse(readFileSync(path, 'utf8')), pid }));
    const then = Date.now() / 1000 - age;
    utimesSync(path, then, then);
  };
  return { folders, open, keep, of, ids: (index) => open(index).load([]).conversations.map(({ id }) => id) };
}

/** The number of a process that has ended. */
const endedProcess = () => spawnSync(process.execPath, ['--eval', '0']).pid;

test('a window shows the conversations of all windows of its workspace, each as it was last', (t) => {
  const [old, later] = [conversation('both', 1, 'x'), conversation('both', 5, 'x', 'y')];
  const { open, keep, ids } = windows(t, [conversation('a', 3, 'x'), old], [conversation('b', 4, 'x'), later], []);
  for (const index of [0, 1]) keep(index);
  for (const index of [0, 1, 2]) {
    assert.deepEqual(open(index).load([]).conversations, [conversation('a', 3, 'x'), conversation('b', 4, 'x'), later]);
  }
  // Of two versions of the same time, the one that was written last counts: it may have another draft.
  const drafts = windows(t, [conversation('a', 1, 'x')], [conversation('a', 1, 'x', 'draft')]);
  for (const index of [0, 1]) drafts.keep(index);
  const past = Date.now() / 1000 - 60;
  utimesSync(join(drafts.folders[0], fileName('a')), past, past);
  assert.equal(drafts.open(0).load([]).conversations[0].entries.length, 2);
  assert.deepEqual(ids(2), ['a', 'b', 'both']);
});

test('a conversation that is closed in one window, or is above the limit at the start, is gone from all', (t) => {
  const sources = [[conversation('a', 3, 'x'), conversation('b', 2, 'x')], [conversation('c', 1, 'x')]];
  const { open, keep, ids } = windows(t, ...sources);
  const keepers = [0, 1].map(keep);
  sources[0].shift();
  keepers[1].forget('a');
  keepers[1].flush();
  assert.deepEqual(ids(0), ['c', 'b']);
  assert.deepEqual(open(0, 1).load([]).conversations.map(({ id }) => id), ['b']);
  assert.deepEqual(ids(1), ['b']);
  open(1, 0).load([]);
  assert.deepEqual(ids(0), []);
});

test('a conversation that is above the limit in one window stays in the other one that goes on with it', (t) => {
  const sources = [[conversation('a', 1, 'x')], []];
  const { keep, open, ids } = windows(t, ...sources);
  const first = keep(0);
  const second = open(1, 1);
  sources[1].push(...second.load([]).conversations, conversation('b', 5, 'x'));
  // Meanwhile, the first window goes on.
  sources[0][0] = conversation('a', 9, 'x', 'y');
  first.touch('a');
  first.flush();
  second.touch('b');
  second.flush();
  assert.deepEqual(ids(0), ['b', 'a']);
});

test('a session that the agent only lists does not replace what another window has said in it', (t) => {
  const sources = [[conversation('a', 1, 'x')], []];
  const { folders, keep, open } = windows(t, ...sources);
  const first = keep(0);
  const second = open(1);
  sources[1].push(...second.load([]).conversations);
  sources[0][0] = conversation('a', 5, 'x', 'y');
  first.touch('a');
  first.flush();
  const list = (state) => {
    sources[1][0] = { ...sources[1][0], session: { ...sources[1][0].session, time: 9 } };
    second.follow('sessions', { c: 'put', id: 'a', entry: { ...sources[1][0].session, kind: 'session', state } });
    second.flush();
  };
  const texts = () => open(0).load([]).conversations[0].entries.map(([, { text }]) => text);
  list('saved');
  assert.equal(existsSync(join(folders[1], fileName('a'))), false);
  assert.deepEqual(texts(), ['x', 'y']);
  // It is written, and is the older one.
  list('idle');
  assert.ok(existsSync(join(folders[1], fileName('a'))));
  assert.deepEqual(texts(), ['x', 'y']);
  second.follow('session/a', { c: 'clear' });
  second.follow('sessions', { c: 'clear' });
  second.follow('sessions', { c: 'del', id: 'a' });
  sources[1].pop();
  second.flush();
  assert.deepEqual(open(0).load([]).conversations, []);
});

test('a window that is open keeps its files when another window starts with a lower limit, or closes a conversation', (t) => {
  const { folders, open, keep, of } = windows(t, [conversation('a', 1, 'x'), conversation('b', 2, 'x')], []);
  keep(0);
  of(0, process.ppid);
  const before = readdirSync(folders[0]);
  const second = open(1, 1);
  second.load([]);
  second.forget('a');
  second.forget('b');
  second.flush();
  assert.deepEqual(readdirSync(folders[0]), before);
  // The window has ended.
  of(0, endedProcess());
  open(1, 1).load([]);
  assert.deepEqual(readdirSync(folders[0]).sort(), [fileName('b'), 'current.json'].sort());
});

test('a window continues what was shown last, unless another window shows it', (t) => {
  const make = (...owners) => {
    const { open, keep, of } = windows(t, [conversation('a', 1, 'x')], [conversation('b', 2, 'x')], [conversation('x', 1, 'x')]);
    for (const [index, [pid, age]] of owners.entries()) {
      keep(index);
      of(index, pid, age);
    }
    return (index) => open(index).load([]).current;
  };
  const gone = endedProcess();
  const open = process.ppid;
  // A window that is loaded again has another folder now and then.
  assert.equal(make([gone, 10])(2), 'a');
  assert.equal(make([gone, 20], [gone, 10])(2), 'b');
  assert.equal(make([gone, 10], [gone, 20])(1), 'a');
  // The other window is open.
  assert.equal(make([open, 10])(2), null);
  assert.equal(make([gone, 20], [open, 10])(2), 'a');
  assert.equal(make([open, 20], [open, 10])(0), 'a', 'the folder of a window belongs to it alone');
});

test('conversations of two windows with the same number of a session are both kept', (t) => {
  const [older, newer] = [conversation('s1', 1, 'about apples'), conversation('s1', 5, 'about pears')];
  const sources = [[older], [newer], []];
  const { folders, open, keep, of } = windows(t, ...sources);
  for (const index of [0, 1]) {
    keep(index);
    of(index, endedProcess(), 60 - index);
  }
  const both = [{ ...older, id: 's1~1' }, newer];
  const third = open(2);
  const { conversations, current } = third.load([]);
  assert.deepEqual({ conversations, current }, { conversations: both, current: 's1' });
  // The next windows show the same, whatever is written under the number.
  sources[2].push(...both);
  third.touch('s1');
  third.flush();
  for (const index of [0, 1, 2]) assert.deepEqual(open(index).load([]).conversations, both);
  // A new session takes over.
  sources[2][0] = { ...both[0], id: 's7' };
  third.forget('s1~1');
  third.touch('s7');
  third.flush();
  assert.deepEqual(open(0).load([]).conversations.map(({ id }) => id), ['s7', 's1']);
  assert.equal(readdirSync(folders[0]).includes(fileName('s1')), false);
});

test('the conversation that a window has shown last continues, also if it has another id now', (t) => {
  const { open, keep, of } = windows(t, [conversation('s1', 1, 'about apples')], [conversation('s1', 5, 'about pears')]);
  for (const index of [0, 1]) keep(index);
  of(0, endedProcess());
  of(1, process.ppid);
  const { conversations, current, elsewhere } = open(0).load([]);
  assert.deepEqual(conversations.map(({ id }) => id), ['s1~1', 's1']);
  assert.deepEqual({ current, elsewhere }, { current: 's1~1', elsewhere: ['s1'] });
  assert.equal(open(0).load([]).current, 's1~1');
});

test('a conversation with the number of a newer one is deleted when it is above the limit, and the newer one stays', (t) => {
  const { open, keep, ids } = windows(t, [conversation('s1', 1, 'about apples')], [conversation('s1', 5, 'about pears')]);
  for (const index of [0, 1]) keep(index);
  assert.deepEqual(open(0, 1).load([]).conversations, [conversation('s1', 5, 'about pears')]);
  assert.deepEqual(ids(1), ['s1']);
});

test('a conversation that the agent has repeated in another window is the same', (t) => {
  const repeated = conversation('a', 50, 'x', 'y');
  for (const other of [repeated, conversation('a', 50, 'x', 'y', 'z'), conversation('a', 50, ' x')]) {
    const { keep, open } = windows(t, [conversation('a', 1, 'x', 'y')], [other]);
    for (const index of [0, 1]) keep(index);
    assert.deepEqual(open(0).load([]).conversations, [other]);
  }
});

test('a process that has the number of an ended window is no window', (t) => {
  const { folders, open, keep, of } = windows(t, [conversation('a', 1, 'x')], []);
  const keeper = keep(0);
  of(0, process.ppid);
  assert.equal(open(1).load([]).current, null);
  // The number is from before the start of the computer.
  of(0, process.ppid, uptime() + 60);
  assert.equal(open(1).load([]).current, 'a');
  // A window that ends takes its number away, and what was shown last stays so.
  of(0, process.pid, 60);
  const index = join(folders[0], 'current.json');
  const written = Math.round(statSync(index).mtimeMs);
  keeper.end();
  assert.deepEqual(Object.keys(JSON.parse(readFileSync(index, 'utf8'))), ['current', 'chain']);
  assert.equal(Math.round(statSync(index).mtimeMs), written);
  assert.equal(open(0).load([]).current, 'a');
});

test('a lower limit deletes what is above it, and a limit of 0 deletes all', (t) => {
  const source = Array.from({ length: 5 }, (_, index) => conversation(`s${index}`, index, 'x'));
  let most = 5;
  const folder = join(mkdtempSync(join(tmpdir(), 'conductor-keep-')), 'conversations');
  t.after(() => rmSync(join(folder, '..'), { recursive: true, force: true }));
  const report = { problem: (text) => assert.fail(text), kept: () => {} };
  const make = () => new Keeper(folder, [], () => most, () => source, report);
  const keeper = make();
  for (const { id } of source) keeper.touch(id);
  keeper.show('s4');
  keeper.flush();
  assert.equal(readdirSync(folder).length, 6);
  most = 2;
  assert.deepEqual(make().load([]).conversations.map(({ id }) => id), ['s3', 's4']);
  assert.equal(readdirSync(folder).length, 3);
  most = 0;
  assert.deepEqual(make().load([]), { conversations: [], current: null, elsewhere: [] });
  assert.deepEqual(readdirSync(folder), []);
  const last = make();
  last.touch('s1');
  last.show('s1');
  last.flush();
  assert.deepEqual(readdirSync(folder), []);
});

test('other files and broken ones do no harm, and a folder that cannot be written is reported', (t) => {
  const source = [conversation('a', 1, 'x')];
  const { folder, make } = keeping(t, source);
  const keeper = make();
  keeper.touch('a');
  keeper.flush();
  writeFileSync(join(folder, fileName('broken')), '{');
  writeFileSync(join(folder, 'note.txt'), 'mine');
  writeFileSync(join(folder, 'current.json'), '}');
  assert.deepEqual(make().load([]), { conversations: source, current: null, elsewhere: [] });
  const problems = [];
  const blocked = new Keeper(join(folder, 'note.txt'), [], () => 5, () => source, {
    problem: (text) => problems.push(text), kept: () => assert.fail('nothing was kept'),
  });
  blocked.touch('a');
  blocked.flush();
  assert.match(problems[0], /conversations were not kept/);
});
