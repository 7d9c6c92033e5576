// JSON-RPC, one message a line, for the peers that no SDK can play because they speak many generations.

import { createInterface } from "node:readline";

/**
 * One connection. By callbacks and not by promises, so that what comes in order leaves in order. An outcome
 * is `{ result }` or `{ error }`.
 */
export class Link {
  #output;
  #waiting = new Map(); // id → what to do with the outcome
  #ids = 0;

  /** `on` has `request(id, method, params)`, `notification(method, params)` and `closed()`. */
  constructor(input, output, on) {
    this.#output = output;
    output.on("error", () => {}); // It has gone: `closed` says so.
    const lines = createInterface({ input, crlfDelay: Infinity });
    lines.on("line", (line) => {
      if (line.trim() === "") return;
      const { id, method, params, result, error } = JSON.parse(line);
      if (method === undefined) {
        const answered = this.#waiting.get(id);
        this.#waiting.delete(id);
        answered?.(error === undefined ? { result } : { error });
      } else if (id === undefined) {
        on.notification(method, params);
      } else {
        on.request(id, method, params);
      }
    });
    lines.on("close", () => {
      const error = { code: -32603, message: "the other side has gone" };
      for (const answered of this.#waiting.values()) answered({ error });
      on.closed();
    });
  }

  /** Returns the id of the request. */
  ask(method, params, answered) {
    const id = this.#ids++;
    this.#waiting.set(id, answered);
    this.#send({ id, method, params });
    return id;
  }

  tell(method, params) {
    this.#send({ method, params });
  }

  answer(id, outcome) {
    this.#send({ id, ...outcome });
  }

  /** The answer to this request is not wanted any more. */
  forget(id) {
    this.#waiting.delete(id);
  }

  #send(message) {
    this.#output.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  }
}
