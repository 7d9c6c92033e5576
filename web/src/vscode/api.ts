// The way between a page in VS Code and the extension. All messages that a page sends and takes are here.
//
// ## What the extension writes
// Both pages are classic scripts. `N` is a new random text for each page, `URI` is `webview.asWebviewUri(file)`, and
// `CSP` is `webview.cspSource`. The chat is the same with `chat.css`, `chat.js`; a panel with `panel.css`, `panel.js`:
//
//   <!DOCTYPE html>
//   <html lang="en">
//   <head>
//   <meta charset="utf-8">
//   <meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'nonce-N'; style-src CSP
//     'unsafe-inline'; img-src CSP data:; font-src CSP; base-uri 'none'; form-action 'none';
//     require-trusted-types-for 'script'; trusted-types conductor dompurify default">
//   <meta name="viewport" content="width=device-width, initial-scale=1">
//   <title>Conductor</title>
//   <link rel="stylesheet" href="URI of chat.css">
//   </head>
//   <body data-place="sidebar">
//   <div id="root"></div>
//   <script nonce="N" src="URI of chat.js" data-mermaid="URI of mermaid.js"></script>
//   </body>
//   </html>
//
// `data-place` is `sidebar` or `editor`: it tells which background the page has. `frames.ts` says why the policy needs
// inline styles and the names of Trusted Types. The pages themselves make neither HTML nor styles from text.
// `localResourceRoots` is the folder of the built files, `enableScripts` is true. The chat needs no
// `retainContextWhenHidden`. A panel should have it: what a person has typed into its widgets is only in the page.
import type { ToServer } from 'acp-conductor-client/link';

/** What the pages send to the extension. */
export type ToExtension =
  /** A message of the link, for `LinkHost`. Only the chat sends it. The first one is `hello`. */
  | { link: ToServer }
  /** A panel has loaded and waits for `{ panel }`. It may come again: VS Code throws hidden pages away. */
  | { ready: true }
  /** What the person did with a widget of a panel. */
  | { event: { widget: string; kind: string; value: string | boolean | null; inputs?: Record<string, string> } }
  /** Paths are relative to the first folder, or absolute. Lines count from 1. */
  | { host: 'openFile'; path: string; line?: number }
  /** `old` is null for a new file. */
  | { host: 'openDiff'; path: string; old: string | null; new: string }
  | { host: 'openPanel'; id: string }
  | { host: 'showLog' }
  /** A link of a panel, `https:`, `http:` or `mailto:`. VS Code asks the person before it opens it. */
  | { host: 'openLink'; href: string }
  /** The extension runs these commands and no others. */
  | { host: 'command'; command: Command };

export type Command =
  | 'conductor.start' | 'conductor.chooseChain'
  // Keys of VS Code that were pressed in the frame of a panel, where VS Code does not see them.
  | 'workbench.action.showCommands' | 'workbench.action.quickOpen' | 'workbench.action.toggleSidebarVisibility'
  | 'workbench.action.togglePanel' | 'workbench.action.closeActiveEditor' | 'workbench.action.nextEditor'
  | 'workbench.action.previousEditor' | 'workbench.action.focusNextPart' | 'workbench.action.focusPreviousPart';

interface VsCodeApi {
  postMessage(message: ToExtension): void;
  getState(): unknown;
  setState(state: unknown): void;
}

declare function acquireVsCodeApi(): VsCodeApi;

/** It can be got once. No other script of the page can get it after us. */
export const vscode: VsCodeApi = acquireVsCodeApi();

type Fields = Record<string, unknown>;

/**
 * Calls back for each message of the extension. VS Code hands them on from a page of the same origin. The sandboxed
 * frames of ours have no origin, so what a frame posts to this window is never taken for a message of the extension.
 */
export function onMessage(take: (message: Fields) => void): void {
  addEventListener('message', (event) => {
    if (event.origin !== self.origin || typeof event.data !== 'object' || event.data === null) return;
    take(event.data as Fields);
  });
}
