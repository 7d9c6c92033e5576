// Builds all pages and scripts into `crates/web/dist`, the same bytes on every machine.
//
//   node build.mjs               the files of the program
//   node build.mjs --out DIR     builds to another folder
//   node build.mjs --vscode DIR  the pages of the VS Code extension: chat.js, chat.css, panel.js, panel.css, mermaid.js
//   --parts                      adds pages for tests: parts.html and panel-test.html, or vscode-host.js (needs a folder)
//   --no-cleaner                 a panel frame that does not clean its HTML, for tests (needs a folder)
import { cpSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Script } from 'node:vm';

const root = dirname(fileURLToPath(import.meta.url));
const { out, parts, cleaner, vscode } = options(process.argv.slice(2));
/** Where `acp-conductor-client/link` is. */
const link = join(root, '../clients/typescript/src/link/index.ts');

// Preact, Vite and mermaid look at it. Another value gives other bytes.
process.env.NODE_ENV = 'production';
if (parts) process.env.CONDUCTOR_PARTS = '1';
process.chdir(root);
const { build } = await import('vite');

mkdirSync(out, { recursive: true });
if (vscode) await buildForVsCode();
else await buildForProgram();
for (const file of files(out)) console.log(`${String(statSync(file).size).padStart(9)}  ${relative(root, file)}`);

async function buildForProgram() {
  await build({ configFile: join(root, 'vite.config.ts'), root, logLevel: 'warn', build: { outDir: out } });
  const folder = join(out, 'panel');
  mkdirSync(folder, { recursive: true });
  for (const page of ['frame.html', 'diagram.html']) cpSync(join(root, 'panel', page), join(folder, page));
  write(folder, 'frame', await script('frame', 'src/panel-frame/frame.ts'));
  write(folder, 'diagram', await script('diagram', 'src/panel-frame/diagram.ts'));
  write(folder, 'mermaid', await script('mermaid', 'src/panel-frame/mermaid.ts', [onlyOurDiagrams()]));
}

/** The frames of a page in VS Code cannot load anything, so their scripts are texts in the scripts of the page. */
async function buildForVsCode() {
  const panel = await script('frame', 'src/panel-frame/vscode-frame.ts');
  const diagram = await script('diagram', 'src/panel-frame/vscode-diagram.ts');
  const mermaid = await script('mermaid', 'src/panel-frame/mermaid.ts', [onlyOurDiagrams()]);
  const texts = { panelScript: inHtml(panel.code), panelStyle: panel.css, diagramScript: inHtml(diagram.code) };
  write(out, 'chat', await script('chat', 'src/vscode.tsx', [frameTexts(texts)]));
  write(out, 'panel', await script('panel', 'src/vscode-panel.tsx', [frameTexts(texts)]));
  write(out, 'mermaid', { code: `window.conductorMermaidText=${JSON.stringify(inHtml(mermaid.code))};\n`, css: '' });
  if (parts) write(out, 'vscode-host', await script('host', 'test/vscode-host.ts'));
}

function options(words) {
  let out = null;
  let vscode = false;
  const flags = new Set();
  for (let i = 0; i < words.length; i++) {
    if ((words[i] === '--out' || words[i] === '--vscode') && words[i + 1] && !out) {
      vscode = words[i] === '--vscode';
      out = resolve(words[++i]);
    } else if (words[i] === '--parts' || words[i] === '--no-cleaner') flags.add(words[i]);
    else fail(`Unknown option ${words[i]}. Options: --out DIR, --vscode DIR, --parts, --no-cleaner.`);
  }
  if (flags.size > 0 && !out) fail(`${[...flags].join(' and ')} is for tests only and needs --out DIR or --vscode DIR.`);
  const dist = join(root, '../crates/web/dist');
  const ofProgram = out === resolve(dist);
  if (flags.size > 0 && ofProgram) fail('A build for tests must not replace the files of the program.');
  if (vscode && ofProgram) fail('The pages of VS Code are not part of the program.');
  return { out: out ?? dist, parts: flags.has('--parts'), cleaner: !flags.has('--no-cleaner'), vscode };
}

function fail(text) {
  console.error(text);
  process.exit(2);
}

/** A classic script in one file: a sandboxed frame cannot load modules (its origin is null, so CORS refuses them). */
async function script(name, entry, plugins = []) {
  const [{ output }] = await build({
    configFile: false,
    root,
    publicDir: false,
    envDir: false,
    logLevel: 'warn',
    plugins,
    resolve: { alias: { 'acp-conductor-client/link': link } },
    oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
    define: { __CLEANER__: JSON.stringify(cleaner), 'process.env.NODE_ENV': '"production"' },
    build: {
      write: false,
      target: 'es2022',
      sourcemap: false,
      minify: true,
      reportCompressedSize: false,
      chunkSizeWarningLimit: 2000,
      lib: { entry: join(root, entry), formats: ['iife'], name, fileName: () => `${name}.js`, cssFileName: name },
      rollupOptions: { shimMissingExports: true, output: { codeSplitting: false } },
    },
  });
  const code = output.find((file) => file.type === 'chunk').code;
  return { code, css: output.find((file) => file.fileName === `${name}.css`)?.source ?? '' };
}

function write(folder, name, { code, css }) {
  writeFileSync(join(folder, `${name}.js`), code);
  if (css) writeFileSync(join(folder, `${name}.css`), css);
}

/** The same script in a form that can be inside of a `script` element. */
function inHtml(code) {
  const safe = code.replaceAll(/<(?=\/script|script|!--)/gi, '\\x3c');
  // It was part of a text or of an expression, or it is no script any more.
  new Script(safe);
  return safe;
}

/** The module `conductor:frames` with these texts. */
function frameTexts(texts) {
  const code = Object.entries(texts).map(([name, text]) => `export const ${name} = ${JSON.stringify(text)};`).join('\n');
  return {
    name: 'frame-texts',
    resolveId: (id) => (id === 'conductor:frames' ? '\0frames' : null),
    load: (id) => (id === '\0frames' ? code : null),
  };
}

/**
 * Leaves all kinds of diagrams but six out of mermaid. What is left out becomes a module that throws;
 * `kinds.ts` refuses such a diagram before mermaid sees it.
 */
function onlyOurDiagrams() {
  const kept = /^(chunk|dagre|(flow|sequence|class|state|er|gantt)Diagram(-v2)?)-[A-Z0-9]{8}\.mjs$/;
  const libraries = /^(katex|cytoscape.*|@mermaid-js\/parser|chevrotain|elkjs.*|@upsetjs\/venn\.js|d3-sankey)$/;
  return {
    name: 'only-our-diagrams',
    enforce: 'pre',
    resolveId(id, importer) {
      const file = id.split('/').pop() ?? '';
      const inMermaid = importer?.includes('/mermaid/') && /-[A-Z0-9]{8}\.mjs$/.test(file);
      return libraries.test(id) || (inMermaid && !kept.test(file)) ? '\0left-out' : null;
    },
    load(id) {
      return id === '\0left-out' ? "export default function () { throw new Error('not part of this build'); }" : null;
    },
  };
}

function files(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
}
