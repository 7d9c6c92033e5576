// What conductor says on its standard error: why a chain has ended, and lines of its log.

/** Why the chain has ended, short enough for a message: what conductor itself said last. The chat has the rest. */
export function reasonOf(error: string | null): string {
  const lines = (error ?? '').split('\n').map((line) => line.trim()).filter(Boolean);
  const own = lines.findLast((line) => line.startsWith('conductor: '))?.slice('conductor: '.length);
  const text = (own ?? lines[0] ?? '').replace(/ \[more: [^\]]*\]$/, '');
  return `The chain has ended${text ? `: ${text}` : '.'}`;
}

/** A time, a level, the part of the program, and a text. */
const logLine = /^\d{4}-\d\d-\d\dT\S+Z\s+(ERROR|WARN|INFO|DEBUG|TRACE) (\S+): (.*)$/s;

/**
 * A line of the standard error of conductor, with its level. Its own log lines begin with a time, which the output has
 * already. Messages that components log come to VS Code by themselves, so their copy here is for debugging.
 */
export function errorLine(line: string): { level: 'error' | 'warn' | 'info' | 'debug' | 'trace'; text: string } {
  const [, name = '', target = '', text = ''] = logLine.exec(line) ?? [];
  if (!name) return { level: 'info', text: line };
  const levels = { ERROR: 'error', WARN: 'warn', INFO: 'info', DEBUG: 'debug', TRACE: 'trace' } as const;
  const level = Object.entries(levels).find(([it]) => it === name)?.[1] ?? 'info';
  return { level: target === 'acp_conductor::telemetry' ? 'debug' : level, text: `${target}: ${text}` };
}
