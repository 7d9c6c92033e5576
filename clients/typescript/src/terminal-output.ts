// The output of a terminal, of which the last part is kept.

/** Whether a byte is inside of a character of UTF-8. */
const isInner = (byte: number | undefined): boolean => byte !== undefined && byte >= 0x80 && byte < 0xc0;

/** How many bytes at the end are a character whose other bytes are still to come. */
function partOfCharacter(bytes: Buffer): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back += 1) {
    const byte = bytes[bytes.length - back] ?? 0;
    if (isInner(byte)) continue;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}

export class TerminalOutput {
  private chunks: Buffer[] = [];
  private length = 0;
  /** Whether bytes were removed from the beginning. */
  private removed = false;
  /** Whether the output has ended. */
  ended = false;
  /** The number of bytes that were ever added. */
  total = 0;

  /** At most so many bytes of the text are kept. */
  constructor(private readonly limit: number) {}

  push(bytes: Buffer): void {
    this.chunks.push(bytes);
    this.length += bytes.length;
    this.total += bytes.length;
    // Not after every chunk, because all bytes move.
    if (this.length > 2 * this.limit + 32 * 1024) {
      const whole = Buffer.concat(this.chunks);
      this.chunks = [Buffer.from(whole.subarray(whole.length - this.limit))];
      this.length = this.limit;
      this.removed = true;
    }
  }

  /** The text, and whether its beginning is missing. */
  text(): { text: string; truncated: boolean } {
    let bytes = Buffer.concat(this.chunks);
    this.chunks = [bytes];
    if (this.removed) {
      let cut = 0;
      while (cut < 3 && isInner(bytes[cut])) cut += 1;
      bytes = bytes.subarray(cut);
    }
    if (!this.ended) bytes = bytes.subarray(0, bytes.length - partOfCharacter(bytes));
    // Bytes that are not text become longer, so the limit is applied to the text.
    const text = Buffer.from(bytes.toString('utf8'));
    if (text.length <= this.limit) return { text: text.toString('utf8'), truncated: this.removed };
    let start = text.length - this.limit;
    while (isInner(text[start])) start += 1;
    return { text: text.subarray(start).toString('utf8'), truncated: true };
  }
}
