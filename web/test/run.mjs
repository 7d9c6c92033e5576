// Runs test files with one Chromium for all of them: `node test/run.mjs [OPTION…] FILE…`, with the options of `node --test`.

import { spawn } from 'node:child_process';
import { chromium } from 'playwright-core';
import { browserOptions } from './chromium.mjs';

const options = process.argv.slice(2);
const server = await chromium.launchServer(browserOptions());
// A file that hangs fails, and the others go on. A slow machine needs some minutes for the longest file.
const child = spawn(process.execPath, ['--test', '--test-timeout=900000', '--test-concurrency=2', ...options], {
  stdio: 'inherit', env: { ...process.env, CONDUCTOR_TEST_BROWSER: server.wsEndpoint() },
});
// A runner that is ended ends its tests, so that they end their programs.
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => child.kill(signal));
const code = await new Promise((done) => child.once('close', (status) => done(status ?? 1)));
await server.close();
process.exitCode = code;
