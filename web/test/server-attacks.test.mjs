// Nobody but the page that has the key gets anything from the server: not other names, other sites, other users.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';
import { open, openStudio, project, soon, startStudio } from './harness.mjs';
import { connect, http, logIn } from './raw.mjs';

let studio;
let folder;
before(async () => {
  folder = await project({ files: { 'secret.txt': 'the secret text' } });
  studio = await startStudio({ cwd: folder });
});

const hello = (token) => ({ t: 'hello', v: 1, token, run: '', want: [{ topic: 'chain', at: null }] });

test('a request with another host name gets 421', async () => {
  const { port } = studio;
  for (const host of [`evil.example:${port}`, 'evil.example', '127.0.0.1', 'localhost', `127.0.0.1:${port + 1}`, `0.0.0.0:${port}`,
    `127.1:${port}`, `127.0.0.1:${port}.evil.example`, `localhost.:${port}`, '', `user@127.0.0.1:${port}`, `127.0.0.1:${port}, evil.example`]) {
    for (const path of ['/studio', '/assets/studio.js', '/panel/frame.html', '/api/link', '/']) {
      const { status, headers } = await http(port, path, { headers: { host } });
      assert.ok(status === 421 || (status === 400 && host !== `evil.example:${port}`), `${host} ${path}: ${status}`);
      if (status === 421) checkHeaders(headers, path);
    }
  }
  for (const host of [`127.0.0.1:${port}`, `localhost:${port}`]) {
    assert.equal((await http(port, '/studio', { headers: { host } })).status, 200, host);
  }
});

const wrongOrigins = () => [
  undefined, 'null', `http://127.0.0.1:${studio.port + 1}`, `http://localhost:${studio.port}`, `https://127.0.0.1:${studio.port}`,
  'http://127.0.0.1', 'http://evil.example', `http://127.0.0.1:${studio.port}.evil.example`, `http://127.0.0.1:${studio.port}/`, '*',
];

test('the right key with the wrong origin does not log in', async () => {
  for (const origin of wrongOrigins()) {
    const answer = await http(studio.port, '/api/login', {
      method: 'POST', headers: origin ? { origin } : {}, body: JSON.stringify({ key: studio.key }),
    });
    assert.equal(answer.status, 403, String(origin));
    assert.equal(answer.headers['set-cookie'], undefined);
    assert.doesNotMatch(answer.text, /token/);
  }
  for (const site of ['cross-site', 'same-site', 'none']) {
    const answer = await http(studio.port, '/api/login', {
      method: 'POST', headers: { origin: studio.origin, 'sec-fetch-site': site }, body: JSON.stringify({ key: studio.key }),
    });
    assert.equal(answer.status, 403, site);
  }
  assert.equal((await http(studio.port, `/api/login?key=${studio.key}`, { headers: { origin: studio.origin } })).status, 405);
});

test('a WebSocket needs the origin, the cookie and the token', async () => {
  const { cookie, token, headers } = await logIn(studio);
  assert.match(headers['set-cookie'][0], /; HttpOnly; SameSite=Strict; Path=\/$/);
  for (const origin of wrongOrigins()) {
    assert.equal((await connect(studio.port, { headers: { cookie, ...(origin ? { origin } : {}) } })).status, 403, String(origin));
  }
  // The token without the cookie, and with cookies that are almost right.
  const [name, value] = cookie.split('=');
  for (const wrong of [null, `${name}=`, `${name}=${value.slice(0, -1)}`, `${name}=${value}0`, `conductor_1=${value}`, `x${name}=${value}`]) {
    const answer = await connect(studio.port, { headers: { origin: studio.origin, ...(wrong ? { cookie: wrong } : {}) } });
    assert.equal(answer.status, 401, String(wrong));
  }
  // The cookie without the token: the page of another port has it.
  for (const wrong of ['', token.slice(1), `${token}0`, value, studio.key]) {
    const socket = await connect(studio.port, { headers: { origin: studio.origin, cookie } });
    assert.equal(socket.status, 101);
    socket.send(hello(wrong));
    assert.deepEqual(await socket.next(), { closed: 4401 }, wrong);
    socket.close();
  }
  // Anything but a greeting first.
  for (const first of ['{}', '[]', 'nonsense', { t: 'do', id: '1', action: { op: 'readFile', path: 'secret.txt' } }]) {
    const socket = await connect(studio.port, { headers: { origin: studio.origin, cookie } });
    socket.send(first);
    assert.ok('closed' in await socket.next(), String(first));
  }
  const good = await connect(studio.port, { headers: { origin: studio.origin, cookie } });
  good.send(hello(token));
  assert.equal((await good.next())[0].t, 'welcome');
  good.close();
});

