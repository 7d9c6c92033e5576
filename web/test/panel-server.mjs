// A small server for the tests of panels: built files with the headers of the program; and an enemy that counts requests.
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const web = join(dirname(fileURLToPath(import.meta.url)), '..');
const kinds = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript; charset=utf-8', '.css': 'text/css; charset=utf-8' };

/** Builds the pages with these options into a temporary folder. */
export async function buildPages(...options) {
  // These files are new. Others must not take their place.
  delete process.env.CONDUCTOR_TEST_DIST;
  const folder = await mkdtemp(join(tmpdir(), 'conductor-panels-'));
  await promisify(execFile)(process.execPath, [join(web, 'build.mjs'), '--out', folder, '--parts', ...options]);
  return { folder, remove: () => rm(folder, { recursive: true, force: true }) };
}

/** The headers of `conductor studio`, or none of them. */
function headers(path, host, safe) {
  if (!safe) return {};
  const common = { 'x-content-type-options': 'nosniff', 'referrer-policy': 'no-referrer', 'cache-control': 'no-store' };
  if (path === '/panel/frame.html') {
    return { ...common, 'content-security-policy': `sandbox allow-scripts; default-src 'none'; script-src http://${host}/panel/frame.js; style-src http://${host}/panel/frame.css; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'; require-trusted-types-for 'script'; trusted-types dompurify` };
  }
  if (path === '/panel/diagram.html') {
    return { ...common, 'content-security-policy': `sandbox allow-scripts; default-src 'none'; script-src http://${host}/panel/diagram.js http://${host}/panel/mermaid.js; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'` };
  }
  if (path.startsWith('/panel/')) return common;
  return {
    ...common, 'cross-origin-opener-policy': 'same-origin', 'cross-origin-resource-policy': 'same-origin',
    'permissions-policy': 'camera=(), microphone=(), geolocation=(), usb=(), serial=(), clipboard-read=()',
    'content-security-policy': "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
  };
}

/** Serves built files: `/panel-test`, `/assets/NAME`, `/panel/NAME`. `extra` has texts by path. */
export function servePages(folder, { safe = true, extra = {} } = {}) {
  return listen(async (request, response) => {
    const path = new URL(request.url, 'http://x').pathname;
    if (path === '/favicon.ico') {
      response.writeHead(204).end();
      return;
    }
    if (Object.hasOwn(extra, path)) {
      response.writeHead(200, { 'content-type': kinds['.html'] }).end(extra[path]);
      return;
    }
    const name = path === '/panel-test' ? 'panel-test.html' : path === '/studio' ? 'studio.html' : path.replace(/^\/(assets\/)?/, '');
    const file = join(folder, normalize(`/${name}`));
    if (!existsSync(file) || !kinds[extname(file)]) {
      response.writeHead(404).end();
      return;
    }
    const type = kinds[extname(file)];
    response.writeHead(200, { 'content-type': type, ...headers(path, request.headers.host, safe) }).end(await readFile(file));
  });
}

/** A server that nobody may reach. It answers everything, so that a hole would be used fully. */
export async function serveEnemy() {
  const requests = [];
  const server = await listen((request, response) => {
    requests.push(`${request.method} ${request.url}`);
    const type = request.url.includes('.js') ? kinds['.js'] : request.url.includes('.css') ? kinds['.css'] : kinds['.html'];
    response.writeHead(200, { 'content-type': type, 'access-control-allow-origin': '*' }).end('');
  });
  server.server.on('upgrade', (request, socket) => {
    requests.push(`UPGRADE ${request.url}`);
    socket.destroy();
  });
  return { ...server, requests };
}

function listen(handler) {
  const server = createServer(handler);
  return new Promise((done) => {
    server.listen(0, '127.0.0.1', () => {
      const origin = `http://127.0.0.1:${server.address().port}`;
      const close = () => new Promise((closed) => {
        server.closeAllConnections();
        server.close(closed);
      });
      done({ server, origin, close });
    });
  });
}
