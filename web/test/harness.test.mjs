// The harness finds what it promises to find.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { axe, fits, open, picture, project, startStudio, until } from './harness.mjs';

/** A server with one page. Returns its address. */
async function serve(t, html, headers = {}) {
  const server = createServer((request, answer) => {
    const known = request.url === '/';
    answer.writeHead(known ? 200 : 404, { 'content-type': 'text/html; charset=utf-8', ...headers });
    answer.end(known ? html : '');
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  t.after(() => new Promise((done) => { server.closeAllConnections(); server.close(done); }));
  return `http://127.0.0.1:${server.address().port}/`;
}

const good = `<!doctype html><html lang="en"><head><title>Plain</title><link rel="icon" href="data:,"></head>
  <body><main><h1>Plain</h1><p>A page.</p></main></body></html>`;

/** A page whose body makes the harness complain. */
const complaints = async (t, body, headers) => {
  const page = await open(await serve(t, good.replace('<p>A page.</p>', body), headers));
  await until(() => page.complaints.length > 0, 'a complaint');
  const { message } = await page.check().then(() => assert.fail('no complaint'), (error) => error);
  return message;
};

test('a plain page passes, and a picture of it is made', async (t) => {
  const page = await open(await serve(t, good), { t, width: 400, colorScheme: 'dark' });
  await axe(page);
  await fits(page);
  assert.equal(await page.evaluate(() => matchMedia('(prefers-color-scheme: dark)').matches), true);
  const picturePath = await picture(page, 'harness-plain');
  assert.equal((await readFile(picturePath)).subarray(1, 4).toString(), 'PNG');
});

test('a console error, an exception, a CSP violation and a foreign request fail a test', async (t) => {
  assert.match(await complaints(t, '<script>console.error("bad")</script>'), /console: bad/);
  assert.match(await complaints(t, '<script>throw new Error("thrown")</script>'), /exception: .*thrown/);
  const csp = { 'content-security-policy': "default-src 'none'" };
  assert.match(await complaints(t, '<p style="color:red">Red</p>', csp), /CSP violation: style-src-attr/);
  assert.match(await complaints(t, '<img alt="" src="http://example.com/a.png">'), /another host: http:\/\/example.com/);
  assert.match(await complaints(t, '<script>new WebSocket("ws://127.0.0.1:1/")</script>'), /WebSocket to another host/);
});

test('axe and the width are checked', async (t) => {
  const url = await serve(t, good.replace('<p>', '<img src="data:,"><p style="width:900px">'));
  const page = await open(url, { t, width: 400 });
  await assert.rejects(axe(page), /image-alt/);
  await assert.rejects(fits(page), /wider than its window/);
});

test('a project has its files, and a symlink', async (t) => {
  const folder = await project({ t, files: { 'src/a.txt': 'A', 'link.txt': { link: 'src/a.txt' } } });
  assert.equal(await readFile(`${folder}/link.txt`, 'utf8'), 'A');
});

const fake = async (t, script) => {
  const folder = await project({ t, files: { 'fake-conductor': `#!/bin/sh\n${script}\n` } });
  const { chmod } = await import('node:fs/promises');
  await chmod(`${folder}/fake-conductor`, 0o755);
  const before = process.env.CONDUCTOR_BIN;
  process.env.CONDUCTOR_BIN = `${folder}/fake-conductor`;
  t.after(() => { if (before === undefined) delete process.env.CONDUCTOR_BIN; else process.env.CONDUCTOR_BIN = before; });
};
const address = 'echo "Open http://127.0.0.1:7/studio#key=abc"';

test('the address of the studio is read from its output', async (t) => {
  await fake(t, `echo "$@"; ${address}; exec cat /dev/zero >/dev/null`);
  const studio = await startStudio({ chain: ['a', 'b'], cwd: '/tmp' });
  assert.equal(studio.url, 'http://127.0.0.1:7/studio#key=abc');
  assert.equal(studio.key, 'abc');
  assert.match(studio.log(), /studio --no-open --port 0 --cwd \/tmp -- a b/);
  await studio.stop();
});

test('a process that is left is found and killed', async (t) => {
  // The address is printed when the process has left its group, and not earlier.
  const started = `until [ "$(tr '\\0' ' ' </proc/$!/cmdline)" = "sleep 600 " ]; do :; done`;
  await fake(t, `setsid sleep 600 & ${started}; ${address}; wait`);
  // It never ends by itself.
  const studio = await startStudio({ leaves: 0 });
  await assert.rejects(studio.stop(), /sleep 600/);
});

test('a program that ends early is reported with its output', async (t) => {
  await fake(t, 'echo "no such chain" >&2; exit 3');
  await assert.rejects(startStudio(), /ended \(3\)[^]*no such chain/);
});
