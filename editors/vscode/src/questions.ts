// Texts of comments: the prompt of a question about lines of a file, and Markdown that loads nothing.

/** So many lines of code are part of a question. */
const mostQuoted = 60;

/** The prompt of a question: the place, its code, and what the person wants to know. */
export function questionText(file: string, lines: string, code: string, language: string, question: string): string {
  const all = code.split(/\r\n|\r|\n/);
  const quoted = all.length > mostQuoted ? [...all.slice(0, mostQuoted), '…'] : all;
  const longest = Math.max(2, ...(code.match(/`+/g) ?? []).map((ticks) => ticks.length));
  const fence = '`'.repeat(longest + 1);
  const name = /^[\w+-]+$/.test(language) ? language : '';
  return [`About ${file}:${lines}`, '', fence + name, ...quoted, fence, '', question.trim()].join('\n');
}

/**
 * Markdown without images: VS Code would load them from any address, and an address can carry what the agent has read.
 * An image becomes a link. A space without width is put in, so that code such as `vec![1]` looks as before.
 */
export function withoutImages(markdown: string): string {
  const mayHaveImages = /\]\s*[([:]/.test(markdown);
  return mayHaveImages ? markdown.replaceAll('![', '!\u200b[') : markdown;
}
