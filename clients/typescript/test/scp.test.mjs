// SCP: panels, comments, replies, events and operations, from a scripted agent and through the real components.
import assert from 'node:assert/strict';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import test from 'node:test';
import { entriesOf, entry, project, said, startEditor, when } from './help.mjs';
import { scripted } from './scripted.mjs';

/** An editor with a scripted agent, and a session. */
async function start(t, { files = {}, ...options } = {}) {
  const folder = project(t, files);
  const agent = await scripted(t);
  const editor = startEditor(t, { folder, program: agent.program, ...options });
  const session = await editor.newSession();
  return { folder, agent, editor, session };
}

test('panels are shown, changed, read and cleared', async (t) => {
  const { agent, editor, session } = await start(t);
  const panel = (method, params) => agent.request(`_scp/html_panel/${method}`, params);
  const refused = async (params, why) =>
    assert.deepEqual((await panel('show', params)).error, { code: -32602, message: why });
  await refused({ id: 'plan', label: 'Plan' }, "the panel 'plan' does not exist, and a new panel needs `contents`");
  await refused({ id: 'plan', contents: '' }, "the panel 'plan' does not exist, and a new panel needs `label`");
  await refused({ id: 'plan' }, "the panel 'plan' does not exist, and a new panel needs `label` and `contents`");
  await refused({ label: 'Plan' }, 'id: expected a text, found nothing');
  await refused({ id: 'plan', label: 7 }, 'label: expected a text, found a number');
  await refused([], 'the message: expected an object, found an array');
  await refused(
    { id: 'p', label: 'P', contents: 'x'.repeat(2 ** 20 + 1) },
    "the contents of the panel 'p' are larger than 1 MiB",
  );
  assert.deepEqual(editor.topics.entries('panels'), []);
  assert.equal((await panel('get', { id: 'plan' })).result, null);
  assert.deepEqual(
    (await panel('show', { id: 'plan', label: 'Plan', contents: '<p>1</p>', sessionId: session })).result,
    {},
  );
  assert.deepEqual((await panel('show', { id: 'other', label: 'Other', contents: '' })).result, {});
  assert.deepEqual((await panel('show', { id: 'plan', contents: '<p>2</p>' })).result, {});
  assert.equal((await panel('get', { id: 'plan' })).result, '<p>2</p>');
  assert.deepEqual(editor.topics.entries('panels'), [
    ['plan', { kind: 'panel', label: 'Plan', contents: '<p>2</p>', front: 3 }],
    ['other', { kind: 'panel', label: 'Other', contents: '', front: 2 }],
  ]);
  const event = { op: 'panelEvent', panel: 'plan', widget: 'next', event: 'click', value: '2' };
  assert.equal(await editor.do(event), null);
  assert.deepEqual((await agent.heard('_scp/html_panel/event'))[0].params, {
    id: 'plan',
    widget: 'next',
    kind: 'click',
    value: '2',
    sessionId: session,
  });
  await editor.do({ ...event, panel: 'other', event: 'toggle', value: null });
  assert.deepEqual((await agent.heard('_scp/html_panel/event', 2))[1].params, {
    id: 'other',
    widget: 'next',
    kind: 'toggle',
  });
  await assert.rejects(editor.do({ ...event, panel: 'gone' }), /the panel is gone/);
  assert.equal(await editor.do({ op: 'closePanel', panel: 'plan' }), null);
  assert.deepEqual((await agent.heard('_scp/html_panel/closed'))[0].params, { id: 'plan', sessionId: session });
  assert.deepEqual((await panel('clear', { id: 'plan' })).result, {});
  assert.deepEqual((await panel('clear', { id: 'other' })).result, {});
  assert.deepEqual(editor.topics.entries('panels'), []);
  // As a notification it has the same effect, but gets no answer.
  agent.notify('_scp/html_panel/show', { id: 'n', label: 'N', contents: '' });
  agent.notify('_scp/html_panel/show', { id: 'n', label: false });
  await entry(editor, 'panels', (_, id) => id === 'n');
  for (let count = 0; count < 99; count += 1)
    agent.notify('_scp/html_panel/show', { id: `n${count}`, label: '', contents: '' });
  await refused({ id: 'more', label: '', contents: '' }, '100 panels are open; clear one of them first');
});