/** The headers that every answer has (§6). */
function checkHeaders(headers, path) {
  assert.equal(headers['x-content-type-options'], 'nosniff', path);
  assert.equal(headers['referrer-policy'], 'no-referrer', path);
  assert.match(headers['cache-control'], /^(no-store|no-cache)$/, path);
  assert.match(headers['content-security-policy'], /default-src 'none'/, path);
  assert.match(headers['content-security-policy'], /frame-ancestors '(none|self)'/, path);
  for (const name of Object.keys(headers)) assert.doesNotMatch(name, /^access-control-/, path);
  assert.doesNotMatch(String(headers.server ?? ''), /\d/, 'no version of the server is told');
}

test('every answer has its headers, and none allows another origin', async () => {
  const { port, origin } = studio;
  const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    + "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";
  const page = await http(port, '/studio');
  assert.equal(page.status, 200);
  assert.equal(page.headers['content-security-policy'].replace(/\s+/g, ' '), pagePolicy);
  assert.equal(page.headers['cross-origin-opener-policy'], 'same-origin');
  assert.equal(page.headers['cross-origin-resource-policy'], 'same-origin');
  assert.match(page.headers['permissions-policy'], /camera=\(\), microphone=\(\), geolocation=\(\), usb=\(\), serial=\(\), clipboard-read=\(\)/);
  for (const name of ['studio.js', 'studio.css', 'vendor.js']) {
    const { status, headers } = await http(port, `/assets/${name}`);
    assert.equal(status, 200, name);
    assert.equal(headers['cross-origin-resource-policy'], 'same-origin', name);
    checkHeaders(headers, name);
  }
  const frame = await http(port, '/panel/frame.html');
  assert.match(frame.headers['content-security-policy'],
    new RegExp(`^sandbox allow-scripts; default-src 'none'; script-src ${origin}/panel/frame\\.js; style-src ${origin}/panel/frame\\.css; img-src data:;`));
  const requests = [
    ['GET', '/'], ['GET', '/studio'], ['HEAD', '/studio'], ['POST', '/studio'], ['OPTIONS', '/studio'], ['DELETE', '/assets/studio.js'],
    ['GET', '/assets/none.js'], ['GET', '/panel/frame.js'], ['GET', '/panel/diagram.html'], ['GET', '/panel/none'],
    ['GET', '/api/login'], ['POST', '/api/login'], ['OPTIONS', '/api/login'], ['GET', '/api/link'], ['OPTIONS', '/api/link'], ['POST', '/api/none'],
  ];
  for (const [method, path] of requests) {
    for (const from of [{}, { origin: 'http://evil.example', 'access-control-request-method': 'POST' }]) {
      const { status, headers } = await http(port, path, { method, headers: from });
      assert.ok(status < 500, `${method} ${path}: ${status}`);
      checkHeaders(headers, `${method} ${path}`);
    }
  }
});

test('files outside of the built ones are not served', async () => {
  const names = ['../Cargo.toml', '..%2fCargo.toml', '%2e%2e/Cargo.toml', '%2e%2e%2fCargo.toml', '..%5cCargo.toml', '....//Cargo.toml',
    '/etc/passwd', '%2fetc%2fpasswd', 'studio.js/../../secret.txt', 'studio.js%00', 'panel/frame.js', '../studio.html', 'studio.html', '.', '',
    'STUDIO.JS', 'studio.js.map', 'secret.txt'];
  const paths = [...names.flatMap((name) => [`/assets/${name}`, `/panel/${name}`]), '/secret.txt', '/etc/passwd', '//etc/passwd', '/../etc/passwd',
    '/file/secret.txt', `/${encodeURIComponent(folder)}/secret.txt`, '/studio/', '/studio/../secret.txt', '/.git/config', '/src/studio.tsx'];
  for (const path of paths) {
    const { status, headers, text } = await http(studio.port, path);
    assert.ok([400, 404].includes(status), `${path}: ${status}`);
    assert.doesNotMatch(text, /root:|the secret text|\[package\]/, path);
    checkHeaders(headers, path);
  }
});

