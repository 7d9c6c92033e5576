// The documents of webviews. Their scripts and styles are the built files in media/ (web/src/vscode/api.ts).
import { randomBytes } from 'node:crypto';
import * as vscode from 'vscode';

export type PlaceOfPage = 'sidebar' | 'editor';

export const escaped = (text: string): string => text.replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);

export const newNonce = (): string => randomBytes(18).toString('base64url');

/** The folder that webviews may load files from. */
export const mediaFolder = (extension: vscode.Uri): vscode.Uri => vscode.Uri.joinPath(extension, 'media');

/** The chat, or a panel. */
export function pageHtml(
  webview: vscode.Webview, extension: vscode.Uri, name: 'chat' | 'panel', place: PlaceOfPage,
): string {
  const nonce = newNonce();
  const media = mediaFolder(extension);
  const file = (file: string) => escaped(webview.asWebviewUri(vscode.Uri.joinPath(media, file)).toString());
  const policy = [
    "default-src 'none'", `script-src 'nonce-${nonce}'`, `style-src ${webview.cspSource} 'unsafe-inline'`,
    `img-src ${webview.cspSource} data:`, `font-src ${webview.cspSource}`, "base-uri 'none'", "form-action 'none'",
    "require-trusted-types-for 'script'", 'trusted-types conductor dompurify default',
  ].join('; ');
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${escaped(policy)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Conductor</title>
<link rel="stylesheet" href="${file(`${name}.css`)}">
</head>
<body data-place="${place}">
<div id="root"></div>
<script nonce="${nonce}" src="${file(`${name}.js`)}" data-mermaid="${file('mermaid.js')}"></script>
</body>
</html>`;
}

export interface WelcomeButton { id: string; title: string; about?: string; main?: boolean }
export interface Welcome {
  title: string;
  text: string;
  buttons: WelcomeButton[];
  lists?: { title: string; buttons: WelcomeButton[] }[];
}

/** What the chat shows while no chain runs: why, and what can be done. */
export function welcomeHtml(welcome: Welcome): string {
  const nonce = newNonce();
  const policy = `default-src 'none'; script-src 'nonce-${nonce}'; style-src 'nonce-${nonce}'`;
  const button = ({ id, title, about, main }: WelcomeButton) => `<button type="button" data-id="${escaped(id)}"${
    main ? ' class="main"' : ''}><b>${escaped(title)}</b>${about ? `<span>${escaped(about)}</span>` : ''}</button>`;
  const list = (welcome.lists ?? []).filter(({ buttons }) => buttons.length)
    .map(({ title, buttons }) => `<h2>${escaped(title)}</h2>${buttons.map(button).join('')}`).join('');
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Conductor</title>
<style nonce="${nonce}">
body {
  padding: 16px 20px; max-width: 40em; margin: 0 auto; font: var(--vscode-font-size)/1.5 var(--vscode-font-family);
}
h1 { font-size: 1.25em; font-weight: 600; margin: 0 0 8px; }
h2 { font-size: 1em; font-weight: 600; margin: 20px 0 6px; color: var(--vscode-descriptionForeground); }
p { margin: 0 0 14px; white-space: pre-line; overflow-wrap: anywhere; }
button {
  display: block; width: 100%; box-sizing: border-box; margin: 6px 0; padding: 6px 10px; text-align: left; font: inherit;
  border: 1px solid var(--vscode-button-border, transparent); border-radius: 3px; cursor: pointer;
  color: var(--vscode-button-secondaryForeground); background: var(--vscode-button-secondaryBackground);
}
button:hover { background: var(--vscode-button-secondaryHoverBackground); }
button.main { color: var(--vscode-button-foreground); background: var(--vscode-button-background); text-align: center; }
button.main:hover { background: var(--vscode-button-hoverBackground); }
button:focus-visible { outline: 1px solid var(--vscode-focusBorder); outline-offset: 2px; }
button b { font-weight: 600; }
button span { display: block; opacity: .8; font-size: .92em; overflow-wrap: anywhere; }
</style>
</head>
<body>
<main>
<h1>${escaped(welcome.title)}</h1>
<p>${escaped(welcome.text)}</p>
${welcome.buttons.map(button).join('\n')}
${list}
</main>
<script nonce="${nonce}">
const vscode = acquireVsCodeApi();
document.addEventListener('click', (event) => {
  const button = event.target.closest('button');
  if (button) vscode.postMessage({ welcome: button.dataset.id });
});
</script>
</body>
</html>`;
}
