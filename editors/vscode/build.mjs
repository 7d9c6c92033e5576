// Builds the extension: dist/extension.js from src/, dist/client.js from the client library, the pages in media/ from web/,
// and a list of the licences of what they contain.
//
//   node build.mjs                     everything
//   node build.mjs --no-web            only the scripts in dist/
//   node build.mjs --package OUT.vsix  also packages them (vsce needs Node 22)
//   --readable                         does not minify, for debugging
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { licences } from './licences.mjs';

const root = dirname(fileURLToPath(import.meta.url));
const client = join(root, '../../clients/typescript');
const web = join(root, '../../web');
const { vsix, pages, readable } = options(process.argv.slice(2));

for (const folder of pages ? [client, web] : [client]) {
  if (!existsSync(join(folder, 'node_modules'))) {
    fail(`${relative(root, folder)} has no packages: run \`npm ci --ignore-scripts\` there first.`);
  }
}
rmSync(join(root, 'dist'), { recursive: true, force: true });
const common = {
  absWorkingDir: root,
  bundle: true,
  platform: 'node',
  format: 'cjs',
  target: 'node20',
  minify: !readable,
  legalComments: 'none',
  define: { 'process.env.NODE_ENV': '"production"' },
};
await build({
  ...common,
  entryPoints: ['src/extension.ts'],
  outfile: 'dist/extension.js',
  external: ['vscode'],
  plugins: [libraryApart()],
  // `require`, as VS Code loads extensions.
  supported: { 'dynamic-import': false },
});
await build({ ...common, entryPoints: [join(client, 'src/index.ts')], outfile: 'dist/client.js' });
if (pages) {
  rmSync(join(root, 'media'), { recursive: true, force: true });
  run(process.execPath, ['build.mjs', '--vscode', join(root, 'media')], web);
  writeFileSync(join(root, 'dist/THIRD-PARTY-LICENSES.txt'), licences(client, web));
}
for (const folder of ['dist', 'media']) {
  for (const file of files(join(root, folder))) {
    console.log(`${String(statSync(file).size).padStart(9)}  ${relative(root, file)}`);
  }
}
if (vsix) {
  const vsce = join(root, 'node_modules/@vscode/vsce/vsce');
  run(process.execPath, [vsce, 'package', '--no-dependencies', '--out', vsix], root);
  console.log(`${String(statSync(vsix).size).padStart(9)}  ${vsix}`);
}

function options(words) {
  let vsix = null;
  const flags = new Set();
  for (let i = 0; i < words.length; i++) {
    if (words[i] === '--package' && words[i + 1]) vsix = resolve(words[++i]);
    else if (words[i] === '--no-web' || words[i] === '--readable') flags.add(words[i]);
    else fail(`Unknown option ${words[i]}. Options: --package OUT.vsix, --no-web, --readable.`);
  }
  return { vsix, pages: !flags.has('--no-web'), readable: flags.has('--readable') };
}

/** The library is a file of its own. It is read when the first chain starts, so that the extension is active sooner. */
function libraryApart() {
  return {
    name: 'library-apart',
    setup(build) {
      build.onResolve({ filter: /^acp-conductor-client$/ }, () => ({ path: './client.js', external: true }));
    },
  };
}

function run(command, args, cwd) {
  const { status, error } = spawnSync(command, args, { cwd, stdio: 'inherit' });
  if (error || status !== 0) fail(`${command} ${args.join(' ')} has failed${error ? `: ${error.message}` : ''}`);
}

function fail(text) {
  console.error(text);
  process.exit(1);
}

function files(folder) {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
}
