// Copies the icons that the pages use from lucide-static (ISC licence) into src/parts/icons.ts.
// Run it with `node scripts/icons.mjs` after a change of the list.
import { readFileSync, writeFileSync } from 'node:fs';

const names = `arrow-down arrow-up at-sign brain check chevron-down chevron-right circle circle-alert circle-check
  circle-dot circle-question-mark circle-x clock copy ellipsis external-link eye file file-diff file-text folder
  folder-open globe image info list-todo log-in menu message-square minus monitor moon move panel-right paperclip
  pencil plus refresh-cw reply rotate-cw scroll-text search send square sun terminal trash-2 triangle-alert unplug
  wrench x layout-dashboard command`.split(/\s+/).sort();

const folder = new URL('../node_modules/lucide-static/icons/', import.meta.url);

const shapes = {
  path: (a) => a.d,
  line: (a) => `M${a.x1} ${a.y1}L${a.x2} ${a.y2}`,
  polyline: (a) => `M${a.points.replace(/\s+/g, ' ').split(' ').join('L')}`,
  polygon: (a) => `M${a.points.replace(/\s+/g, ' ').split(' ').join('L')}Z`,
  circle: ({ cx, cy, r }) => `M${cx - r} ${cy}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`,
  ellipse: ({ cx, cy, rx, ry }) => `M${cx - rx} ${cy}a${rx} ${ry} 0 1 0 ${2 * rx} 0a${rx} ${ry} 0 1 0 ${-2 * rx} 0`,
  rect({ x = 0, y = 0, width, height, rx = 0, ry = rx }) {
    const [w, h, r, s] = [width - 2 * rx, height - 2 * ry, rx, ry];
    const arc = (dx, dy) => (Number(r) ? `a${r} ${s} 0 0 1 ${dx} ${dy}` : '');
    return `M${Number(x) + Number(r)} ${y}h${w}${arc(r, s)}v${h}${arc(-r, s)}h${-w}${arc(-r, -s)}v${-h}${arc(r, -s)}`;
  },
};

function toPath(name) {
  const svg = readFileSync(new URL(`${name}.svg`, folder), 'utf8');
  const inner = svg.slice(svg.indexOf('>', svg.indexOf('<svg')) + 1, svg.lastIndexOf('</svg'));
  const parts = [...inner.matchAll(/<(\w+)([^>]*?)\/>/g)].map(([, tag, rest]) => {
    const attrs = Object.fromEntries([...rest.matchAll(/([\w-]+)="([^"]*)"/g)].map(([, k, v]) => [k, v]));
    if (!shapes[tag]) throw new Error(`${name}: unknown shape ${tag}`);
    return shapes[tag](attrs);
  });
  if (!parts.length) throw new Error(`${name}: no shapes`);
  // A path that begins with a relative move needs its own start.
  return parts.map((d) => d.replace(/^m/, 'M0 0m')).join('');
}

const lines = names.map((name) => `  '${name}':\n    '${toPath(name)}',`);
writeFileSync(new URL('../src/parts/icons.ts', import.meta.url), `// Made by scripts/icons.mjs from lucide-static (ISC licence). Do not edit.

export const icons = {
${lines.join('\n')}
} as const;
`);
