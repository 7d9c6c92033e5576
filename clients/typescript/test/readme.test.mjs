// The example of the README works as it stands.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import test from 'node:test';
import { build } from 'esbuild';
import { conductor, environment, project } from './help.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));

test('the example of the README', async (t) => {
  const readme = readFileSync(join(root, 'README.md'), 'utf8');
  const [, example] = /```js\n(.*?)```/s.exec(readme);
  assert.ok(example.trim().split('\n').length <= 25);
  const folder = project(t, { 'example.mjs': example, 'a.txt': 'one\n' });
  // The package, and a PATH with the program.
  mkdirSync(join(folder, 'node_modules/acp-conductor-client'), { recursive: true });
  mkdirSync(join(folder, 'bin'));
  symlinkSync(conductor, join(folder, 'bin/conductor'));
  await build({
    absWorkingDir: root,
    entryPoints: ['src/index.ts'],
    outfile: join(folder, 'node_modules/acp-conductor-client/index.mjs'),
    bundle: true,
    format: 'esm',
    platform: 'node',
  });
  const about = { name: 'acp-conductor-client', exports: './index.mjs' };
  writeFileSync(join(folder, 'node_modules/acp-conductor-client/package.json'), JSON.stringify(about));
  const env = environment(project(t));
  env.PATH = join(folder, 'bin') + delimiter + env.PATH;
  const run = (...words) => promisify(execFile)(process.execPath, ['example.mjs', ...words], { cwd: folder, env });
  assert.match((await run()).stdout, /^Hello! .*You said “hello”.*\nThe turn has ended: end_turn\n$/s);
  assert.match((await run('edit a.txt')).stdout, /\nThe turn has ended: end_turn\n$/);
  assert.equal(readFileSync(join(folder, 'a.txt'), 'utf8'), 'one\n', 'it allows nothing');
});

test('the packed package has its code, its types and its licence', async () => {
  const words = ['pack', '--dry-run', '--json', '--ignore-scripts'];
  const { stdout } = await promisify(execFile)('npm', words, { cwd: root });
  const [{ files }] = JSON.parse(stdout);
  const names = files.map((it) => it.path);
  const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const named = Object.values(exports).flatMap((it) => Object.values(it)).map((it) => it.replace('./', ''));
  for (const name of ['LICENSE', 'README.md', ...named]) assert.ok(names.includes(name), name);
});
