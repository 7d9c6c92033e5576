// Every colour of text has enough contrast on every background of its theme.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';

const css = readFileSync(new URL('../../src/style/tokens.css', import.meta.url), 'utf8');

/** The colours of the rule that begins with this selector. */
function colours(selector) {
  const start = css.indexOf(`${selector} {`);
  assert.ok(start >= 0, selector);
  const rule = css.slice(start, css.indexOf('}', start));
  return Object.fromEntries([...rule.matchAll(/--([\w-]+): (#[0-9a-f]{6})/g)].map(([, name, value]) => [name, value]));
}

function luminance(colour) {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255)
    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(one, other) {
  const [high, low] = [luminance(one), luminance(other)].sort((a, b) => b - a);
  return (high + 0.05) / (low + 0.05);
}

const backgrounds = ['bg', 'bg-2', 'bg-3', 'ins-bg', 'del-bg', 'warn-bg'];
const texts = ['text', 'text-2', 'accent', 'ok', 'warn', 'err', 'code-keyword', 'code-string', 'code-number', 'code-comment',
  'code-function', 'code-type'];
const themes = { light: ':root', dark: ":root[data-theme='dark']" };

for (const [name, selector] of Object.entries(themes)) {
  test(`the ${name} colours have enough contrast`, () => {
    const values = colours(selector);
    for (const background of backgrounds) {
      for (const text of texts) {
        assert.ok(contrast(values[text], values[background]) >= 4.5, `${text} on ${background}`);
      }
      assert.ok(contrast(values.ctl, values[background]) >= 3, `ctl on ${background}`);
    }
    for (let lane = 1; lane <= 6; lane += 1) assert.ok(contrast(values[`lane-${lane}`], values['bg-3']) >= 4.5, `lane ${lane}`);
    assert.ok(contrast(values['on-accent'], values.accent) >= 4.5);
  });
}

test('the dark theme of the switch is that of the system', () => {
  assert.deepEqual(colours(":root[data-theme='dark']"), colours(":root:not([data-theme='light'])"));
});
