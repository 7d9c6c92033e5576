// The tests inside the extension host, with the API of VS Code.
import { test } from './harness.mjs';
import { report, runInHost } from './host.mjs';

const faces = "const faces = '😀👩‍🚀'; const after = faces;\n";
const math = 'export function add(a, b) {\n  return a + b;\n}\n';
const use = "import { add } from './math.js';\n\nconst three = add(1, 2);\nconsole.log(add(three, 4));\n";

/** `edited` is for the tests that change files. */
const project = {
  'src/math.js': math, 'src/use.js': use, 'src/faces.js': faces, 'edited/use.js': use, 'edited/faces.js': faces,
  'jsconfig.json': '{ "compilerOptions": { "module": "esnext", "moduleResolution": "bundler" }, "include": ["src"] }\n',
};

test('the extension becomes active', async (t) => {
  // Whatever else the machine does makes it slower, so the best of some attempts counts.
  let results;
  for (let attempt = 1; attempt <= 3 && (results?.some((it) => it.error) ?? true); attempt += 1) {
    results = await runInHost(t, { files: ['commands.test.mjs'], project });
  }
  await report(t, results);
});

test('files, edits and operations in the host', async (t) => {
  const files = ['files.test.mjs', 'operations.test.mjs'];
  await report(t, await runInHost(t, { files, project, builtIn: ['typescript-language-features'] }));
});
