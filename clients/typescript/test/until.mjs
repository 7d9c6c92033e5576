// Waits for a fact, with a deadline.
import assert from 'node:assert/strict';

/** Long, because the tests share the machine. */
const deadline = 60_000;

/** Waits until `fact` returns something true, and returns it. `follow` gets a function to call after each change. */
export function until(follow, fact, what) {
  const found = fact();
  if (found) return Promise.resolve(found);
  return new Promise((resolve, reject) => {
    let end = () => {};
    const timer = setTimeout(() => {
      end();
      reject(new assert.AssertionError({ message: `it did not come in time: ${what}` }));
    }, deadline);
    const check = () => {
      let now;
      try {
        now = fact();
      } catch (error) {
        clearTimeout(timer);
        end();
        reject(error);
        return;
      }
      if (!now) return;
      clearTimeout(timer);
      end();
      resolve(now);
    };
    end = follow(check);
  });
}
