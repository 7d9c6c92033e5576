// Loads a module of src/ that does not use VS Code.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from 'esbuild';

const root = join(import.meta.dirname, '../..');

/** The exports of `src/NAME.ts`. */
export async function load(name) {
  const folder = mkdtempSync(join(tmpdir(), 'conductor-units-'));
  try {
    const outfile = join(folder, `${name}.mjs`);
    await build({
      absWorkingDir: root, entryPoints: [`src/${name}.ts`], outfile, bundle: true, platform: 'node', format: 'esm',
      logLevel: 'error',
    });
    return await import(pathToFileURL(outfile).href);
  } finally {
    rmSync(folder, { recursive: true });
  }
}
