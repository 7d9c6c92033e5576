// Waits for facts, with a deadline.

/** How long a fact may take to become true. Long, because the tests share the machine. */
export const DEADLINE = 30_000;

/** Waits until `fact` returns something true, and returns it. `fact` may fail until then. */
export async function until(fact, what = 'the fact', deadline = DEADLINE) {
  const end = Date.now() + deadline;
  for (;;) {
    let last;
    try {
      const value = await fact();
      if (value) return value;
    } catch (error) {
      last = error;
    }
    if (Date.now() > end) throw new Error(`${what} did not become true in ${deadline} ms`, { cause: last });
    await new Promise((next) => setTimeout(next, 15));
  }
}
