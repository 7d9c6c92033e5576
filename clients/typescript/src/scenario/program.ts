// The program that scenarios start.

/** The path of `conductor`: the environment variable CONDUCTOR_BIN, or the one on the PATH. */
export function program(): string {
  return process.env['CONDUCTOR_BIN'] ?? 'conductor';
}