test('comments stand on lines, keep their replies, and are removed in order', async (t) => {
  const { agent, editor, session, folder } = await start(t, { files: { 'src/a b.rs': 'one\ntwo\n' } });
  const comment = (method, params) => agent.request(`_scp/file_comment/${method}`, params);
  const file = join(folder, 'src/a b.rs');
  const place = { start: { line: 1, column: 2 }, end: { line: 2 } };
  for (const url of [pathToFileURL(file).href, file, 'src/a b.rs']) {
    const shown = { id: url, url, ...place, can_reply: true, contents: '**text**', sessionId: session };
    assert.deepEqual((await comment('show', shown)).result, {}, url);
    assert.deepEqual(editor.topics.get('comments', url), {
      kind: 'thread',
      path: 'src/a b.rs',
      line: 1,
      column: 2,
      endLine: 2,
      endColumn: null,
      text: '**text**',
      canReply: true,
      replies: [],
    });
  }
  symlinkSync('/etc', join(folder, 'link'));
  for (const [params, why] of [
    [{ url: '/etc/passwd' }, /outside of the folder/],
    [{ url: '../x' }, /outside of the folder/],
    [{ url: 'link/passwd' }, /outside of the folder/],
    [{ url: 'https://example.org/a' }, /is a https URL; use a file URL/],
    [{ url: 'file://host/a' }, /not a file on this machine/],
    [{ start: { line: 0 } }, /lines begin with 1/],
    [{ end: { line: 0 } }, /the end follows the start/],
    [{ start: 4 }, /start: expected an object, found a number/],
    [{ start: { line: 1.5 } }, /start\.line: expected a line or column/],
    [{ url: undefined }, /url: expected a text, found nothing/],
    [{ contents: 'x'.repeat(65537) }, /larger than 64 KiB/],
  ]) {
    const { error } = await comment('show', { id: 'bad', url: 'src/a b.rs', start: { line: 1 }, ...params });
    assert.equal(error.code, -32602);
    assert.match(error.message, why);
  }
  await editor.do({ op: 'reply', thread: file, text: ' Why? ' });
  assert.deepEqual((await agent.heard('_scp/file_comment/reply'))[0].params, {
    id: file,
    contents: 'Why?',
    sessionId: session,
  });
  await comment('show', { id: file, url: file, start: { line: 2 } });
  const thread = editor.topics.get('comments', file);
  assert.deepEqual([thread.line, thread.endLine, thread.text, thread.canReply], [2, 2, '', false]);
  assert.equal(thread.replies[0].text, 'Why?');
  await assert.rejects(editor.do({ op: 'reply', thread: file, text: 'more' }), /takes no replies/);
  await assert.rejects(editor.do({ op: 'reply', thread: 'none', text: 'more' }), /the comment is gone/);
  await assert.rejects(editor.do({ op: 'reply', thread: file, text: ' ' }), /write a reply/);
  // A comment that is shown and cleared at once is gone.
  agent.notify('_scp/file_comment/show', { id: 'short', url: file, start: { line: 1 } });
  assert.deepEqual((await comment('clear', { id: 'short' })).result, {});
  assert.equal(editor.topics.get('comments', 'short'), undefined);
});

test('relative paths belong to the folder of their session', async (t) => {
  const host = { edits: true, isInside: undefined };
  const { agent, editor, session, folder } = await start(t, { files: { 'a.txt': 'here\n' }, host });
  const other = project(t, { 'a.txt': 'there\n' });
  const second = await editor.newSession(other);
  const show = (id, sessionId) =>
    agent.request('_scp/file_comment/show', { id, url: 'a.txt', start: { line: 1 }, contents: id, sessionId });
  await show('first', session);
  await show('second', second);
  await show('none', undefined);
  const path = (id) => editor.topics.get('comments', id).path;
  assert.deepEqual(['first', 'second', 'none'].map(path), ['a.txt', join(other, 'a.txt'), 'a.txt']);
  const edited = agent.request('_scp/ide_operation/apply-edit', {
    edits: [{ url: 'a.txt', start: { line: 1 }, new_text: 'then' }],
    sessionId: second,
  });
  const [id] = await entry(editor, 'edits', (it) => it.kind === 'edit');
  await editor.do({ op: 'answerEdit', edit: id, accept: true });
  assert.deepEqual((await edited).result, { applied: true });
  assert.equal(readFileSync(join(other, 'a.txt'), 'utf8'), 'then\n');
  assert.equal(readFileSync(join(folder, 'a.txt'), 'utf8'), 'here\n');
  await agent.request('_scp/html_panel/show', { id: 'p', label: 'P', contents: '', sessionId: second });
  assert.deepEqual([editor.folderOfPanel('p'), editor.folderOfPanel('q')], [other, folder]);
  assert.deepEqual([editor.folderOf(second), editor.folderOf(null)], [other, folder]);
});

