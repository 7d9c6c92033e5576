// Runs the tests inside the extension host, where the API of VS Code is. VS Code calls `run`.
//
// CONDUCTOR_HOST_OPTIONS has the names of the test files. Each exports `tests(context)`, which calls
// `context.test(name, body)`. The results are written to the file that CONDUCTOR_HOST_RESULTS names, one JSON object a
// line: `{ file, name, took, error }`. If the first test of a file fails, the others are left out: it prepares them.

const { appendFileSync } = require('node:fs');
const { join } = require('node:path');
const { pathToFileURL } = require('node:url');
const vscode = require('vscode');

exports.run = async () => {
  const { files, ...options } = JSON.parse(process.env.CONDUCTOR_HOST_OPTIONS);
  const write = (result) => appendFileSync(process.env.CONDUCTOR_HOST_RESULTS, `${JSON.stringify(result)}\n`);
  for (const file of files) {
    const found = [];
    try {
      const { tests } = await import(pathToFileURL(join(__dirname, file)).href);
      await tests({ vscode, options, test: (name, body) => found.push({ name, body }) });
    } catch (error) {
      write({ file, name: 'load', took: 0, error: describe(error) });
    }
    let ready = true;
    for (const [index, { name, body }] of found.entries()) {
      if (!ready) continue;
      const began = performance.now();
      let error = null;
      try {
        await body();
      } catch (failure) {
        error = describe(failure);
      }
      ready = index > 0 || error === null;
      write({ file, name, took: Math.round(performance.now() - began), error });
    }
  }
  write({ ended: true });
};

/** What a person needs to understand a failure. */
function describe(error) {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause === undefined ? '' : `\ncaused by ${describe(error.cause)}`;
  return `${error.stack ?? error.message}${cause}`;
}
