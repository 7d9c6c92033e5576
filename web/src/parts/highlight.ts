// Highlighting: a text becomes lines of pieces with a class. There is no HTML in between.
import bash from 'highlight.js/lib/languages/bash';
import cpp from 'highlight.js/lib/languages/cpp';
import css from 'highlight.js/lib/languages/css';
import go from 'highlight.js/lib/languages/go';
import ini from 'highlight.js/lib/languages/ini';
import java from 'highlight.js/lib/languages/java';
import json from 'highlight.js/lib/languages/json';
import python from 'highlight.js/lib/languages/python';
import rust from 'highlight.js/lib/languages/rust';
import typescript from 'highlight.js/lib/languages/typescript';
import xml from 'highlight.js/lib/languages/xml';
import yaml from 'highlight.js/lib/languages/yaml';
import { createLowlight } from 'lowlight';

export type Piece = { text: string; cls: string | null };
export type Line = Piece[];

/** Longer texts and texts with a longer line stay plain: highlighting them takes too long. */
export const longestHighlighted = 256 * 1024;
const longestLine = 2000;

const lowlight = createLowlight({ bash, cpp, css, go, ini, java, json, python, rust, typescript, xml, yaml });

/** Other names of the languages, also the endings of files. */
const names: Record<string, string> = {
  sh: 'bash', shell: 'bash', zsh: 'bash', console: 'bash', c: 'cpp', h: 'cpp', cc: 'cpp', hpp: 'cpp', 'c++': 'cpp',
  scss: 'css', golang: 'go', toml: 'ini', conf: 'ini', lock: 'ini', kt: 'java', jsonc: 'json', json5: 'json',
  jsonl: 'json', py: 'python', rs: 'rust', ts: 'typescript', tsx: 'typescript', js: 'typescript', jsx: 'typescript',
  javascript: 'typescript', mjs: 'typescript', cjs: 'typescript', mts: 'typescript', html: 'xml', htm: 'xml',
  svg: 'xml', vue: 'xml', yml: 'yaml',
};

/** The language that we can highlight, or null. */
export function knownLanguage(name: string): string | null {
  const low = name.trim().toLowerCase().split(/[\s,{]/)[0] ?? '';
  const language = Object.hasOwn(names, low) ? names[low]! : low;
  return lowlight.registered(language) ? language : null;
}

/** The language of a file by its name. */
export function languageOf(path: string): string | null {
  const file = path.split('/').pop() ?? '';
  if (/^(\.bashrc|\.profile|Dockerfile|Makefile|.*\.env)$/.test(file)) return 'bash';
  return file.includes('.') ? knownLanguage(file.split('.').pop() ?? '') : null;
}

/** Lines of pieces. A text that is too long, or in an unknown language, has no classes. */
export function highlight(text: string, language: string): Line[] {
  const known = knownLanguage(language);
  if (!known || text.length > longestHighlighted || hasLongLine(text)) return plainLines(text);
  const lines: Line[] = [[]];
  walk(lowlight.highlight(known, text).children as Node[], null, lines);
  return lines;
}

export function plainLines(text: string): Line[] {
  return text.split('\n').map((line) => (line ? [{ text: line, cls: null }] : []));
}

function hasLongLine(text: string): boolean {
  for (let start = 0; start < text.length;) {
    const end = text.indexOf('\n', start);
    if ((end < 0 ? text.length : end) - start > longestLine) return true;
    if (end < 0) return false;
    start = end + 1;
  }
  return false;
}

type Node = { type: string; value?: string; properties?: { className?: string[] }; children?: Node[] };

function walk(nodes: Node[], cls: string | null, lines: Line[]): void {
  for (const node of nodes) {
    if (node.type === 'text') {
      (node.value ?? '').split('\n').forEach((part, i) => {
        if (i > 0) lines.push([]);
        const line = lines[lines.length - 1]!;
        const last = line[line.length - 1];
        if (part && last?.cls === cls) last.text += part;
        else if (part) line.push({ text: part, cls });
      });
    } else if (node.children) {
      walk(node.children, classOf(node.properties?.className ?? [], cls), lines);
    }
  }
}

/** Six colours are enough to read code. The names of highlight.js become one of them. */
const classes: Record<string, string | null> = {
  keyword: 't-key', 'selector-tag': 't-key', name: 't-key', doctag: 't-key', operator: null, punctuation: null,
  string: 't-str', regexp: 't-str', char: 't-str', link: 't-str', code: 't-str', addition: 't-str',
  number: 't-num', literal: 't-num', symbol: 't-num', bullet: 't-num',
  comment: 't-com', quote: 't-com', meta: 't-com', deletion: 't-com',
  title: 't-fn', section: 't-fn', attr: 't-fn', attribute: 't-fn', 'selector-id': 't-fn', 'selector-class': 't-fn',
  built_in: 't-type', type: 't-type', 'selector-attr': 't-type', 'selector-pseudo': 't-type', 'template-tag': 't-type',
  subst: null, params: null, variable: null, property: null, tag: null, 'template-variable': null,
};

function classOf(names: string[], outer: string | null): string | null {
  if (names.includes('class_')) return 't-type';
  const name = (names[0] ?? '').replace(/^hljs-/, '');
  return Object.hasOwn(classes, name) ? (classes[name] ?? null) : outer;
}
