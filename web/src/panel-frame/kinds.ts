// Which diagrams are drawn. Mermaid knows more kinds, but they are not part of our build. It lays a diagram out on the
// thread of the page and cannot be stopped, so a diagram that would take long is refused before it begins.
import { ganttProblem } from './gantt-cost';

const ours = /^(flowchart|graph|sequenceDiagram|classDiagram|stateDiagram|erDiagram|gantt)\b/;

const longestText = 20_000;
/** The most lines, with those that have no line break of their own. */
const mostLines = 500;
/** The most characters without a blank. Mermaid measures such a word letter by letter, again and again. */
const longestWord = 1000;
/** The most relations, as for flowcharts, where mermaid counts them itself. */
const mostRelations = 300;

/** Why a diagram is not drawn, or null. */
export function refusal(text: string): string | null {
  if (text.length > longestText) return 'The diagram is too long to be drawn.';
  // A title before the diagram is welcome. Other settings could change how it is drawn.
  const untitled = text.replace(/^\s*---\n\s*title:[^\n]*\n---\s*\n/, '');
  if (/%%\s*\{/.test(text) || /^\s*---/.test(untitled)) return 'A diagram must not change the settings of the drawing.';
  const body = untitled.replace(/^\s*%%.*$/gm, '').trimStart();
  const kind = ours.exec(body)?.[1];
  if (kind) return sizeProblem(body) ?? (ofKind[kind]?.(body) ?? null);
  const other = /^[\w-]{1,40}/.exec(body)?.[0];
  return other ? `A diagram of the kind ${other} cannot be drawn here.` : 'The diagram is empty.';
}

function count(text: string, what: RegExp): number {
  return text.match(what)?.length ?? 0;
}

function sizeProblem(body: string): string | null {
  // A statement also ends with `;`. In a flowchart, `&` adds a node. `<br>` is a line of a label.
  if (count(body, /[\n\r;&]|<br/gi) > mostLines) return `The diagram has more than ${mostLines} lines, so it is not drawn.`;
  if (new RegExp(`\\S{${longestWord + 1}}`).test(body)) {
    return `The diagram has a word of more than ${longestWord} letters, so it is not drawn.`;
  }
  return null;
}

const ofKind: Record<string, (body: string) => string | null> = {
  classDiagram: (body) => tooManyRelations(count(body, /--|\.\./g)),
  // States and entities also follow one another without a line break, so words are counted.
  stateDiagram: (body) => tooManyRelations(count(body, /-->/g)) ?? tooManyWords(body, 2000),
  erDiagram: (body) => tooManyRelations(count(body, /--|\.\.|\bto\b/g)) ?? tooManyWords(body, 1500),
  gantt: ganttProblem,
};

function tooManyRelations(found: number): string | null {
  return found > mostRelations ? `The diagram has more than ${mostRelations} relations, so it is not drawn.` : null;
}

function tooManyWords(body: string, most: number): string | null {
  return count(body, /\S+/g) > most ? `The diagram has more than ${most} words, so it is not drawn.` : null;
}
