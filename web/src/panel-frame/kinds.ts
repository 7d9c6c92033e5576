// Which kinds of diagrams there are. Mermaid knows more, but they are not part of our build.

const ours = /^(flowchart|graph|sequenceDiagram|classDiagram|stateDiagram|erDiagram|gantt)\b/;

/** Why a diagram is not drawn, or null. */
export function refusal(text: string): string | null {
  if (text.length > 20_000) return 'The diagram is too long to be drawn.';
  // A title before the diagram is welcome. Other settings could change how it is drawn.
  const untitled = text.replace(/^\s*---\n\s*title:[^\n]*\n---\s*\n/, '');
  if (/%%\s*\{/.test(text) || /^\s*---/.test(untitled)) return 'A diagram must not change the settings of the drawing.';
  const body = untitled.replace(/^\s*%%.*$/gm, '').trimStart();
  if (ours.test(body)) return null;
  const kind = /^[\w-]{1,40}/.exec(body)?.[0];
  return kind ? `A diagram of the kind ${kind} cannot be drawn here.` : 'The diagram is empty.';
}
