// Builds dist/: bundles of JavaScript, and the declarations of their types.
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const folder = fileURLToPath(new URL('.', import.meta.url));
rmSync(`${folder}dist`, { recursive: true, force: true });
await build({
  absWorkingDir: folder,
  entryPoints: {
    index: 'src/index.ts', link: 'src/link/index.ts', events: 'src/events.ts', scenario: 'src/scenario/index.ts',
    'scenario/agent': 'src/scenario/agent.ts', 'scenario/proxy': 'src/scenario/proxy.ts',
  },
  outdir: 'dist',
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node20',
  packages: 'external',
});
const tsc = `${folder}node_modules/typescript/bin/tsc`;
execFileSync(process.execPath, [tsc, '-p', folder], { cwd: folder, stdio: 'inherit' });

// Node's way to find modules needs whole names; the sources leave the endings out.
for (const entry of readdirSync(`${folder}dist`, { recursive: true, withFileTypes: true })) {
  const file = join(entry.parentPath, entry.name);
  if (!entry.name.endsWith('.d.ts')) continue;
  const named = readFileSync(file, 'utf8').replace(/(from |import\()(['"])(\.\.?\/[^'"]*|\.\.?)\2/g, (_, before, quote, name) => {
    const isFile = existsSync(join(entry.parentPath, `${name}.d.ts`));
    return `${before}${quote}${isFile ? `${name}.js` : `${name}/index.js`}${quote}`;
  });
  writeFileSync(file, named);
}
