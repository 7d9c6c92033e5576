// Serves the pages of the VS Code extension, with the HTML and the policy that the extension writes, inside of a played
// VS Code (`vscode-host.ts`).
import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { open } from './harness.mjs';
import { themes } from './vscode-themes.mjs';

const web = join(dirname(fileURLToPath(import.meta.url)), '..');
const kinds = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript; charset=utf-8', '.css': 'text/css; charset=utf-8' };
const nonce = 'r4nd0m';

/** The policy of `src/vscode/api.ts`. `source` stands for `webview.cspSource`. */
export function policy(source) {
  return `default-src 'none'; script-src 'nonce-${nonce}'; style-src ${source} 'unsafe-inline'; img-src ${source} data:; `
    + `font-src ${source}; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; `
    + 'trusted-types conductor dompurify default';
}

/** The HTML of `src/vscode/api.ts`. */
export function html(name, origin, place) {
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy(origin)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Conductor</title>
<link rel="stylesheet" href="${origin}/${name}.css">
</head>
<body data-place="${place}">
<div id="root"></div>
<script nonce="${nonce}" src="${origin}/${name}.js" data-mermaid="${origin}/mermaid.js"></script>
</body>
</html>`;
}

const outer = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>VS Code</title>
<style>html, body { height: 100%; margin: 0; overflow: hidden; } iframe { display: block; width: 100%; height: 100%; border: 0; }</style>
<script src="/vscode-host.js"></script></head><body></body></html>`;

/** Builds the pages with these options, and serves them. `close()` removes everything. */
export async function startVsCode(...options) {
  const folder = await mkdtemp(join(tmpdir(), 'conductor-vscode-'));
  await promisify(execFile)(process.execPath, [join(web, 'build.mjs'), '--vscode', folder, '--parts', ...options]);
  const server = createServer((request, response) => {
    const path = new URL(request.url, 'http://x').pathname;
    const file = join(folder, path.replaceAll('..', ''));
    if (path === '/favicon.ico') response.writeHead(204).end();
    else if (path === '/' || path === '/fake.html') {
      response.writeHead(200, { 'content-type': kinds['.html'] }).end(path === '/' ? outer : '<!doctype html><title>x</title>');
    } else if (existsSync(file) && kinds[extname(file)]) {
      response.writeHead(200, { 'content-type': kinds[extname(file)], 'x-content-type-options': 'nosniff' }).end(readFileSync(file));
    } else response.writeHead(404).end();
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const origin = `http://127.0.0.1:${server.address().port}`;
  return {
    origin,
    folder,
    close: async () => {
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Opens a page of the extension. `host` calls what the played VS Code can do: `host('begin', 'done')`. */
export async function openPage(server, name, { t, state, theme = 'dark', place = 'sidebar', begin, ...options } = {}) {
  const page = await open(server.origin, { t, ...options });
  const host = (method, ...values) => page.evaluate(([called, args]) => window.host[called](...args), [method, values]);
  await host('setTheme', themes[theme]);
  await begin?.(host, page);
  if (state) await host('begin', state);
  const shown = html(name, server.origin, place);
  const show = async () => {
    await host('show', shown);
    return frameOf(page);
  };
  return {
    page, host, show, html: shown, frame: await show(),
    /** Does what sends this many messages to the page, and waits until it has handled them. */
    handled: async (count, send) => {
      const frame = await frameOf(page);
      // After the listeners of the page, which are older.
      await frame.evaluate(() => {
        window.handled = 0;
        addEventListener('message', () => { window.handled += 1; });
      });
      const result = await send();
      await frame.waitForFunction((all) => window.handled >= all, count);
      return result;
    },
    /** What the page has posted, without the messages of the link. */
    posted: () => page.evaluate(() => window.host.posted.filter((message) => !('link' in message))),
    asked: (op) => page.evaluate((name) => window.host.asked.filter((action) => action.op === name), op),
  };
}

/** The document of the extension. */
async function frameOf(page) {
  return (await page.waitForSelector('#active-frame')).contentFrame();
}