test('exactly what is provided is declared, and the rest is not known', async (t) => {
  const sent = [];
  const options = { trace: (direction, message) => direction === 'out' && sent.push(message) };
  const operations = {
    'get-selection': async () => null,
    'open-file': async () => {},
    'find-all-references': async () => ({ locations: [] }),
    diagnostics: async () => {
      throw new Error('no compiler');
    },
  };
  const { agent } = await start(t, { host: { panels: false, comments: true, operations }, options });
  assert.deepEqual(sent[0].params.clientCapabilities._meta.symposium, {
    version: '1.1',
    file_comment: true,
    ide_operation: ['get-selection', 'open-file', 'find-all-references', 'diagnostics'],
  });
  const operate = (name, params) => agent.request(`_scp/ide_operation/${name}`, params);
  assert.equal((await operate('get-selection', undefined)).result, null);
  assert.deepEqual((await operate('open-file', { url: 'a' })).result, {});
  assert.deepEqual((await operate('find-all-references', {})).result, { locations: [] });
  assert.deepEqual((await operate('open-file', { line: 1 })).error, {
    code: -32602,
    message: 'open-file: url: expected a text, found nothing',
  });
  assert.deepEqual((await operate('diagnostics', {})).error, { code: -32602, message: 'diagnostics: no compiler' });
  for (const method of [
    '_scp/ide_operation/list-open-files',
    '_scp/ide_operation/x',
    '_scp/html_panel/show',
    '_scp/unknown',
  ]) {
    assert.deepEqual((await agent.request(method, {})).error, { code: -32601, message: `method not found: ${method}` });
  }
});

test('an operation that is cancelled is told so, and answered once', async (t) => {
  let aborted = false;
  const operations = {
    'find-definition': (params, signal) =>
      new Promise((resolve) => {
        signal.addEventListener('abort', () => {
          aborted = true;
          resolve({ locations: [] });
        });
      }),
  };
  const { agent } = await start(t, { host: { operations } });
  const answer = agent.request('_scp/ide_operation/find-definition', { symbol: 'x' }, 'op');
  agent.notify('$/cancel_request', { requestId: 'op' });
  assert.deepEqual((await answer).error, { code: -32800, message: 'the request was cancelled' });
  assert.ok(aborted);
  await agent.request('unknown/method', {});
  assert.equal(agent.messages.filter((it) => it.id === 'op').length, 1);
});

test('an edit is shown, accepted, rejected, and not written over other changes', async (t) => {
  const { agent, editor, folder } = await start(t, { files: { 'a.txt': 'äb🎉d\nsecond\n' }, host: { edits: true } });
  const apply = (edits, id) => agent.request('_scp/ide_operation/apply-edit', { label: 'Rename', edits }, id);
  const edit = { url: 'a.txt', start: { line: 1, column: 3 }, end: { line: 1, column: 4 }, new_text: 'X' };
  const open = () => entry(editor, 'edits', (it) => it.state === 'open');
  const first = apply([edit, { url: 'new.txt', start: { line: 1 }, new_text: 'new' }]);
  const [id, shown] = await open();
  assert.deepEqual(shown.files, [
    { path: 'a.txt', old: 'äb🎉d\nsecond\n', new: 'äbXd\nsecond\n' },
    { path: 'new.txt', old: null, new: 'new' },
  ]);
  assert.equal(await editor.do({ op: 'answerEdit', edit: id, accept: true }), null);
  assert.deepEqual((await first).result, { applied: true });
  assert.equal(readFileSync(join(folder, 'a.txt'), 'utf8'), 'äbXd\nsecond\n');
  assert.equal(readFileSync(join(folder, 'new.txt'), 'utf8'), 'new');
  assert.equal(editor.topics.get('edits', id).state, 'accepted');
  await assert.rejects(editor.do({ op: 'answerEdit', edit: id, accept: true }), /answered already/);
  const second = apply([edit]);
  await editor.do({ op: 'answerEdit', edit: (await open())[0], accept: false });
  assert.deepEqual((await second).result, { applied: false, reason: 'the user has rejected the edit' });
  const third = apply([edit]);
  const [thirdId] = await open();
  writeFileSync(join(folder, 'a.txt'), 'changed');
  await assert.rejects(
    editor.do({ op: 'answerEdit', edit: thirdId, accept: true }),
    /has changed since the edit was made/,
  );
  assert.equal((await third).result.applied, false);
  assert.equal(readFileSync(join(folder, 'a.txt'), 'utf8'), 'changed');
  const fourth = apply([{ ...edit, start: { line: 1 }, end: null }], 'four');
  const [fourthId] = await open();
  agent.notify('$/cancel_request', { requestId: 'four' });
  assert.equal((await fourth).error.code, -32800);
  await when(editor, () => !editor.topics.get('edits', fourthId), 'an edit that nobody waits for is withdrawn');
  for (const [edits, why] of [
    [[], /between 1 and 100 files/],
    [[{ ...edit, start: { line: 9 } }], /a\.txt: line 9 does not exist/],
    [[{ ...edit, url: '/etc/passwd' }], /outside/],
    [[{ url: 'a.txt', start: { line: 1 } }], /new_text: expected a text/],
  ])
    assert.match((await apply(edits)).error.message, why);
});

