// The program `conductor`: where it is looked for, its version, and what is said if it is missing.
import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { load } from './load.mjs';

const { candidates, configurationIn, findConductor, isAtLeast, versionOf } = await load('program');

/** A home with a program that prints something. */
function home(t, files) {
  const folder = mkdtempSync(join(tmpdir(), 'conductor-home-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  for (const [name, output] of Object.entries(files)) {
    const path = join(folder, name);
    mkdirSync(join(path, '..'), { recursive: true });
    writeFileSync(path, `#!/bin/sh\n${output}\n`);
    chmodSync(path, 0o755);
  }
  return { folder, around: { env: { PATH: join(folder, 'path') }, platform: 'linux', home: folder } };
}

test('the PATH comes first, then the usual folders', () => {
  const list = candidates('conductor', { env: { PATH: '/a:/b:relative:/a' }, platform: 'linux', home: '/h' });
  assert.deepEqual(list.slice(0, 5), ['/a', '/b', '/h/.cargo/bin', '/h/.local/bin', '/usr/local/bin'].map((it) => `${it}/conductor`));
});

test('versions are compared by their numbers', () => {
  assert.equal(versionOf('conductor 0.12.3\ncommit abc\n'), '0.12.3');
  assert.equal(versionOf('something else 1.0.0'), null);
  const newer = [['0.1.0', '0.1.0'], ['0.10.0', '0.9.9'], ['1.0.0-rc.1', '0.9.0']];
  for (const [version, least] of newer) assert.ok(isAtLeast(version, least), `${version} and ${least}`);
  assert.equal(isAtLeast('0.0.9', '0.1.0'), false);
});

test('the program is found in the PATH, in the home, and by the setting', async (t) => {
  const { folder, around } = home(t, {
    '.local/bin/conductor': 'echo conductor 0.1.0', 'path/conductor': 'echo conductor 0.2.0', 'mine/c': 'echo conductor 0.3.0',
  });
  assert.deepEqual(await findConductor('', around), { path: join(folder, 'path/conductor'), version: '0.2.0' });
  assert.deepEqual(await findConductor('~/mine/c', around), { path: join(folder, 'mine/c'), version: '0.3.0' });
  assert.deepEqual(await findConductor('', { ...around, env: { PATH: '' } }), {
    path: join(folder, '.local/bin/conductor'), version: '0.1.0',
  });
});

test('what is wrong with the program is named', async (t) => {
  const { folder, around } = home(t, { 'old/c': 'echo conductor 0.0.1', 'other/c': 'echo hello', 'broken/c': 'exit 3' });
  const problem = async (setting) => (await findConductor(setting, around)).problem;
  assert.match(await problem(join(folder, 'old/c')), /conductor 0\.0\.1 .* is too old/);
  assert.match(await problem(join(folder, 'other/c')), /another program/);
  assert.match(await problem(join(folder, 'broken/c')), /--version' has failed/);
  assert.match(await problem(join(folder, 'none')), /names no program/);
  // The system refuses it at once: a file is no folder.
  writeFileSync(join(folder, 'wrong'), '#!/dev/null/sh\n', { mode: 0o755 });
  assert.match(await problem(join(folder, 'wrong')), /--version' has failed: .*ENOTDIR/);
  assert.match(await problem('some/relative'), /absolute/);
  assert.match(await problem('conductor-that-is-nowhere'), /not in the PATH/);
});

test('the chains of the configuration are those of the folder, and an older program has none', async (t) => {
  const { folder } = home(t, {
    new: `[ "$*" = 'chain list --json' ] || exit 2
printf '{"chains":[{"name":"%s","components":["%s"],"agentCommand":"x"}]}' "$NAME" "$(basename "$PWD")"`,
    old: "echo \"error: unrecognized subcommand 'chain'\" >&2; exit 2",
    'project/file': '',
  });
  const place = { folder: join(folder, 'project'), env: { ...process.env, NAME: 'work' } };
  const none = { chains: [], usual: null, problems: [] };
  assert.deepEqual(await configurationIn(join(folder, 'new'), place), {
    ...none, chains: [{ name: 'work', components: ['project'], configured: { agentCommand: 'x' } }],
  });
  assert.deepEqual(await configurationIn(join(folder, 'old'), place), none);
  // The system starts neither a program that is gone, nor one with such a variable.
  for (const [path, env] of [['none', {}], ['new', { NAME: 'a\0b' }]]) {
    const { chains, problems } = await configurationIn(join(folder, path), { ...place, env });
    assert.deepEqual(chains, []);
    assert.match(problems.join(), /^The configuration of conductor could not be read: /);
  }
});

test('a mistake in the configuration is shown with its place', async (t) => {
  const { folder } = home(t, { wrong: `cat >&2 <<'END'
conductor: unknown key \`x\`
 --> /home/me/.config/conductor/conductor.toml:3:1
  |
3 | x = "work"
  | ^
  |
  = help: the keys here are a, b [more: conductor errors invalid-configuration]
END
exit 1` });
  const { problems } = await configurationIn(join(folder, 'wrong'), { folder, env: process.env });
  assert.deepEqual(problems, [
    'The configuration of conductor has a mistake: unknown key `x` (/home/me/.config/conductor/conductor.toml:3:1)',
  ]);
});
