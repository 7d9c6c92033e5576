// What the tests share: the built library, folders, editors, and waiting for entries.
import { build } from 'esbuild';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { until } from './until.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const built = mkdtempSync(join(tmpdir(), 'conductor-client-'));
process.on('exit', () => rmSync(built, { recursive: true, force: true }));
let count = 0;

/** Imports modules of src/ as one bundle. */
export const load = async (...modules) => import(await bundle(...modules));

/** The URL of a bundle of modules of src/. */
async function bundle(...modules) {
  const outfile = join(built, `${(count += 1)}.mjs`);
  const contents = modules.map((name) => `export * from ${JSON.stringify(`./src/${name}`)};`).join('\n');
  await build({
    absWorkingDir: root,
    stdin: { contents, resolveDir: root, loader: 'ts' },
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    outfile,
    logLevel: 'warning',
  });
  return pathToFileURL(outfile).href;
}

/** The URL of the library, for other processes. */
export const libraryFile = await bundle('index.ts', 'link/index.ts');
const library = await import(libraryFile);
export const { Editor, filesIn, LinkHost, Topics, Replica, decodeFrame } = library;

/** The program `conductor`. */
export const conductor = process.env.CONDUCTOR_BIN ?? join(root, '../../target/debug/conductor');

/** A folder with these files. */
export function project(t, files = {}) {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'conductor-project-')));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  return folder;
}

/** An environment in which `conductor` leaves nothing in the home of the person who runs the tests. */
export function environment(folder) {
  const home = join(folder, '.home');
  mkdirSync(home, { recursive: true });
  return {
    ...process.env,
    HOME: home,
    XDG_CONFIG_HOME: home,
    XDG_DATA_HOME: home,
    XDG_STATE_HOME: home,
    XDG_CACHE_HOME: home,
  };
}

const name = { name: 'test-client', title: 'Test client', version: '1' };

/** An editor that was started. It is stopped after the test. */
export function startEditor(t, options) {
  const folder = options.folder ?? project(t);
  const chain = options.chain ?? [];
  const editor = new Editor({
    folder,
    components: chain,
    client: name,
    host: { ...filesIn(folder), terminals: true, panels: true, comments: true, ...options.host },
    ...options.options,
    program: {
      cwd: folder,
      env: environment(project(t)),
      ...(options.program ?? { command: conductor, args: ['agent', ...chain] }),
    },
  });
  t.after(() => editor.stop());
  editor.start();
  return editor;
}

/** Waits until a fact about an editor is true. */
export const when = (editor, fact, what) => until((check) => editor.topics.follow(check), fact, what);

/** Waits for an entry of a topic. Returns its id and the entry. */
export async function entry(editor, topic, fits, what) {
  const find = () => editor.topics.entries(topic).find(([id, it]) => fits(it, id));
  return when(editor, find, what ?? `an entry of ${topic} that fits ${fits}`);
}

/** The entries of a session without their ids, of some kinds. */
export const entriesOf = (editor, session, ...kinds) =>
  editor.topics
    .entries(`session/${session}`)
    .map(([, it]) => it)
    .filter((it) => kinds.length === 0 || kinds.includes(it.kind));

/** The texts of the agent in a session. */
export const said = (editor, session) =>
  entriesOf(editor, session, 'agent')
    .map((it) => it.text)
    .join('\n');

/** The chain as it is shown. */
export const chainOf = (editor) => editor.topics.get('chain', 'chain');

/** The processes whose environment has this text. */
export function processesWith(mark) {
  return readdirSync('/proc')
    .filter((it) => /^\d+$/.test(it) && Number(it) !== process.pid)
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/environ`, 'utf8').includes(mark);
      } catch {
        return false;
      }
    });
}
