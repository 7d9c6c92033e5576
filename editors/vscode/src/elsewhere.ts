// Sessions that other windows of the workspace show. This window does not go on with one of them by itself.

export class Elsewhere {
  private readonly ids: Set<string>;

  constructor(ids: readonly string[]) {
    this.ids = new Set(ids);
  }

  /** Whether a page that shows this session has to show another one. */
  has(id: string | null): boolean {
    return id !== null && this.ids.has(id);
  }

  /**
   * A page shows a session. One that is not ready remembers it from before; in one that is ready, the person has chosen it.
   * Then it belongs to this window as well. Returns whether this window goes on with the session.
   */
  show(id: string, isReady: boolean): boolean {
    if (isReady) this.ids.delete(id);
    return !this.ids.has(id);
  }
}
