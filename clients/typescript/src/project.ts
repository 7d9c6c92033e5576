// The folder of the project: paths as a view shows them, and files as components name them.
import { realpathSync } from 'node:fs';
import { lstat, realpath } from 'node:fs/promises';
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { at } from './json';
import { fileError, invalidParams, messageOf } from './rpc-error';

function realOr(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}

/** Whether a path is a folder or inside of it. Both have no links. */
function isWithin(folder: string, path: string): boolean {
  const way = relative(folder, path);
  return way === '' || (way !== '..' && !way.startsWith(`..${sep}`) && !isAbsolute(way));
}

/** Resolves the links of the part of a path that exists, and appends the rest. */
export async function resolveLinks(path: string): Promise<string> {
  const missing: string[] = [];
  let existing = path;
  for (;;) {
    try {
      return join(await realpath(existing), ...missing.toReversed());
    } catch (error) {
      // A link to a missing file must not be taken for a missing file.
      const isLink = await lstat(existing).then(() => true, () => false);
      const parent = dirname(existing);
      if (isLink || at(error, 'code') !== 'ENOENT' || parent === existing) throw fileError('access', path, error);
      missing.push(basename(existing));
      existing = parent;
    }
  }
}

export class Project {
  readonly folder: string;
  /** The folders of sessions that are not in the folder of the project. */
  private readonly others = new Set<string>();

  constructor(folder: string, private readonly hostIsInside?: (path: string) => Promise<boolean>) {
    this.folder = realOr(resolve(folder));
  }

  /** A folder that a session works in. */
  add(folder: string): void {
    this.others.add(realOr(resolve(folder)));
  }

  /** A path as views show it: relative to the folder, if it is inside. */
  shown(path: string): string {
    const way = relative(this.folder, realOr(path));
    const isInside = way !== '' && isWithin(this.folder, resolve(this.folder, way));
    return (isInside ? way : path).replaceAll('\\', '/');
  }

  url(path: string): string {
    return pathToFileURL(path).href;
  }

  /** Where a path leads to, and whether it may be used without asking. The path must be absolute. */
  async place(path: string): Promise<{ path: string; inside: boolean }> {
    if (!isAbsolute(path)) throw invalidParams(`the path must be absolute: ${path}`);
    const real = await resolveLinks(resolve(path));
    if (this.hostIsInside) return { path: real, inside: await this.hostIsInside(resolve(path)) };
    return { path: real, inside: [this.folder, ...this.others].some((folder) => isWithin(folder, real)) };
  }

  /** The file of a `file://` URL, an absolute path, or a path relative to a folder. It must be inside. */
  async locate(url: string, folder: string = this.folder): Promise<string> {
    const path = resolve(folder, pathOf(url));
    let place: { path: string; inside: boolean };
    try {
      place = await this.place(path);
    } catch (error) {
      throw new Error(messageOf(error));
    }
    if (!place.inside) throw new Error(`${path} is outside of the folder of the project`);
    return place.path;
  }
}

function pathOf(url: string): string {
  const scheme = /^([A-Za-z][A-Za-z0-9+.-]*):\/\//.exec(url)?.[1];
  if (scheme === undefined) return url;
  if (scheme !== 'file') throw new Error(`${url} is a ${scheme} URL; use a file URL`);
  try {
    return fileURLToPath(url);
  } catch {
    throw new Error(`the URL ${url} is not a file on this machine`);
  }
}
