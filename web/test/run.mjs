// Runs test files, two at a time: `node test/run.mjs [--browser] FILE…`. With `--browser`, one Chromium serves all of them.
// `CONDUCTOR_TEST_ONLY` is the name of the only test that runs. `CONDUCTOR_TEST_REPORT` is a file that gets a line of JSON
// for each test: its file, its name, whether it has passed, and how long it took.

import { appendFileSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';

/** The files that take longest, in this order. They come first, so that none of them runs alone at the end. */
const longest = [
  // Of the pages.
  'parts', 'panel-attacks', 'vscode-panel', 'vscode-chat', 'chat', 'files', 'chat-sessions', 'panel', 'panel-studio',
  // Of VS Code.
  'scenarios', 'first-use', 'windows', 'surface', 'host',
].map((name) => `${name}.test.mjs`);
const rank = (file) => (longest.includes(basename(file)) ? longest.indexOf(basename(file)) : longest.length);

const words = process.argv.slice(2);
const files = words.filter((it) => it !== '--browser').sort((a, b) => rank(a) - rank(b));
const { CONDUCTOR_TEST_ONLY: only, CONDUCTOR_TEST_REPORT: report } = process.env;
// The tests start programs, which are not to report.
for (const name of ['CONDUCTOR_TEST_ONLY', 'CONDUCTOR_TEST_REPORT']) delete process.env[name];
const server = words.includes('--browser') ? await startBrowser() : undefined;

async function startBrowser() {
  const { chromium } = await import('playwright-core');
  const { browserOptions } = await import('./chromium.mjs');
  const started = await chromium.launchServer(browserOptions());
  process.env.CONDUCTOR_TEST_BROWSER = started.wsEndpoint();
  return started;
}

/**
 * Writes down the outcome of a test of a file, but not of a part of a test, and not of a test that did not run. The file that
 * an event names is the one that calls `test`, which may be a harness.
 */
function write(file, { name, nesting, details, skip }, passed) {
  if (!report || nesting !== 0 || skip !== undefined) return;
  appendFileSync(report, `${JSON.stringify({ file: resolve(file), name, passed, ms: details.duration_ms })}\n`);
}

const stop = new AbortController();
// A runner that is ended ends its tests, so that they end their programs.
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => stop.abort());

const pattern = only && new RegExp(`^${only.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')}$`);

/** Runs a file in a process of its own, and prints its tests when it is done. */
async function runFile(file) {
  const tests = run({
    files: [resolve(file)],
    // A file that hangs fails, and the others go on. A busy machine needs many minutes for the longest file.
    timeout: 1_800_000,
    signal: stop.signal,
    ...(pattern ? { testNamePatterns: [pattern] } : {}),
  });
  tests.on('test:pass', (it) => write(file, it, true));
  tests.on('test:fail', (it) => {
    process.exitCode = 1;
    write(file, it, false);
  });
  let text = `\n${file}\n`;
  for await (const piece of tests.compose(new spec())) text += piece;
  process.stdout.write(text);
}

/** Runs one file after the other until none is left. */
async function runFiles() {
  while (files.length > 0 && !stop.signal.aborted) await runFile(files.shift());
}

await Promise.all([runFiles(), runFiles()]);
if (stop.signal.aborted) process.exitCode = 1;
await server?.close();
