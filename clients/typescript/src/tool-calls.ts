// The tool calls of a turn: what earlier updates have said about each of them.
import { at, isObject, text } from './json';

/** The most tool calls that are remembered. */
const mostCalls = 1000;

type Call = Record<string, unknown>;

/** Members that are missing or null keep their value. */
function merged(call: Call, update: unknown): Call {
  if (!isObject(update)) return call;
  const members = Object.entries(update).filter(([name, value]) => {
    const isEmpty = Array.isArray(value) && value.length === 0;
    return value !== null && name !== 'sessionUpdate' && !(isEmpty && Object.hasOwn(call, name));
  });
  return { ...call, ...Object.fromEntries(members) };
}

export class ToolCalls {
  private readonly calls = new Map<string, Call>();

  /** Merges an update. */
  update(update: unknown): void {
    const id = text(at(update, 'toolCallId'));
    if (id === undefined || (this.calls.size >= mostCalls && !this.calls.has(id))) return;
    this.calls.set(id, merged(this.calls.get(id) ?? {}, update));
  }

  /** A tool call with everything that is known about it. */
  complete(call: unknown): Call {
    return merged(this.calls.get(text(at(call, 'toolCallId')) ?? '') ?? {}, call);
  }

  clear(): void {
    this.calls.clear();
  }
}
