// Loads a module of src/, with a VS Code that the test makes if the module uses it.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from 'esbuild';

const root = join(import.meta.dirname, '../..');

/** The module `vscode` is what the test has put there. */
const standIn = {
  name: 'vscode',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^vscode$/ }, ({ path }) => ({ path, namespace: 'vscode' }));
    onLoad({ filter: /./, namespace: 'vscode' }, () => ({ contents: 'module.exports = globalThis.vscodeOfTest;' }));
  },
};

/** The exports of `src/NAME.ts`. */
export async function load(name, vscode = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'conductor-units-'));
  try {
    const outfile = join(folder, `${name}.mjs`);
    await build({
      absWorkingDir: root, entryPoints: [`src/${name}.ts`], outfile, bundle: true, platform: 'node', format: 'esm',
      logLevel: 'error', plugins: [standIn],
    });
    globalThis.vscodeOfTest = vscode;
    return await import(pathToFileURL(outfile).href);
  } finally {
    rmSync(folder, { recursive: true });
  }
}
