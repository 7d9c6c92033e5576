// Parts of the library by themselves: texts, errors, settings, edits of texts, output of terminals, files.
import assert from 'node:assert/strict';
import { chmodSync, existsSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { filesIn, load, project } from './help.mjs';

const {
  applyEdits,
  capabilitiesOf,
  commandsOf,
  describe,
  oneLine,
  plain,
  settingRequest,
  settingsOf,
  shorten,
  TerminalOutput,
  ToolCalls,
  titleOf,
  usageOf,
  withoutSecrets,
} = await load(
  'printable.ts',
  'errors.ts',
  'secrets.ts',
  'settings.ts',
  'text-edit.ts',
  'terminal-output.ts',
  'tool-calls.ts',
  'content.ts',
  'capabilities.ts',
);

test('escape sequences and control characters are removed', () => {
  for (const [text, shown] of [
    ['a\x1b[2Jb\r\x07\u009b31mc\n\td\x7f', 'abc\n\td'],
    ['\x1b]0;title\x07a\x1b]52;c;eA==\x1b\\b\u009d8;;x\u009cc', 'abc'],
    ['\x1bP1;2q#0\x1b\\a\x1b(Bb\x1bcc\x1b7d', 'abcd'],
    ['\x1b[?1049ha\x1b[6nb\x1b[>0qc', 'abc'],
    // A sequence without an end does not hide text.
    ['\x1b]0;never ended', '0;never ended'],
    ['\x1b]0;a\nb\x07', '0;a\nb'],
    ['\x1b[31', ''],
    ['\x1b[3\x1b[2Jx', 'x'],
    ['\x1b', ''],
    ['a\u202etxt.exe\u2066b\u200f\u2028', 'atxt.exeb'],
    ['Grüße,\n\t→ ✓ 🎉', 'Grüße,\n\t→ ✓ 🎉'],
  ])
    assert.equal(plain(text), shown, JSON.stringify(text));
  assert.equal(oneLine('a\nb\tc\x1b[A'), 'a b c');
  const began = Date.now();
  for (const opener of ['\x1b', '\x1b[', '\x1b]', '\x1bP', '\u0090', '\u009d0;', '\x1b(', '\x1b[1'])
    plain(opener.repeat(200_000));
  assert.ok(Date.now() - began < 5000, 'each part is read once');
});

test('the reason of an error is found wherever agents put it', () => {
  const internal = (data) => ({ code: -32603, message: 'Internal error', data });
  for (const [error, expected] of [
    [internal('no provider'), 'Internal error: no provider'],
    [internal({ details: 'exited with code 1' }), 'Internal error: exited with code 1'],
    [internal({ error: { message: 'bad key', type: 'x' } }), 'Internal error: bad key: type: x'],
    [internal({ errors: [{ msg: 'a' }, 'b'] }), 'Internal error: a: b'],
    [internal({ errorKind: 'quota', details: 'empty' }), 'Internal error: empty: errorKind: quota'],
    [internal(7), 'Internal error: 7'],
    [internal(null), 'Internal error'],
    [{ code: 1, message: 'a', data: 'a' }, 'a'],
    [internal({ headers: { authorization: 'x1' } }), 'Internal error: authorization: …'],
    [{ code: 1, message: ' ' }, 'an error without a message'],
  ]) {
    const { text } = describe(error, { agent: '', request: 'x/y', greeting: null });
    assert.equal(text.split('\n')[0], `x/y failed: ${expected}`);
  }
  const source = {
    agent: 'claude',
    request: 'session/new',
    greeting: {
      authMethods: [
        {
          id: 'a',
          name: 'Subscription',
          description: 'Use it ',
          type: 'terminal',
          args: ['--cli', 'auth login'],
          env: { A: 'b c' },
        },
        { methodId: 'b', name: 'Console', _meta: { 'terminal-auth': { command: '/usr/bin/node', args: ['x.js'] } } },
        { id: 'c', name: 'Google' },
        {
          id: 'd',
          name: 'API key',
          type: 'env_var',
          vars: [{ name: 'KEY' }, { name: 'B', optional: true }],
          link: 'https://keys.example',
        },
      ],
    },
  };
  assert.deepEqual(describe({ code: -32000, message: 'Authentication required' }, source), {
    login: true,
    text: [
      "agent 'claude' answered session/new with an error: Authentication required",
      "  → Subscription (Use it): run `A='b c' AGENT --cli 'auth login'` in a terminal",
      '  → Console: run `/usr/bin/node x.js` in a terminal',
      '  → API key: set KEY in the environment of the agent (see https://keys.example)',
      '  → Google: choose this login in your editor, or type /login in `conductor try`',
      '  → more: conductor errors login-required',
    ].join('\n'),
  });
  const own = {
    code: -32603,
    message: "agent 'x' exited; fix it [more: conductor errors crashed]",
    data: { remedy: 'fix it', lastWords: ['at a', 'boom'] },
  };
  assert.equal(
    describe(own, source).text,
    "agent 'x' exited\n  at a\n  boom\n  → fix it\n  → more: conductor errors crashed",
  );
  const remedy = (code, message) =>
    describe({ code, message }, { agent: '', request: 'session/prompt', greeting: null }).text;
  assert.match(remedy(-32601, 'Method not found'), /does not support session\/prompt/);
  assert.match(remedy(-32603, 'fetch failed'), /network/);
  assert.match(remedy(-32603, '429 Too Many Requests'), /wait/);
  assert.doesNotMatch(remedy(-32603, 'FileNotFoundError'), /network/);
});

test('secrets in data are hidden', () => {
  assert.deepEqual(
    withoutSecrets({
      apiKey: 'x',
      maxTokens: 5,
      tokens: 7,
      a: [{ name: 'API_KEY', value: 'y' }],
      env: { PATH: 'z' },
      other: 'w',
    }),
    { apiKey: '…', maxTokens: 5, tokens: 7, a: [{ name: 'API_KEY', value: '…' }], env: { PATH: '…' }, other: 'w' },
  );
});

test('every form of a setting is read, and set with its own request', () => {
  const settings = settingsOf({
    modes: { currentModeId: 'ask', availableModes: [{ id: 'ask', name: 'Ask' }, { id: 'code' }] },
    models: { currentModelId: 'm1', availableModels: [{ modelId: 'm1', name: 'Large' }] },
    configOptions: [
      {
        id: 'effort',
        name: 'Effort',
        category: 'thought_level',
        currentValue: 'low',
        options: [{ options: [{ value: 'low' }, { value: 'high' }] }],
      },
      { configId: 'fast', name: 'Fast', type: 'boolean', currentValue: true },
    ],
  });
  assert.deepEqual(
    settings.map((it) => [it.id, it.current, it.values.length]),
    [
      ['effort', 'low', 2],
      ['fast', true, 2],
      ['mode', 'ask', 2],
      ['model', 'm1', 1],
    ],
  );
  assert.deepEqual(settingRequest(settings[2], 's', 'code'), ['session/set_mode', { sessionId: 's', modeId: 'code' }]);
  assert.deepEqual(settingRequest(settings[3], 's', 'm1'), ['session/set_model', { sessionId: 's', modelId: 'm1' }]);
  assert.deepEqual(settingRequest(settings[0], 's', 'high'), [
    'session/set_config_option',
    { sessionId: 's', configId: 'effort', value: 'high' },
  ]);
  assert.equal(settingRequest(settings[1], 's', false)[1].type, 'boolean');
});

test('an id stands for everything that earlier updates said', () => {
  const calls = new ToolCalls();
  calls.update({ toolCallId: 't', title: 'Edit', rawInput: { path: '/a' }, status: 'pending', content: [1] });
  calls.update({ sessionUpdate: 'tool_call_update', toolCallId: 't', title: null, content: [] });
  assert.deepEqual(calls.complete({ toolCallId: 't', status: 'in_progress' }), {
    toolCallId: 't',
    title: 'Edit',
    rawInput: { path: '/a' },
    status: 'in_progress',
    content: [1],
  });
  calls.clear();
  assert.deepEqual(calls.complete({ toolCallId: 't' }), { toolCallId: 't' });
});

test('texts of the agent are shortened and counted', () => {
  assert.equal(usageOf({ used: 12_400, size: 200_000 }), '12,400 of 200,000 tokens (6 %)');
  assert.equal(usageOf({ used: 1, size: 0 }), null);
  assert.deepEqual(commandsOf([{ name: '//go', input: { hint: 'x' } }, {}, null]), [
    { name: 'go', about: '', hint: 'x' },
  ]);
  assert.equal([...titleOf(`\n ${'🎉'.repeat(90)}\nmore`)].length, 80);
  assert.match(shorten('ä'.repeat(200_000)), /^ä+\n… 137856 more bytes$/);
  assert.equal(shorten('ä'.repeat(131_072)).length, 131_072);
});

test('edits are made at the positions of the text before', () => {
  const text = 'äb🎉d\r\nsecond\n';
  const edit = (start, end, new_text) => ({
    start: { line: start[0], column: start[1] },
    end: end && { line: end[0], column: end[1] ?? null },
    new_text,
  });
  assert.equal(applyEdits(text, [edit([2, 1], [2, 7], 'zwei'), edit([1, 2], [1, 4], 'X')]), 'äXd\r\nzwei\n');
  assert.equal(applyEdits(text, [edit([1, 3], null, '')]), 'äb\r\nsecond\n');
  assert.equal(applyEdits(text, [edit([3, 1], null, 'third')]), `${text}third`);
  assert.equal(applyEdits('', [edit([1, 1], null, 'new')]), 'new');
  assert.equal(
    applyEdits(text, [{ start: { line: 1, column: null }, end: { line: 2, column: null }, new_text: 'one' }]),
    'one\n',
  );
  for (const [edits, why] of [
    [[edit([3, 1], null, '')], /line 3 does not exist: the file has 2 lines/],
    [[edit([0, 1], null, '')], /line 0/],
    [[edit([1, 4], null, '')], /line 1 has no column 4: the last one is 3/],
    [[edit([1, 0], null, '')], /column 0/],
    [[edit([2, 1], [1, 1], '')], /before the start/],
    [[edit([1, 1], [1, 0], '')], /column 0/],
    [[edit([1, 1], [1, 3], ''), edit([1, 2], [2, 1], '')], /overlap/],
  ])
    assert.throws(() => applyEdits('ab\ncd', edits), why);
});

test('the last part of an output is kept, with whole characters', () => {
  const output = (limit, ...chunks) => {
    const it = new TerminalOutput(limit);
    for (const chunk of chunks) it.push(Buffer.from(chunk));
    return it;
  };
  assert.deepEqual(output(10, 'short').text(), { text: 'short', truncated: false });
  assert.deepEqual(output(4, 'aöüß').text(), { text: 'üß', truncated: true });
  assert.deepEqual(output(3, 'aöüß').text(), { text: 'ß', truncated: true });
  assert.deepEqual(output(0, 'x').text(), { text: '', truncated: true });
  const long = output(101, 'ä'.repeat(100_000)).text();
  assert.deepEqual([Buffer.byteLength(long.text), long.truncated], [100, true]);
  assert.ok(Buffer.byteLength(output(10, Buffer.alloc(10, 0xff)).text().text) <= 10);
  for (const character of ['ä', '€', '😀']) {
    const bytes = Buffer.from(character);
    for (let length = 1; length < bytes.length; length += 1) {
      const it = output(100, 'abc', bytes.subarray(0, length));
      assert.equal(it.text().text, 'abc', `${character} ${length}`);
      it.push(bytes.subarray(length));
      assert.equal(it.text().text, `abc${character}`);
    }
  }
});

test('parts of files are read', async (t) => {
  const folder = project(t, {
    'a.txt': 'one\r\ntwo\nthree',
    'b.txt': 'one\ntwo\n',
    empty: '',
    'z.bin': Buffer.from([0xff, 0]),
  });
  const { readTextFile: read } = filesIn(folder);
  const at = (name, options = {}) => read(join(folder, name), options);
  assert.equal(await at('a.txt'), 'one\r\ntwo\nthree');
  assert.equal(await at('a.txt', { line: 2 }), 'two\nthree');
  assert.equal(await at('a.txt', { line: 0, limit: 1 }), 'one\r\n');
  assert.equal(await at('a.txt', { line: 2, limit: 1 }), 'two\n');
  assert.equal(await at('a.txt', { limit: 0 }), '');
  assert.equal(await at('a.txt', { line: 3, limit: 9 }), 'three');
  assert.equal(await at('b.txt', { line: 3 }), '');
  assert.equal(await at('a.txt', { line: 4 }), '');
  await assert.rejects(at('b.txt', { line: 4 }), /from line 4: the file has 2 lines/);
  await assert.rejects(at('a.txt', { line: 5 }), /from line 5: the file has 3 lines/);
  assert.equal(await at('empty', { line: 1 }), '');
  await assert.rejects(at('empty', { line: 3 }), /the file has 0 lines/);
  await assert.rejects(at('z.bin'), /not UTF-8 text/);
  await assert.rejects(read(folder, {}), /is a directory/);
  await assert.rejects(
    at('none'),
    (error) => error.code === -32002 && /^Resource not found: .*No such file/.test(error.message),
  );
  const lines = Array.from({ length: 200_000 }, (_, count) => `line ${count + 1}\n`).join('');
  writeFileSync(join(folder, 'long'), lines);
  assert.equal(await at('long', { line: 150_000, limit: 2 }), 'line 150000\nline 150001\n');
  writeFileSync(join(folder, 'huge'), 'x'.repeat(10 * 1024 * 1024 + 1));
  await assert.rejects(at('huge'), /larger than 10 MiB; use `line` and `limit`/);
  await assert.rejects(at('huge', { line: 1 }), /larger than 10 MiB/);
});

test('files are written whole, with their mode, and without leftovers', async (t) => {
  const folder = project(t, { 'a.sh': 'old' });
  const { writeTextFile: write } = filesIn(folder);
  chmodSync(join(folder, 'a.sh'), 0o755);
  await write(join(folder, 'a.sh'), 'new ä');
  assert.equal(readFileSync(join(folder, 'a.sh'), 'utf8'), 'new ä');
  assert.equal(statSync(join(folder, 'a.sh')).mode & 0o777, 0o755);
  await write(join(folder, 'x/y/z.txt'), 'z');
  await assert.rejects(write(join(folder, 'x'), 'z'), /not a regular file/);
  assert.deepEqual(readdirSync(folder).sort(), ['a.sh', 'x']);
  assert.ok(existsSync(join(folder, 'x/y/z.txt')));
});

test('folders are listed, files are found, and none outside', async (t) => {
  const outside = project(t, { secret: 's' });
  const folder = project(t, {
    'src/Router.ts': 'x',
    'src/main.ts': 'x',
    'target/router.ts': 'x',
    '.gitignore': 'target\n*.log\n',
    '.git/config': 'x',
    'z.bin': Buffer.from([0, 159, 146, 150]),
    'B.txt': '',
    'a.txt': 'text',
  });
  symlinkSync(outside, join(folder, 'link'));
  const files = filesIn(folder);
  assert.deepEqual(
    (await files.listFiles('')).map((it) => it.name),
    ['link', 'src', 'target', '.gitignore', 'a.txt', 'B.txt', 'z.bin'],
  );
  assert.deepEqual(await files.findFiles('router'), ['src/Router.ts']);
  assert.deepEqual(await files.findFiles('srmn'), ['src/main.ts']);
  assert.deepEqual(await files.readFile('a.txt'), { path: 'a.txt', text: 'text', note: null });
  assert.equal((await files.readFile('z.bin')).note, 'The file is not text.');
  for (const path of ['../x', '/etc/passwd', 'link/secret', 'file:///etc/passwd', 'https://x.example/a']) {
    await assert.rejects(files.readFile(path), /outside of the folder|use a file URL/, path);
  }
  await assert.rejects(files.listFiles('..'), /outside/);
  await assert.rejects(files.readFile('none'), /No such file/);
  assert.equal(await files.isInside(join(folder, 'new/file')), true);
  assert.equal(await files.isInside(join(folder, 'link/secret')), false);
});

test('an editor declares what it provides', () => {
  const all = capabilitiesOf({
    readTextFile: async () => '',
    writeTextFile: async () => {},
    panels: true,
    comments: true,
    edits: true,
    terminals: true,
  });
  assert.deepEqual(all.fs, { readTextFile: true, writeTextFile: true });
  assert.deepEqual(all._meta.symposium, {
    version: '1.1',
    html_panel: true,
    file_comment: true,
    ide_operation: ['apply-edit'],
  });
  assert.equal(capabilitiesOf({ edits: true })._meta.symposium, undefined, 'edits need files');
});
