// The licences of the packages that are part of the built files. Equal texts appear once.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The text for the packages of these folders: those of their lock files that are not only for development. */
export function licences(...folders) {
  const byText = new Map();
  const names = [];
  for (const folder of folders) {
    const { packages } = JSON.parse(readFileSync(join(folder, 'package-lock.json'), 'utf8'));
    for (const [path, { version, license, dev, optional }] of Object.entries(packages)) {
      const place = join(folder, path);
      // Packages of other platforms are not installed. The icons of the pages are copies from a package for development.
      const isPart = !dev || path.endsWith('/lucide-static');
      if (!path || !isPart || path.includes('node_modules/@types/') || (optional && !existsSync(place))) continue;
      const name = `${path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)} ${version}`;
      if (names.some((it) => it.startsWith(`${name} `))) continue;
      names.push(`${name} (${license ?? 'see below'})`);
      const text = textOf(place);
      if (text) byText.set(text, [...(byText.get(text) ?? []), name]);
    }
  }
  const texts = [...byText].map(([text, users]) => `${'-'.repeat(80)}\n${users.sort().join(', ')}\n\n${text}`).sort();
  return `This extension contains this third-party software:\n\n${names.sort().join('\n')}\n\n${texts.join('\n\n')}\n`;
}

/** The licence of a package, without spaces that only differ. */
function textOf(folder) {
  if (!existsSync(folder)) return '';
  const files = readdirSync(folder).filter((name) => /^(licen[cs]e|copying|notice)([.-].*)?$/i.test(name)).sort();
  return files.map((name) => readFileSync(join(folder, name), 'utf8').replace(/\r\n/g, '\n').trim()).join('\n\n');
}
