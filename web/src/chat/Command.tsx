// A command line in full, with marks on characters that hide what it does.
import { markSuspicious } from '../base/suspicious';
import { Marked, MarkedNote } from '../parts/Marked';

export function Command(props: { text: string; label: string; folder?: string | null }) {
  const pieces = markSuspicious(props.text);
  const found = pieces.filter((piece) => piece.why !== null).length;
  return (
    <div class="command">
      <pre class="command-text" tabIndex={0} role="group" aria-label={props.label}>
        <code dir="ltr">
          {pieces.map((piece, index) => (piece.why === null ? piece.text : (
            <mark key={index} class="suspicious" title={piece.why}>
              {piece.hidden ? piece.why : <>{piece.text}<span class="suspicious-why"> {piece.why}</span></>}
            </mark>
          )))}
        </code>
      </pre>
      {props.folder && <p class="small muted command-folder">in <code><Marked text={props.folder} strict /></code></p>}
      <MarkedNote found={found} />
    </div>
  );
}
