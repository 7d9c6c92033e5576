// Requests and WebSocket connections with any headers, as an attacker makes them. A browser would not let us.

import { createHash, randomBytes } from 'node:crypto';
import { request } from 'node:http';

/** One request. The path is sent as it is. Returns status, headers and body. */
export function http(port, path, { method = 'GET', headers = {}, body } = {}) {
  return new Promise((done, failed) => {
    const sent = request({ host: '127.0.0.1', port, path, method, headers, setHost: !('host' in headers), agent: false }, (answer) => {
      let text = '';
      answer.setEncoding('utf8').on('data', (part) => { text += part; });
      answer.on('end', () => done({ status: answer.statusCode, headers: answer.headers, text }));
      answer.on('error', failed);
    });
    sent.on('error', failed);
    sent.end(body);
  });
}

/** Logs in as the page does. Returns the cookie and the token. */
export async function logIn(studio) {
  const answer = await http(studio.port, '/api/login', {
    method: 'POST', headers: { origin: studio.origin, 'content-type': 'application/json' }, body: JSON.stringify({ key: studio.key }),
  });
  return { ...answer, cookie: answer.headers['set-cookie']?.[0]?.split(';')[0], token: answer.status === 200 ? JSON.parse(answer.text).token : null };
}

/**
 * Opens a WebSocket. Resolves to `{ status }` if the server refuses, else to
 * `{ status: 101, send, next, close }`. `next` resolves to the next message, or to `{ closed: CODE }`.
 */
export function connect(port, { headers = {}, path = '/api/link' } = {}) {
  const key = randomBytes(16).toString('base64');
  return new Promise((done, failed) => {
    const sent = request({
      host: '127.0.0.1', port, path, agent: false, setHost: !('host' in headers),
      headers: { connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-version': '13', 'sec-websocket-key': key, ...headers },
    });
    sent.on('error', failed);
    sent.on('response', (answer) => {
      answer.resume();
      done({ status: answer.statusCode, headers: answer.headers });
    });
    sent.on('upgrade', (answer, socket, head) => {
      const accept = createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
      if (answer.headers['sec-websocket-accept'] !== accept) failed(new Error('the handshake is wrong'));
      done(socketOf(socket, head));
    });
    sent.end();
  });
}

function socketOf(socket, head) {
  const frames = [];
  const waiting = [];
  let buffer = head;
  let ended = null;
  const give = (frame) => (waiting.length ? waiting.shift()(frame) : frames.push(frame));
  const parse = () => {
    for (;;) {
      if (buffer.length < 2) return;
      let length = buffer[1] & 0x7f;
      let start = 2;
      if (length === 126) [length, start] = buffer.length < 4 ? [Infinity, 4] : [buffer.readUInt16BE(2), 4];
      else if (length === 127) [length, start] = buffer.length < 10 ? [Infinity, 10] : [Number(buffer.readBigUInt64BE(2)), 10];
      if (buffer.length < start + length) return;
      const code = buffer[0] & 0x0f;
      const body = buffer.subarray(start, start + length);
      buffer = buffer.subarray(start + length);
      if (code === 1) give(JSON.parse(body.toString()));
      else if (code === 8) give(ended = { closed: body.length >= 2 ? body.readUInt16BE(0) : 1005 });
    }
  };
  socket.on('data', (data) => { buffer = Buffer.concat([buffer, data]); parse(); });
  socket.on('close', () => give((ended ??= { closed: 1006 })));
  socket.on('error', () => {});
  parse();
  return {
    status: 101,
    send(message) {
      const body = Buffer.from(typeof message === 'string' ? message : JSON.stringify(message));
      const mask = randomBytes(4);
      const start = body.length < 126 ? Buffer.from([0x81, 0x80 | body.length])
        : Buffer.from([0x81, 0x80 | 126, body.length >> 8, body.length & 0xff]);
      socket.write(Buffer.concat([start, mask, body.map((byte, i) => byte ^ mask[i % 4])]));
    },
    next: () => (frames.length ? Promise.resolve(frames.shift()) : ended ? Promise.resolve(ended) : new Promise((done) => { waiting.push(done); })),
    close: () => socket.destroy(),
  };
}
