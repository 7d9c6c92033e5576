// A command line in full, with marks on characters that hide what it does.
import { markSuspicious } from '../base/suspicious';
import { Icon } from '../parts/Icon';

export function Command(props: { text: string; label: string }) {
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
      {found > 0 && (
        <p class="command-warning is-warn">
          <Icon name="triangle-alert" />
          <span>
            {found === 1 ? 'One character is marked. It cannot be seen, or looks like another one.'
              : `${found} characters are marked. They cannot be seen, or look like others.`}
          </span>
        </p>
      )}
    </div>
  );
}
