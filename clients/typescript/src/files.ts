// Reads and writes the texts of real files: for `fs/read_text_file`, `fs/write_text_file`, and views of a folder.
import { createReadStream } from 'node:fs';
import { chmod, mkdir, open, readdir, readFile, realpath, rename, rm, stat, writeFile } from 'node:fs/promises';
import { basename, dirname, join, relative, resolve } from 'node:path';
import type { Host } from './host';
import { at } from './json';
import type { FileEntry, FileText } from './link/types';
import { Project } from './project';
import { fileError, internal, invalidParams, messageOf } from './rpc-error';

/** The most bytes of a text that is read. */
const mostText = 10 * 1024 * 1024;
/** The most bytes of a text that is shown. */
const mostShown = 2 * 1024 * 1024;
/** The most entries of a folder that are listed. */
const mostEntries = 5000;
/** The most files that are looked at to find one. */
const mostFiles = 100_000;
/** How many files are found. */
const mostFound = 50;

const newline = 0x0a;

/** Reads a text, from a line (1 is the first) and at most so many lines. Line endings are kept. */
export async function readText(path: string, options: { line?: number; limit?: number } = {}): Promise<string> {
  const { line, limit } = options;
  // Before the file is opened: that could wait for the other end of a pipe.
  const about = await stat(path).catch((error: unknown) => Promise.reject(fileError('read', path, error)));
  if (!about.isFile()) {
    throw internal(`cannot read ${path}: it ${about.isDirectory() ? 'is a directory' : 'is not a regular file'}`);
  }
  if (line === undefined && limit === undefined && about.size > mostText) throw tooLarge(path);
  const bytes = await readLines(path, Math.max(1, line ?? 1), limit);
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw internal(`cannot read ${path}: it is not UTF-8 text`);
  }
}

function tooLarge(path: string): Error {
  const most = mostText / 1024 / 1024;
  return internal(
    `cannot read ${path}: the text is larger than ${most} MiB; use \`line\` and \`limit\` to read a part`);
}

async function readLines(path: string, first: number, limit: number | undefined): Promise<Buffer> {
  const parts: Buffer[] = [];
  let [size, before, taken, ended] = [0, 1, 0, false];
  let partOfLine = false;
  try {
    const stream = createReadStream(path) as AsyncIterable<Buffer>;
    for await (const chunk of stream) {
      let start = 0;
      while (before < first && start < chunk.length) {
        const end = chunk.indexOf(newline, start);
        partOfLine = end < 0;
        if (end < 0) start = chunk.length;
        else [start, before] = [end + 1, before + 1];
      }
      if (before < first || start === chunk.length) continue;
      let end = chunk.length;
      if (limit !== undefined) {
        end = start;
        while (taken < limit && end < chunk.length) {
          const next = chunk.indexOf(newline, end);
          if (next >= 0) taken += 1;
          end = next < 0 ? chunk.length : next + 1;
        }
        ended = taken >= limit;
      }
      parts.push(chunk.subarray(start, end));
      size += end - start;
      if (size > mostText) throw tooLarge(path);
      if (ended) break;
    }
  } catch (error) {
    throw fileError('read', path, error);
  }
  const lines = before - 1 + (partOfLine ? 1 : 0);
  // The empty rest after the last line can be read.
  if (lines < first - 1) throw invalidParams(`cannot read ${path} from line ${first}: the file has ${lines} lines`);
  return Buffer.concat(parts);
}

/**
 * Writes a text: the whole file, or nothing if there is an error. Creates missing folders, and keeps the mode of an
 * existing file. A file that cannot be replaced is overwritten.
 */
export async function writeText(path: string, text: string): Promise<void> {
  try {
    await mkdir(dirname(path), { recursive: true });
    const existing = await stat(path).catch((error: unknown) => {
      if (at(error, 'code') === 'ENOENT') return undefined;
      throw error;
    });
    if (existing && !existing.isFile()) throw internal(`cannot write ${path}: it is not a regular file`);
    // A file that may not be written is not replaced.
    if (existing) await (await open(path, 'r+')).close();
    // A link stays: the file that it leads to is replaced.
    await replace(existing ? await realpath(path) : path, text, existing?.mode);
  } catch (error) {
    throw fileError('write', path, error);
  }
}

let count = 0;

