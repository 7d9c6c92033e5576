// The two live regions of the page. Everything else is silent for screen readers.
import { assertiveText, politeText } from '../base/live';

export function Live() {
  return (
    <>
      <div class="hidden-text" role="status" aria-live="polite" data-live="polite">{politeText}</div>
      <div class="hidden-text" role="alert" aria-live="assertive" data-live="assertive">{assertiveText}</div>
    </>
  );
}
