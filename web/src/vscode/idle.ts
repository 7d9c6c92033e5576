// Tells tests when a page of the extension shows everything that it knows, as the studio does (`studio.tsx`).

const twoFrames = () => new Promise<void>((done) => {
  requestAnimationFrame(() => requestAnimationFrame(() => done()));
});

/** Defines `__idle`. It resolves when nothing waits to be shown or answered. */
export function startIdle(isIdle: () => boolean): void {
  // The type is that of the studio's.
  Object.assign(window, {
    __idle: async () => {
      do await twoFrames();
      while (!isIdle());
    },
  });
}
