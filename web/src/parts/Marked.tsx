// Text of others that a person relies on: characters that cannot be seen, change the order, or imitate others are marked.
import type { ComponentChildren } from 'preact';
import { markSuspicious, markText, type Piece } from '../base/suspicious';
import { Icon } from './Icon';

/**
 * A marked character. It stays in the text, so that columns and copies are right. Its name is drawn before it, and it
 * has a direction of its own.
 */
function Mark({ piece }: { piece: Piece }) {
  return <mark class={`marked${piece.hidden ? ' unseen' : ''}`} data-why={piece.why} title={piece.why ?? ''}>{piece.text}</mark>;
}

/** The pieces of a text, with marks. */
export function drawMarked(text: string, draw: (text: string) => ComponentChildren = (it) => it): ComponentChildren {
  const pieces = markText(text);
  if (!pieces) return draw(text);
  return pieces.map((piece, index) => (piece.why === null ? draw(piece.text) : <Mark key={index} piece={piece} />));
}

/** A path or a name, with a direction of its own. In a question, letters of other scripts count, too. */
export function Marked(props: { text: string; strict?: boolean }) {
  return (
    <bdi class="marked-text" dir="ltr">
      {props.strict ? markSuspicious(props.text).map((piece, index) => (
        piece.why === null ? piece.text : <Mark key={index} piece={piece} />)) : drawMarked(props.text)}
    </bdi>
  );
}

/** Says that characters are marked. */
export function MarkedNote(props: { found: number }) {
  if (props.found === 0) return null;
  return (
    <p class="command-warning is-warn">
      <Icon name="triangle-alert" />
      <span>
        {props.found === 1 ? 'One character is marked. It cannot be seen, or looks like another one.'
          : `${props.found} characters are marked. They cannot be seen, or look like others.`}
      </span>
    </p>
  );
}
