// A diagram in a text. A sandboxed frame draws it, and the drawing is shown as an image, which runs and loads nothing.
import { useEffect, useState } from 'preact/hooks';
import { colours, themeTokens } from '../base/theme';
import { drawDiagram } from '../panels/diagrams';
import type { Fill } from '../panel-frame/messages';
import { Code } from './Code';

export function Diagram(props: { text: string }) {
  const [drawn, setDrawn] = useState<Fill | null>(null);
  const shownColours = colours.value;
  useEffect(() => {
    let current = true;
    void drawDiagram(props.text, themeTokens()).then((fill) => {
      if (current) setDrawn(fill);
    });
    return () => {
      current = false;
    };
  }, [props.text, shownColours]);
  if (drawn === null || !('svg' in drawn)) {
    return (
      <div class="diagram">
        {drawn && 'problem' in drawn && <p class="diagram-problem">{drawn.problem}</p>}
        <Code text={props.text} language="mermaid" />
      </div>
    );
  }
  const first = props.text.trim().split('\n')[0]?.slice(0, 80) ?? '';
  return (
    <figure class="diagram">
      <div class="diagram-picture" tabIndex={0} role="group" aria-label="Diagram">
        <img src={`data:image/svg+xml;charset=utf-8,${encodeURIComponent(drawn.svg)}`} alt={`Diagram: ${first}`}
          width={Math.ceil(drawn.width)} height={Math.ceil(drawn.height)}
          style={{ minWidth: `${Math.ceil(drawn.width * 0.65)}px` }} />
      </div>
      <details>
        <summary>Source of the diagram</summary>
        <Code text={props.text} language="mermaid" />
      </details>
    </figure>
  );
}
