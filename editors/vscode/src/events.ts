// The log: the output "Conductor", and key events in a stable form.
//
// Each event is a line of the output. If the environment variable CONDUCTOR_VSCODE_EVENTS names a file, it is appended
// there as a line of JSON, too, with its texts. That is for tests: they wait for these lines.
import { appendFileSync } from 'node:fs';
import * as vscode from 'vscode';
import type { LogLine } from 'acp-conductor-client';
import type { EditorEvent } from 'acp-conductor-client/events';

/** What happens in VS Code itself. The events of the conversation are those of the library. */
export type OwnEvent =
  | { event: 'activate'; ms: number; version: string }
  | { event: 'program'; path: string; version: string }
  | { event: 'no program'; problem: string }
  | { event: 'start'; chain: string[]; folder: string; restored: number; continues: string | null }
  | { event: 'stop' }
  | { event: 'off'; why: string }
  | { event: 'chat'; place: string }
  | { event: 'chat linked'; place: string }
  | { event: 'session shown'; session: string }
  | { event: 'panel tab'; id: string; label: string; title: string }
  | { event: 'panel closed'; id: string }
  | { event: 'panel event'; id: string; widget: string; kind: string; value: string | boolean | null }
  | { event: 'comment thread'; id: string; file: string; range: [number, number, number, number]; comments: number }
  | { event: 'comment resolved'; id: string }
  | { event: 'asked'; file: string; lines: string; text: string }
  | { event: 'operation'; name: string; params: unknown }
  | { event: 'operation done'; name: string; result: unknown }
  | { event: 'operation failed'; name: string; error: string }
  | { event: 'edit diff'; id: string; file: string; title: string }
  | { event: 'file read'; path: string; open: boolean }
  | { event: 'file written'; path: string; open: boolean }
  | { event: 'kept'; conversations: number };

export type AnyEvent = EditorEvent | OwnEvent;

/** An event in one line. What person, agent and files say is left out: an output is no place for it. */
function ownLine(event: OwnEvent): string {
  switch (event.event) {
    case 'program': return `conductor ${event.version} at ${event.path}`;
    case 'no program': return event.problem;
    case 'start': return `start ${event.chain.join(' → ')} in ${event.folder}`;
    case 'off': return `nothing runs: ${event.why}`;
    case 'chat': case 'chat linked': return `${event.event} (${event.place})`;
    case 'session shown': return `session shown ${event.session}`;
    case 'panel tab': return `panel show ${event.id}`;
    case 'panel closed': return `panel closed ${event.id}`;
    case 'panel event': return `panel event ${event.id} ${event.widget} ${event.kind}`;
    case 'comment thread': return `comment show ${event.id} ${event.file}:${event.range[0] + 1}`;
    case 'comment resolved': return `comment resolved ${event.id}`;
    case 'asked': return `question about ${event.file}:${event.lines}`;
    case 'operation': return `operation ${event.name}`;
    case 'operation done': return `operation done ${event.name}`;
    case 'operation failed': return `operation failed ${event.name}: ${event.error}`;
    case 'edit diff': return `edit diff ${event.id} ${event.file}`;
    case 'file read': case 'file written': return `${event.event} ${event.path}${event.open ? ' (open)' : ''}`;
    case 'kept': return `${event.conversations} conversations were kept`;
    default: return event.event;
  }
}

const quiet = ['chat', 'chat linked', 'session shown', 'panel event', 'operation done', 'file read', 'kept'];

export class Log {
  private channel: vscode.LogOutputChannel | null = null;
  private messages: vscode.OutputChannel | null = null;

  constructor(private readonly file: string | undefined = process.env['CONDUCTOR_VSCODE_EVENTS'] || undefined) {}

  get output(): vscode.LogOutputChannel {
    this.channel ??= vscode.window.createOutputChannel('Conductor', { log: true });
    return this.channel;
  }

  /** The output with every message on the wire. */
  get wire(): vscode.OutputChannel {
    this.messages ??= vscode.window.createOutputChannel('Conductor Messages', 'json');
    return this.messages;
  }

  /** The output is made when there is more to write: that would take most of the time. */
  activated(ms: number, version: string): void {
    this.append({ event: 'activate', ms, version });
  }

  /** An event of VS Code itself. */
  own(event: OwnEvent): void {
    this.append(event);
    const line = ownLine(event);
    if (event.event === 'no program' || event.event === 'operation failed') this.write('warn', line);
    else this.write(quiet.includes(event.event) ? 'debug' : 'info', line);
  }

  /** An event of the library, with its line. The library writes log messages itself. */
  follow(event: EditorEvent, line: string): void {
    this.append(event);
    if (event.event === 'log') return;
    if (event.event === 'error' || (event.event === 'chain' && event.error !== null)) this.write('error', line);
    else this.write(event.event === 'thought' || event.event === 'message' ? 'debug' : 'info', line);
  }

  /** A log message of a component. */
  component({ level, component, text, data }: LogLine): void {
    const line = `${component === null ? '' : `[${component}] `}${text}${data === null ? '' : ` ${data}`}`;
    const known = level === 'warning' ? 'warn' : level;
    this.write(known === 'error' || known === 'warn' || known === 'debug' || known === 'trace' ? known : 'info', line);
  }

  /** A message on the wire. */
  trace(direction: 'in' | 'out', message: unknown): void {
    this.wire.appendLine(`${direction === 'in' ? '←' : '→'} ${JSON.stringify(message)}`);
  }

  /** A line of the output. */
  write(level: 'error' | 'warn' | 'info' | 'debug' | 'trace', line: string): void {
    try {
      this.output[level](line);
    } catch {
      // The window is closing, and its output with it.
    }
  }

  private append(event: AnyEvent): void {
    if (this.file === undefined) return;
    try {
      appendFileSync(this.file, `${JSON.stringify(event)}\n`);
    } catch {
      // Only tests read the file.
    }
  }

  dispose(): void {
    this.channel?.dispose();
    this.messages?.dispose();
  }
}
