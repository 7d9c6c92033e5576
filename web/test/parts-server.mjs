// Serves a test build with parts.html, with the headers of the real server.
import { createServer } from 'node:http';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const web = fileURLToPath(new URL('..', import.meta.url));
const types = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.css': 'text/css' };
export const csp = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
  + "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
  + "trusted-types 'none'";

/** Builds the parts once, and serves them. `close()` removes everything. */
export async function startParts() {
  const folder = mkdtempSync(join(tmpdir(), 'conductor-parts-'));
  execFileSync(process.execPath, ['build.mjs', '--parts', '--out', folder], { cwd: web, stdio: 'ignore' });
  const server = createServer((request, response) => {
    const path = new URL(request.url, 'http://x').pathname.replace(/^\/assets\//, '/');
    try {
      const body = readFileSync(join(folder, path.replaceAll('..', '')));
      response.writeHead(200, { 'content-type': types[extname(path)] ?? 'text/plain', 'content-security-policy': csp });
      response.end(body);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  return {
    url: `http://127.0.0.1:${server.address().port}/parts.html`,
    close: async () => {
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
