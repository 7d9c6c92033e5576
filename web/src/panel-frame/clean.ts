// Cleans the HTML of a panel. Only what is on these lists comes through.
import DOMPurify, { type Config } from 'dompurify';
import { limits } from './messages';

/** False only in a build for tests that checks what the frame's policy stops by itself. */
declare const __CLEANER__: boolean;

const tags = `a abbr b blockquote br button caption code col colgroup dd del details dfn div dl dt em figcaption figure
  h1 h2 h3 h4 h5 h6 hr i img input ins kbd label li mark ol optgroup option p pre progress q s samp section select
  small span strong sub summary sup table tbody td textarea tfoot th thead time tr u ul var wbr`.split(/\s+/);
const addresses = ['href', 'src'];
const others = `alt aria-label checked class colspan data-file data-language data-line data-submit data-value data-widget
  datetime dir disabled height lang max open placeholder reversed rows rowspan scope selected start title type value
  width`.split(/\s+/);

const config: Config = {
  ALLOWED_TAGS: tags,
  ALLOWED_ATTR: [...addresses, ...others],
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  SANITIZE_NAMED_PROPS: true,
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|data:image\/(?:png|jpeg|gif|webp);base64,)/i,
  // The expression is used for all attributes that are not named here.
  ADD_URI_SAFE_ATTR: others,
  // The nodes, not their HTML: what is not parsed a second time cannot become something else.
  RETURN_DOM_FRAGMENT: true,
};

DOMPurify.addHook('uponSanitizeAttribute', (_node, data) => {
  if (data.attrName !== 'class') return;
  data.attrValue = data.attrValue.split(/\s+/).filter((name) => /^c-[\w-]+$/.test(name)).join(' ');
  data.keepAttr = data.attrValue !== '';
});
DOMPurify.addHook('afterSanitizeAttributes', (node) => {
  if (node.nodeName === 'IMG') placeImage(node);
  if (node.nodeName === 'INPUT') plainInput(node);
  if (node.nodeName === 'BUTTON') node.setAttribute('type', 'button');
  // An address in other elements has no use.
  if (node.nodeName !== 'A') node.removeAttribute('href');
  if (node.nodeName !== 'IMG') node.removeAttribute('src');
});

/** An image that is not part of the HTML is not loaded; its address is shown. */
function placeImage(image: Element): void {
  const address = image.getAttribute('src') ?? '';
  if (/^data:image\//i.test(address)) {
    if (!image.hasAttribute('alt')) image.setAttribute('alt', '');
    return;
  }
  image.removeAttribute('src');
  image.setAttribute('title', address);
}

function plainInput(input: Element): void {
  const type = input.getAttribute('type')?.toLowerCase() ?? 'text';
  if (type === 'checkbox' || type === 'radio') input.setAttribute('disabled', '');
  else if (type !== 'number' && type !== 'search') input.setAttribute('type', 'text');
}

/** The cleaned nodes, or null if there are too many of them. */
export function clean(html: string): DocumentFragment | null {
  // Counted before they are made.
  let signs = 0;
  for (let at = html.indexOf('<'); at >= 0; at = html.indexOf('<', at + 1)) signs++;
  if (html.length > limits.html || signs > 3 * limits.elements) return null;
  const fragment = __CLEANER__ ? (DOMPurify.sanitize(html, config) as unknown as DocumentFragment) : unclean(html);
  return fragment.querySelectorAll('*').length > limits.elements ? null : fragment;
}

function unclean(html: string): DocumentFragment {
  interface Rules { createHTML(text: string): string }
  const policies = (globalThis as unknown as {
    trustedTypes?: { createPolicy(name: string, rules: Rules): Rules };
  }).trustedTypes;
  const policy = policies?.createPolicy('dompurify', { createHTML: (text) => text });
  const range = document.createRange();
  range.selectNode(document.body);
  return range.createContextualFragment(policy ? policy.createHTML(html) : html);
}
