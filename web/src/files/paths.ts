// Paths as the server writes them: relative to the folder of the project, with `/`.

/** The last part of a path. */
export function baseName(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

/** The folder of a path. Empty for the folder of the project. */
export function folderOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf('/')));
}

export function join(folder: string, name: string): string {
  return folder ? `${folder}/${name}` : name;
}

/** All folders above a path, from the outside: `a/b/c` has `a` and `a/b`. */
export function foldersAbove(path: string): string[] {
  const found: string[] = [];
  for (let at = path.indexOf('/'); at > 0; at = path.indexOf('/', at + 1)) found.push(path.slice(0, at));
  return found;
}

/** Names for tabs: the last part, with as many folders as it takes to tell two paths apart. */
export function shortNames(paths: readonly string[]): Map<string, string> {
  const names = new Map<string, string>();
  for (const path of paths) {
    const parts = path.split('/');
    let length = 1;
    const tail = (other: string) => other.split('/').slice(-length).join('/');
    while (length < parts.length && paths.some((other) => other !== path && tail(other) === tail(path))) length += 1;
    names.set(path, tail(path));
  }
  return names;
}
