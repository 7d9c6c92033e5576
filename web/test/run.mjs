// Runs test files with one Chromium for all of them, two at a time: `node test/run.mjs FILE…`.

import { basename } from 'node:path';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { chromium } from 'playwright-core';
import { browserOptions } from './chromium.mjs';

/** The files that take longest, in this order. They come first, so that none of them runs alone at the end. */
const longest = [
  // Of the pages.
  'parts', 'panel-attacks', 'vscode-panel', 'vscode-chat', 'chat', 'files', 'chat-sessions', 'panel', 'panel-studio',
  // Of VS Code.
  'scenarios', 'first-use', 'windows', 'surface', 'host',
].map((name) => `${name}.test.mjs`);
const rank = (file) => (longest.includes(basename(file)) ? longest.indexOf(basename(file)) : longest.length);

const server = await chromium.launchServer(browserOptions());
process.env.CONDUCTOR_TEST_BROWSER = server.wsEndpoint();
const stop = new AbortController();
// A runner that is ended ends its tests, so that they end their programs.
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => stop.abort());

// A file that hangs fails, and the others go on. A busy machine needs many minutes for the longest file.
const tests = run({
  files: process.argv.slice(2).sort((a, b) => rank(a) - rank(b)), concurrency: 2, timeout: 1_800_000, signal: stop.signal,
});
tests.on('test:fail', () => { process.exitCode = 1; });
const report = tests.compose(new spec());
report.pipe(process.stdout);
await new Promise((done) => report.once('close', done));
if (stop.signal.aborted) process.exitCode = 1;
await server.close();
