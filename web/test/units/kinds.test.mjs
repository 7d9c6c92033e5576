// Which diagrams are drawn: mermaid cannot be stopped, so what would take long is refused.
import assert from 'node:assert/strict';
import test from 'node:test';
import { load } from './load.mjs';

const { refusal } = await load('panel-frame/kinds.ts');

const lines = (count, line) => Array.from({ length: count }, (_, i) => line(i)).join('\n');

/** Diagrams of usual size. */
const drawn = {
  flowchart: `flowchart LR\n${lines(150, (i) => `A${i} --> B${i} & C${i};`)}`,
  sequence: `sequenceDiagram\n${lines(300, (i) => `A${i % 9}->>B: message ${i} with some words`)}`,
  class: `classDiagram\n${lines(40, (i) => `C${i} <|-- D${i}\nC${i} : +name(String text)\nclass D${i}["A label: to be read"]`)}`,
  state: `stateDiagram-v2\n${lines(200, (i) => `s${i} --> s${i + 1} : an event with words`)}`,
  er: `erDiagram\n${lines(100, (i) => `E${i} ||--o{ F${i} : "has some"`)}\nE1 {\n${lines(200, (i) => `string a${i} PK`)}\n}`,
  gantt: `gantt\ntitle Sprint 2: 3 weeks\ndateFormat YYYY-MM-DD\naxisFormat %d %b\ntickInterval 1week\nexcludes weekends, 2026-12-24\nsection Build: part 1\n` +
    'one :done, a1, 2026-01-01, 10d\ntwo :crit, after a1, 2w\nthree :2026-02-01, 2026-09-30\nfour :milestone, m1, 2026-03-01, 0d\nfive :until m1',
  'gantt with seconds': 'gantt\n dateFormat X\n section a\n b :0, 2\n c :1763568000, 1763658000',
  'gantt with hours': 'gantt\ndateFormat HH:mm\ntickInterval 15minute\na :10:30, 90m',
  'gantt with other dates': 'gantt\ndateFormat DD/MM/YYYY\nexcludes sunday\na :01/02/2026, 20d\nb :03/02/2026, 10/02/2026',
  titled: '---\ntitle: T\n---\nerDiagram\nA ||--|| B : r',
};

for (const [name, text] of Object.entries(drawn)) {
  test(`a usual diagram is drawn: ${name}`, () => assert.equal(refusal(text), null));
}

/** What would keep the page busy for seconds, or for ever. */
const refused = {
  'flowchart of many lines': [`flowchart TD\n${lines(501, (i) => `n${i}`)}`, /500 lines/],
  'flowchart in one line': [`flowchart TD;${lines(501, (i) => `n${i};`).replaceAll('\n', '')}`, /500 lines/],
  'flowchart of many nodes in one statement': [`flowchart TD\n${lines(502, (i) => `n${i}`).replaceAll('\n', ' & ')}`, /500 lines/],
  'flowchart with a long word': [`flowchart TD\nA["${'x'.repeat(15_000)}"]`, /1000 letters/],
  'flowchart with a high label': [`flowchart TD\nA["${'x<BR/>'.repeat(600)}"]`, /500 lines/],
  sequence: [`sequenceDiagram\n${lines(501, (i) => `A${i}->>B: x`)}`, /500 lines/],
  class: [`classDiagram\n${lines(301, (i) => `C${i} <|-- D`)}`, /300 relations/],
  'class with dotted relations': [`classDiagram\n${lines(301, (i) => `C${i} ..> D`)}`, /300 relations/],
  state: [`stateDiagram-v2\n${lines(301, (i) => `s${i} --> s`)}`, /300 relations/],
  'state in one line': [`stateDiagram-v2\n${lines(2001, (i) => `s${i}`).replaceAll('\n', ' ')}`, /2000 words/],
  er: [`erDiagram\n${lines(301, (i) => `E${i} ||--|| F : r`)}`, /300 relations/],
  'er in words': [`erDiagram\n${lines(301, (i) => `E${i} one to many F : r`)}`, /300 relations/],
  'er in one line': [`erDiagram ${lines(1501, (i) => `E${i}`).replaceAll('\n', ' ')}`, /1500 words/],
  'gantt of many tasks': [`gantt\n${lines(501, (i) => `t :a${i}, 2026-01-01, 1d`)}`, /500 lines/],
  'gantt with ticks far apart': ['gantt\ntickInterval 1000000day\na :1900-01-01, 9000-01-01', /tickInterval/],
  'gantt with a long format': [`gantt\ndateFormat ${'YYYY '.repeat(500)}\na :2026-01-01, 1d`, /format/],
};

for (const [name, [text, why]] of Object.entries(refused)) {
  test(`a large diagram is not drawn: ${name}`, () => assert.match(refusal(text) ?? 'drawn', why));
}

for (const [name, task] of Object.entries({
  'a duration': '2026-01-01, 10000000d', 'a fraction': '2026-01-01, 99999.5w', 'a long year': 'a, 9999-01-01, 9999-12-31 10:00',
  'an early date': '0001-01-01, 2026-01-01 10:00', 'a short year': '2026-01-01, Jan 1 200', 'a year after a word': 'Jan-5000, 5d',
  'a number': '2026-01-01, 99999999999999', 'another format': '01-01-1900, 01-01-2199', 'two digits': '01/01/50, 01/01/49',
  'a large unit': '2026-01-01, 999y',
})) {
  test(`a chart that excludes days has a limit: ${name}`, () => {
    const chart = (excludes) => `gantt\n${excludes}\na :active, ${task}`;
    assert.match(refusal(chart('EXCLUDES 2026-01-05')) ?? 'drawn', /With excludes/);
    assert.equal(refusal(chart('')), null, 'without excludes, no day is counted');
  });
}

test('the days of all tasks are added up', () => {
  const tasks = (count) => `gantt\nexcludes sunday\n${lines(count, (i) => `t${i} :after t${i - 1}, 100d`)}`;
  assert.equal(refusal(tasks(200)), null);
  assert.match(refusal(tasks(201)) ?? 'drawn', /20000 days/);
  const until = `gantt\nexcludes sunday\na :x, 1999-01-01, 1d\n${lines(50, () => 'b :y, 2026-01-01, until x')}`;
  assert.match(refusal(until) ?? 'drawn', /20000 days/);
});

test('kinds that are not part of the build are not drawn', () => {
  for (const kind of ['mindmap', 'sankey-beta', 'quadrantChart', 'gitGraph', 'timeline', 'pie', 'journey', 'xychart-beta', 'block-beta']) {
    assert.match(refusal(`${kind}\n a`) ?? 'drawn', new RegExp(`the kind ${kind} cannot be drawn`));
  }
});
