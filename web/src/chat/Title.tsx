// A title of an agent: text in which `code` may be marked. Characters that cannot be seen or that change the order are shown.
import { markSuspicious } from '../base/suspicious';

/** The title without marks, for labels and screen readers. */
export function plainTitle(title: string): string {
  return title.replaceAll('`', '');
}

const unseen = /[\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]/;
/** Parts of one emoji are joined by this character. */
const joined = /\p{Extended_Pictographic}[\ufe0f\u{1f3fb}-\u{1f3ff}]?\u200d/gu;

function Plain({ text }: { text: string }) {
  if (!unseen.test(text.replace(joined, ''))) return <>{text}</>;
  return (
    <>
      {markSuspicious(text).map((piece, index) => (
        unseen.test(piece.text) ? <mark key={index} class="suspicious">{piece.why}</mark> : piece.text))}
    </>
  );
}

export function Title({ text }: { text: string }) {
  const parts = text.split('`');
  // An odd number of marks means that they are no marks.
  if (parts.length % 2 === 0) return <Plain text={text} />;
  return <>{parts.map((part, index) => (index % 2 ? <code key={index} dir="ltr"><Plain text={part} /></code>
    : <Plain key={index} text={part} />))}</>;
}
