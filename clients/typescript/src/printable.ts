// Makes texts of components safe to show: without escape sequences, control characters and changes of direction.

/** The kinds of escape sequences, and characters that are not shown. Each part is read once. */
const hidden = new RegExp([
  // OSC, DCS and similar: a text that ends with BEL or ST. Without such an end, the text is shown.
  String.raw`(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\n\x18\x1a\x1b\x80-\x9f]*(?:\x07|\x9c|\x1b\\)`,
  String.raw`\x1b[\]PX^_]`,
  // CSI: parameters, then one final character.
  String.raw`(?:\x1b\[|\x9b)[ -?]*[@-~]?`,
  // ESC, optional intermediate characters, and a final character.
  String.raw`\x1b[ -/]*[0-~]?`,
  // Control characters, characters that change the direction, line and paragraph separators.
  String.raw`[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]`,
].join('|'), 'g');

/** Removes escape sequences and control characters. Keeps line breaks and tabs. */
export function plain(text: string): string {
  return text.replace(hidden, '');
}

/** As `plain`, with spaces in place of line breaks and tabs. */
export function oneLine(text: string): string {
  return plain(text).replace(/[\n\t]/g, ' ');
}