test('log messages of components are shown and passed on', async (t) => {
  const lines = [];
  const { agent, editor } = await start(t, { options: { log: (line) => lines.push(line) } });
  const data = { panels: 1, apiKey: 'sk-1', text: 'a\u001b[31mb' };
  agent.notify('_scp/log', { level: 'warn', message: 'a\u001b[31mb', component: 'x', data });
  agent.notify('_proxy/log', { message: 7 });
  await when(editor, () => lines.length === 2, 'two lines');
  assert.deepEqual(lines, [
    { level: 'warn', component: 'x', text: 'ab', data: '{"panels":1,"apiKey":"…","text":"a\\u001b[31mb"}' },
    { level: 'info', component: null, text: '', data: null },
  ]);
  for (let count = 0; count < 600; count += 1) agent.notify('_scp/log', { message: String(count) });
  await when(editor, () => lines.length === 602, 'all lines');
  assert.equal(editor.topics.entries('chain').length, 500);
  assert.equal(editor.topics.entries('chain')[0][0], 'chain');
});

test('a walkthrough through the real components: panel, comments, reply, answers and operations', async (t) => {
  const folder = project(t, {
    'README.md': '# Greeter\n\nSays hello.\n',
    'src/main.rs': 'fn main() {\n    println!("Hello");\n}\n',
  });
  const asked = [];
  const operations = {
    'find-all-references': async (params) => {
      asked.push(params);
      return {
        locations: [
          { url: pathToFileURL(join(folder, 'src/main.rs')).href, start: { line: 1, column: 4 }, text: 'fn main() {' },
        ],
      };
    },
  };
  const editor = startEditor(t, { folder, chain: ['walkthrough', 'ide', 'demo-agent --pace 0'], host: { operations } });
  const session = await editor.newSession();
  await editor.prompt(session, 'tools');
  assert.match(said(editor, session), /find_all_references/);
  assert.doesNotMatch(said(editor, session), /get_selection/, 'it is not provided');
  const turn = editor.prompt(session, 'walkthrough');
  const [panel, { contents }] = await entry(editor, 'panels', (it) => /Was this helpful/.test(it.contents));
  const [thread, comment] = await entry(editor, 'comments', (it) => it.path === 'README.md');
  assert.deepEqual([comment.line, comment.endLine, comment.canReply], [1, 3, true]);
  await editor.do({ op: 'reply', thread, text: 'It is still true.' });
  const [, choice, text, done] = [...contents.matchAll(/data-widget="([^"]+)"/g)].reduce(
    (all, it) => [...all, it[1]],
    [''],
  );
  await editor.do({ op: 'panelEvent', panel, widget: choice, event: 'choice', value: 'Yes' });
  if (done === 'done' || text === 'done')
    await editor.do({ op: 'panelEvent', panel, widget: 'done', event: 'click', value: null, inputs: { 'q2-text': 'More tests' } });
  await turn;
  const words = said(editor, session);
  assert.match(words, /It is still true\./);
  assert.match(words, /Yes/);
  assert.match(words, /More tests/, 'the text comes with the button');
  await editor.prompt(session, 'use find_all_references {"symbol":"main"}');
  assert.deepEqual(
    asked.map((it) => it.symbol),
    ['main'],
  );
  assert.match(
    entriesOf(editor, session)
      .map((it) => JSON.stringify(it))
      .join('\n'),
    /src\/main\.rs/,
  );
});
