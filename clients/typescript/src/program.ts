// The program that an editor runs: `conductor agent …`, or any agent of ACP.

export interface Program {
  command: string;
  args: string[];
  /** The folder that the program runs in. */
  cwd: string;
  /** The environment of the program. Without it, the program has that of this process. */
  env?: Record<string, string | undefined>;
}
