// Texts of components and agents in places with one line: titles, messages, tooltips.

/** Control characters, characters that change the direction, and separators of lines. */
const unshown = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]+/g;

/** The beginning of a text, on one line. */
export function shortLine(text: string, most: number): string {
  // What follows cannot be shown, so that it need not be read.
  const line = text.slice(0, 4 * most).replace(unshown, ' ').replace(/ {2,}/g, ' ').trim();
  return line.length > most ? `${line.slice(0, most - 1).replace(/[\ud800-\udbff]$/, '')}…` : line;
}

/** The longest text in a message of VS Code. */
const longest = 500;

/**
 * A text for a message of VS Code. VS Code makes links of `[text](address)` there, also links that run commands. A space
 * without width keeps it from that.
 */
export function messageText(text: string): string {
  return shortLine(text, longest).replaceAll('](', ']\u200b(');
}

/** Whether a text is the address of a page or a mailbox. */
export function isExternal(href: string): boolean {
  return /^(https?|mailto):[^\s\u0000-\u001f\u007f]+$/i.test(href) && URL.canParse(href);
}