async function replace(path: string, text: string, mode: number | undefined): Promise<void> {
  count += 1;
  const temporary = join(dirname(path), `.conductor-${process.pid}-${count}.tmp`);
  try {
    await writeFile(temporary, text, { flag: 'wx', flush: true, ...(mode === undefined ? {} : { mode: 0o600 }) });
    if (mode !== undefined) await chmod(temporary, mode & 0o7777);
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    const cannotReplace = ['EACCES', 'EPERM', 'EROFS', 'EBUSY', 'EXDEV'].includes(String(at(error, 'code')));
    if (mode === undefined || !cannotReplace) throw error;
    await writeFile(path, text, { flush: true });
  }
}

/** Reads and writes the real files of a folder, for an editor that has none of its own. */
export function filesIn(folder: string): Required<Pick<Host,
  'readTextFile' | 'writeTextFile' | 'isInside' | 'listFiles' | 'readFile' | 'findFiles'>> {
  const project = new Project(folder);
  return {
    readTextFile: readText,
    writeTextFile: writeText,
    isInside: async (path) => (await project.place(path)).inside,
    listFiles: async (path) => listFolder(await project.locate(path || '.'), path),
    readFile: async (path) => {
      const file = await project.locate(path);
      return showFile(file, project.shown(file));
    },
    findFiles: (text) => findFiles(project.folder, text),
  };
}

/** Folders first, then files, each by name. */
async function listFolder(folder: string, shown: string): Promise<FileEntry[]> {
  const names = await readdir(folder).catch((error: unknown) => {
    throw new Error(`cannot read the folder ${shown}: ${messageOf(error)}`);
  });
  const entries = await Promise.all(names.slice(0, mostEntries).map(async (name) => ({
    name,
    // A link is what it points to.
    folder: await stat(join(folder, name)).then((it) => it.isDirectory(), () => false),
  })));
  const key = ({ name }: FileEntry) => `${name.toLowerCase()}\0${name}`;
  return entries
    .filter((it) => !(it.folder && it.name === '.git'))
    .sort((a, b) => Number(b.folder) - Number(a.folder) || (key(a) < key(b) ? -1 : 1));
}

async function showFile(file: string, path: string): Promise<FileText> {
  const notShown = (note: string): FileText => ({ path, text: '', note });
  const size = await stat(file).then((it) => it.size, () => 0);
  if (size > mostShown) return notShown('The file is larger than 2 MiB and is not shown.');
  try {
    const text = await readText(file);
    return text.includes('\0') ? notShown('The file is not text.') : { path, text, note: null };
  } catch (error) {
    if (messageOf(error).includes('not UTF-8')) return notShown('The file is not text.');
    throw new Error(messageOf(error));
  }
}

/** The names in a `.gitignore` that are plain: patterns with stars, slashes inside or `!` are not understood. */
async function ignoredNames(folder: string): Promise<string[]> {
  const text = await readFile(join(folder, '.gitignore'), 'utf8').catch(() => '');
  return text.split('\n').map((it) => it.trim().replace(/^\/|\/$/g, '')).filter((it) => it && !/[!*#/\\[]/.test(it));
}

/** The files that contain all parts of a text in their path, best first. */
async function findFiles(folder: string, text: string): Promise<string[]> {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const [word = ''] = words;
  const found: Array<{ rank: number; path: string }> = [];
  const folders = [{ path: resolve(folder), ignored: ['.git'] }];
  let seen = 0;
  for (let next = folders.pop(); next && seen < mostFiles; next = folders.pop()) {
    const ignored = [...next.ignored, ...(await ignoredNames(next.path))];
    for (const entry of await readdir(next.path, { withFileTypes: true }).catch(() => [])) {
      if (ignored.includes(entry.name)) continue;
      const full = join(next.path, entry.name);
      if (entry.isDirectory()) folders.push({ path: full, ignored });
      if (!entry.isFile()) continue;
      seen += 1;
      const path = relative(folder, full).replaceAll('\\', '/');
      const lower = path.toLowerCase();
      if (!words.every((it) => isSubsequence(it, lower))) continue;
      const name = basename(lower);
      const rank = name.startsWith(word) ? 0 : name.includes(word) ? 1 : lower.includes(word) ? 2 : 3;
      found.push({ rank: rank * 10_000 + path.length, path });
    }
  }
  found.sort((a, b) => a.rank - b.rank || (a.path < b.path ? -1 : 1));
  return found.slice(0, mostFound).map((it) => it.path);
}

function isSubsequence(word: string, text: string): boolean {
  let from = 0;
  return [...word].every((letter) => {
    const place = text.indexOf(letter, from);
    from = place + letter.length;
    return place >= 0;
  });
}
