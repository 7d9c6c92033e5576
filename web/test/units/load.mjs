// Builds a TypeScript module and imports it, for unit tests in Node without a browser.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { rolldown } from 'rolldown';

const source = fileURLToPath(new URL('../../src/', import.meta.url));
const link = fileURLToPath(new URL('../../../clients/typescript/src/link/index.ts', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'conductor-web-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
let count = 0;

/** Imports modules of src/ as one bundle, so that they share their state: `load('link/store.ts', 'link/fake.ts')`. */
export async function load(...modules) {
  const code = modules.map((name) => `export * from ${JSON.stringify(join(source, name))};`).join('\n');
  const bundle = await rolldown({
    input: 'entry.ts',
    cwd: source,
    logLevel: 'silent',
    resolve: { alias: { 'acp-conductor-client/link': link } },
    transform: { jsx: { runtime: 'automatic', importSource: 'preact' } },
    plugins: [{
      name: 'entry',
      resolveId: (id) => (id === 'entry.ts' ? join(source, 'entry.ts') : null),
      load: (id) => (id === join(source, 'entry.ts') ? code : id.endsWith('.css') ? { code: '', moduleType: 'js' } : null),
    }],
  });
  const file = join(folder, `${count += 1}.mjs`);
  await bundle.write({ file, format: 'esm', codeSplitting: false });
  await bundle.close();
  return import(pathToFileURL(file).href);
}
