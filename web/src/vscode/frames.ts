// The sandboxed frames of a page in VS Code, as documents that the page writes itself.
//
// ## Why the contents of a panel are in a frame of their own
// A webview has an origin of its own, but our script in it can talk to the extension. So HTML of a component never gets
// into the webview's own document. It is in a frame with `sandbox="allow-scripts"`: that frame has an origin that equals
// no other, so its scripts cannot touch the document around it, `acquireVsCodeApi` or what we have got from it. If the
// cleaner were deceived, and the policy too, the attacker would have an empty room with one port, and the page checks
// every message of that port (`panels/guard.ts`).
//
// ## Why `srcdoc`
// VS Code gives files to a webview by a service worker. A sandboxed frame has no service worker, so it can load neither a
// document nor a script from there. The document of the frame is a constant text of this build with its script inside.
// Nothing of a component is part of that text.
//
// ## Why the page allows inline styles and a default policy
// A document from `srcdoc` has the policy of its page and can only add to it. The panel frame adds a strict one: no
// styles, no HTML but that of the cleaner. The diagram frame needs both, because mermaid does. The page itself makes no
// HTML from text, with Trusted Types as proof: the policy `conductor` below makes two constants and the address of one
// script, and only the diagram frame has a default policy.
import { diagramScript, panelScript, panelStyle } from 'conductor:frames';
import { type Frames, useFrames } from '../panels/frames';

interface Rules {
  createHTML?(text: string): string;
  createScriptURL?(text: string): string;
}

interface Factory {
  createPolicy(name: string, rules: Rules): Rules;
}

/** The text of the diagram library. `mermaid.js` sets it. */
declare global {
  interface Window {
    conductorMermaidText?: string;
  }
}

/** The script that is running: this one. It knows the nonce and where the diagram library is. */
const script = document.currentScript instanceof HTMLScriptElement ? document.currentScript : null;
const nonce = script?.nonce ?? '';
const mermaidAddress = script?.dataset['mermaid'] ?? '';

const rules = {
  createHTML: (text: string) => text,
  createScriptURL: (text: string) => {
    if (text !== mermaidAddress) throw new TypeError('This script is not part of Conductor.');
    return text;
  },
};
const factory = (globalThis as unknown as { trustedTypes?: Factory }).trustedTypes;
// Without Trusted Types, texts are what they are.
const policy = (factory?.createPolicy('conductor', rules) ?? rules) as typeof rules;

const meta = (policy: string) => `<meta http-equiv="Content-Security-Policy" content="${policy}">`;

function documentOf(title: string, head: string, body: string, ...scripts: string[]): string {
  const parts = scripts.map((text) => `<script nonce="${nonce}">${text}</script>`).join('');
  return policy.createHTML('<!doctype html><html lang="en"><head><meta charset="utf-8">'
    + `<meta name="viewport" content="width=device-width, initial-scale=1">${head}<title>${title}</title></head>`
    + `<body>${body}${parts}</body></html>`);
}

const noWayOut = "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'";

function panelDocument(): string {
  const policy = `${noWayOut}; script-src 'nonce-${nonce}'; require-trusted-types-for 'script'; trusted-types dompurify`;
  // The style sheet is made by the script: a sheet that a script makes needs no permission for styles in the document.
  return documentOf('Panel', meta(policy), '<main id="panel" tabindex="-1"></main>',
    `globalThis.conductorStyle=${JSON.stringify(panelStyle).replaceAll('<', '\\u003c')}`, panelScript);
}

let loading: Promise<string> | null = null;

function mermaidText(): Promise<string> {
  loading ??= new Promise((done, fail) => {
    const element = document.createElement('script');
    element.nonce = nonce;
    element.onload = () => {
      const text = window.conductorMermaidText;
      delete window.conductorMermaidText;
      if (text === undefined) fail(new Error('empty'));
      else done(text);
    };
    element.onerror = () => {
      loading = null;
      fail(new Error('not loaded'));
    };
    element.src = policy.createScriptURL(mermaidAddress);
    document.head.append(element);
  });
  return loading;
}

const inDocument: Frames = {
  panel: () => ({ srcdoc: panelDocument() }),
  async diagram(frame) {
    const policy = `${noWayOut}; script-src 'nonce-${nonce}'; style-src 'unsafe-inline'`;
    frame.srcdoc = documentOf('Diagrams', meta(policy), '', await mermaidText(), diagramScript);
  },
};

/** Called once, before anything is shown. */
export function startFrames(): void {
  useFrames(inDocument);
}