test('another user of the machine gets the empty page, and no secret of the program', { skip: process.getuid() !== 0 && 'needs root' }, () => {
  const nobody = (...command) => spawnSync('setpriv', ['--reuid=65534', '--regid=65534', '--clear-groups', ...command], { encoding: 'utf8', cwd: '/' });
  const script = `
    const at = 'http://127.0.0.1:${studio.port}';
    const out = [];
    out.push((await fetch(at + '/studio')).status);
    out.push((await fetch(at + '/api/login', { method: 'POST', headers: { origin: at }, body: JSON.stringify({ key: 'guess' }) })).status);
    out.push((await fetch(at + '/api/link', { headers: { origin: at } })).status);
    console.log(JSON.stringify(out));`;
  const asked = nobody(process.execPath, '--input-type=module', '-e', script);
  assert.deepEqual(JSON.parse(asked.stdout || 'null'), [200, 401, 401], asked.stderr);
  // The key is not where other users can read it.
  const line = nobody('cat', `/proc/${studio.pid}/cmdline`);
  assert.equal(line.status, 0);
  assert.doesNotMatch(line.stdout, new RegExp(studio.key));
  for (const file of ['environ', 'mem', 'fd/0']) assert.notEqual(nobody('cat', `/proc/${studio.pid}/${file}`).status, 0, file);
});

const attacks = `
  const at = new URLSearchParams(location.search).get('at');
  const ws = at.replace('http', 'ws');
  const results = {};
  const outcome = async (name, work) => { try { results[name] = await work(); } catch (error) { results[name] = 'failed: ' + error.name; } };
  const read = (how) => async () => { const answer = await fetch(at + how.path, how); return answer.type + ' ' + answer.status + ' ' + (await answer.text()).length; };
  const element = (tag, members) => new Promise((done) => {
    const it = Object.assign(document.createElement(tag), members);
    it.onload = () => done('loaded'); it.onerror = () => done('error'); document.body.append(it);
  });
  await outcome('fetch', read({ path: '/studio', credentials: 'include' }));
  await outcome('fetch opaque', read({ path: '/studio', mode: 'no-cors', credentials: 'include' }));
  await outcome('login', read({ path: '/api/login', method: 'POST', credentials: 'include', body: '{"key":"x"}' }));
  await outcome('login opaque', read({ path: '/api/login', method: 'POST', mode: 'no-cors', credentials: 'include', body: '{"key":"x"}' }));
  await outcome('script', () => element('script', { src: at + '/assets/studio.js' }));
  await outcome('style', () => element('link', { rel: 'stylesheet', href: at + '/assets/studio.css' }));
  await outcome('socket', () => new Promise((done) => {
    const socket = new WebSocket(ws + '/api/link');
    socket.onopen = () => done('OPEN'); socket.onclose = (event) => done('closed ' + event.code);
  }));
  const frame = document.createElement('iframe');
  frame.src = at + '/studio'; document.body.append(frame);
  await outcome('frame', () => new Promise((done) => { frame.onload = () => { try { done('read ' + frame.contentDocument.title); } catch (error) { done(error.name); } }; }));
  const popup = window.open(at + '/studio');
  await outcome('popup', () => new Promise((done) => {
    const look = () => { if (!popup || popup.closed) return done('cut off'); try { void popup.document.title; } catch (error) { return done(error.name); } requestAnimationFrame(look); };
    look();
  }));
  document.title = 'done';
  globalThis.results = results;
`;

