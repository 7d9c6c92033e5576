// Runs the tests in `host/` inside the extension host of a real VS Code, and reports each of them.

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DEADLINE, extension, openWindow, project, startServer, until } from './harness.mjs';

const here = import.meta.dirname;

/** Runs files of `host/` on a project. Returns a result for each test. The other options are those of `startServer`. */
export async function runInHost(t, { files, project: content, ...more }) {
  const folder = await project({ t, files: content });
  const results = join(await project({ t }), 'results.jsonl');
  const server = await startServer({
    ...more, t, load: 'none', args: ['--vscode-option', 'enable-smoke-test-driver'],
    env: {
      ...more.env, CONDUCTOR_HOST_RESULTS: results, CONDUCTOR_HOST_OPTIONS: JSON.stringify({ files, folder }),
    },
  });
  const { host } = new URL(server.url);
  const remote = (path) => `vscode-remote://${host}${path}`;
  const payload = [['extensionDevelopmentPath', remote(extension)], ['extensionTestsPath', remote(join(here, 'host/index.cjs'))]];
  let said = '';
  let code;
  const window = await openWindow(server, {
    t, folder, ready: null, query: `&payload=${encodeURIComponent(JSON.stringify(payload))}`,
    expose: {
      codeAutomationLog: (kind, values) => { said += `${kind}: ${values.map(String).join(' ')}\n`; },
      codeAutomationExit: (status) => { code = status; },
    },
  });
  const lines = () => (existsSync(results) ? readFileSync(results, 'utf8').split('\n').slice(0, -1).map((it) => JSON.parse(it)) : []);
  try {
    // A test that hangs is found by the deadline of the next result.
    for (let known = -1; code === undefined && lines().length > known;) {
      known = lines().length;
      await until(() => code !== undefined || lines().length > known, `the end of an in-host test after ${known} others`, 3 * DEADLINE);
    }
  } catch (error) {
    await window.explain(t.name);
    throw new Error(`${error.message}\n${said}`, { cause: error });
  }
  if (lines().some((it) => it.error)) await window.explain(t.name);
  if (code !== 0 || !lines().at(-1)?.ended) throw new Error(`the tests in the host have not ended well (${code}):\n${said}`);
  await window.close();
  return lines().filter((it) => !it.ended);
}

/** Reports the results as tests of `t`. */
export async function report(t, results) {
  for (const { name, file, took, error } of results) {
    await t.test(`${file}: ${name} (${took} ms)`, () => { if (error) throw new Error(error); });
  }
}
