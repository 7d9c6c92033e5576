// Errors of JSON-RPC: those that this side answers with, and those that the other side has answered with.
import { at, text } from './json';

export interface RpcErrorObject { code: number; message: string; data?: unknown }

/** The answer to a request: its result, or an error. */
export type Outcome = { ok: unknown } | { error: RpcErrorObject };

/** An error with a code. Thrown by whatever performs a request of the agent, and by requests to it. */
export class RpcError extends Error {
  constructor(readonly code: number, message: string, readonly data?: unknown) {
    super(message);
    this.name = 'RpcError';
  }

  toObject(): RpcErrorObject {
    return { code: this.code, message: this.message, ...(this.data === undefined ? {} : { data: this.data }) };
  }
}

export const invalidParams = (why: string): RpcError => new RpcError(-32602, why);
export const internal = (why: string): RpcError => new RpcError(-32603, why);
export const methodNotFound = (method: string): RpcError => new RpcError(-32601, `method not found: ${method}`);
export const cancelled = (): RpcError => new RpcError(-32800, 'the request was cancelled');

/** What an error says, for people. */
export function messageOf(error: unknown): string {
  if (error instanceof Error) return error.message;
  return text(at(error, 'message')) ?? String(error);
}

/** Any error that was thrown, as an error of JSON-RPC. */
export function toRpcError(error: unknown): RpcError {
  return error instanceof RpcError ? error : internal(messageOf(error));
}

/** The error about a file. Some agents recognise a missing file by the words of its error, so they are always the same. */
export function fileError(what: string, path: string, error: unknown): RpcError {
  if (error instanceof RpcError) return error;
  const code = at(error, 'code');
  // `FileNotFound` is the code of VS Code.
  if (code === 'ENOENT' || code === 'FileNotFound') {
    return new RpcError(-32002, `Resource not found: ${path}: No such file or directory (ENOENT)`, { uri: path });
  }
  return internal(`cannot ${what} ${path}: ${messageOf(error)}`);
}