test('a hostile page on another port gets nothing, with the cookie of the user', async (t) => {
  const seen = [];
  const enemy = createServer((request, answer) => {
    seen.push({ url: request.url, cookie: request.headers.cookie });
    answer.setHeader('content-type', request.url === '/attack.js' ? 'text/javascript' : 'text/html');
    answer.end(request.url === '/attack.js' ? attacks
      : '<!doctype html><html lang="en"><link rel="icon" href="data:,"><title>Attack</title><body><script type="module" src="/attack.js"></script>');
  });
  await new Promise((done) => enemy.listen(0, '127.0.0.1', done));
  t.after(() => { enemy.closeAllConnections(); enemy.close(); });
  const user = await openStudio(studio, { t });
  // In the same browser, where the user is logged in. The pages of the enemy complain a lot.
  const context = (await open(null, { t, allow: [/./] })).context();
  await context.addCookies(await user.context().cookies());
  for (const host of ['127.0.0.1', 'localhost']) {
    const page = await context.newPage();
    const refused = [];
    page.on('response', (answer) => { if (answer.url().startsWith(studio.origin)) refused.push([new URL(answer.url()).pathname, answer.status()]); });
    await page.goto(`http://${host}:${enemy.address().port}/?at=${encodeURIComponent(studio.origin)}`);
    await page.waitForFunction(() => globalThis.results);
    const results = await page.evaluate(() => globalThis.results);
    assert.match(results.fetch, /^failed/);
    // The browser may hide that there is an answer, or give one without contents.
    assert.match(results['fetch opaque'], /^(failed|opaque 0 0$)/);
    assert.match(results.login, /^failed/);
    assert.match(results['login opaque'], /^(failed|opaque 0 0$)/);
    assert.equal(results.script, 'error');
    assert.equal(results.style, 'error');
    assert.match(results.socket, /^closed/);
    assert.match(results.frame, /^(SecurityError|TypeError)$/); // The document of the frame is null.
    assert.match(results.popup, /SecurityError|cut off/);
    assert.ok(page.frames().slice(1).every((it) => !it.url().startsWith(studio.origin)), 'the frame does not show the page');
    for (const [path, status] of refused.filter(([it]) => it.startsWith('/api/'))) assert.equal(status, 403, path);

    // A form is not stopped by CORS.
    const answer = page.waitForResponse((it) => it.url().endsWith('/api/login') && it.request().method() === 'POST');
    await page.evaluate((at) => {
      const form = Object.assign(document.createElement('form'), { method: 'post', action: `${at}/api/login`, enctype: 'text/plain' });
      form.append(Object.assign(document.createElement('input'), { name: '{"key":"', value: 'x"}' }));
      document.body.append(form);
      form.submit();
    }, studio.origin);
    assert.equal((await answer).status(), 403);
    await soon(page.close());
  }
  // This is why the cookie is not enough: other ports of the same host get it.
  assert.ok(seen.some((it) => it.cookie?.includes(`conductor_${studio.port}=`)), 'the test would notice a cookie');
  assert.equal(await user.evaluate(() => document.querySelector('[data-state]')?.getAttribute('data-state')), 'live');
});

test('a page in the browser keeps no key in its address, and nothing but the token in its storage', async (t) => {
  const page = await openStudio(studio, { t });
  assert.doesNotMatch(page.url(), new RegExp(studio.key));
  const kept = await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }) + document.cookie);
  assert.doesNotMatch(kept, new RegExp(studio.key));
  assert.doesNotMatch(kept, /secret/);
});

test('after ten wrong keys further ones get 429, and the owner is not locked out', async () => {
  const own = await startStudio({ cwd: folder });
  try {
    const key = (text) => http(own.port, '/api/login', { method: 'POST', headers: { origin: own.origin }, body: JSON.stringify({ key: text }) });
    // Requests that come from elsewhere do not count, or a foreign page could lock the user out.
    for (let i = 0; i < 20; i++) await http(own.port, '/api/login', { method: 'POST', headers: { origin: 'http://evil.example' }, body: '{"key":"x"}' });
    for (let i = 0; i < 10; i++) assert.equal((await key(own.key.replace(/.$/, (last) => (last === '0' ? '1' : '0')))).status, 401, `${i}`);
    assert.equal((await key('wrong')).status, 429);
    assert.equal((await key(own.key)).status, 200);
  } finally {
    await own.stop();
  }
});

test('a page without a log-in stays out', async (t) => {
  const page = await open(`${studio.origin}/studio`, { t, allow: [/401|WebSocket/] });
  await page.waitForFunction(() => document.body.innerText.trim().length > 20);
  assert.equal(await page.locator('[data-state="live"]').count(), 0);
  assert.doesNotMatch(await page.content(), /secret/);
});

after(() => studio?.stop());
