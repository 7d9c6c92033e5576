// The scenarios of clients/typescript, played in a real VS Code.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { root } from './harness.mjs';

process.env.CONDUCTOR_SCENARIO_TARGETS = join(import.meta.dirname, 'scenario/vscode.mjs');
const folder = join(root, 'clients/typescript/scenarios');
for (const name of readdirSync(folder).sort()) {
  await import(pathToFileURL(join(folder, name, `${name}.test.mjs`)).href);
}
