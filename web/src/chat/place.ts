// Where a person reads in a conversation. A page that is thrown away and made again goes back to it.
import { useLayoutEffect, useRef } from 'preact/hooks';

/** The first row in view, and how far it is below the upper edge. */
export interface ReadingPlace {
  row: string;
  below: number;
}

/** Keeps the place for the next page. Null means the end, which the view follows. */
export interface KeptPlace {
  get(): ReadingPlace | null;
  set(place: ReadingPlace | null): void;
}

interface Ref<T> {
  current: T;
}

/** The heights of rows are known when they are drawn, so the way to a row takes some frames. */
const mostFrames = 60;
/** So many frames without a change mean that the place is reached. */
const quietFrames = 6;

/**
 * Goes to the kept place when the first rows are there. `show` draws the row and does not follow the end any more.
 * The result notes the place after something has moved.
 */
export function usePlace(
  place: KeptPlace | undefined, rows: readonly string[], box: Ref<HTMLElement | null>, following: Ref<boolean>,
  show: (row: string) => void,
): () => void {
  const state = useRef({ done: false, moving: false, asked: false });
  const some = rows.length > 0;
  useLayoutEffect(() => {
    const now = state.current;
    if (!some || now.done) return;
    now.done = true;
    const wanted = place?.get();
    if (!wanted || !rows.includes(wanted.row)) return;
    following.current = false;
    show(wanted.row);
    now.moving = true;
    goTo(box, wanted, () => (now.moving = false));
  }, [some]);
  return () => {
    const now = state.current;
    // Before the first rows, the view is nowhere.
    if (!place || !now.done || now.asked) return;
    now.asked = true;
    requestAnimationFrame(() => {
      now.asked = false;
      if (now.moving) return;
      const found = following.current ? null : placeIn(box.current);
      if (found !== undefined) place.set(found);
    });
  };
}

/** Where the view is, or undefined if it shows no row. */
function placeIn(box: HTMLElement | null): ReadingPlace | undefined {
  if (!box) return undefined;
  const { top } = box.getBoundingClientRect();
  const row = [...box.querySelectorAll<HTMLElement>('article')].find((one) => one.getBoundingClientRect().bottom > top + 1);
  const id = row?.dataset['id'];
  return row && id ? { row: id, below: Math.round(row.getBoundingClientRect().top - top) } : undefined;
}

/** Scrolls to a place and stays there until all heights are known, or the person takes over. */
function goTo(box: Ref<HTMLElement | null>, wanted: ReadingPlace, done: () => void): void {
  let frames = mostFrames;
  let quiet = 0;
  const stop = () => (frames = 0);
  const signs = ['wheel', 'pointerdown', 'keydown', 'touchstart'];
  for (const sign of signs) addEventListener(sign, stop, { capture: true, passive: true });
  const move = () => {
    const element = box.current;
    const row = element?.querySelector(`article[data-id="${CSS.escape(wanted.row)}"]`);
    const away = element && row ? row.getBoundingClientRect().top - element.getBoundingClientRect().top - wanted.below : 0;
    if (element && frames > 0 && Math.abs(away) >= 1) {
      element.scrollTop += away;
      quiet = 0;
    } else quiet += 1;
    frames -= 1;
    if (frames > 0 && quiet < quietFrames) {
      requestAnimationFrame(move);
      return;
    }
    for (const sign of signs) removeEventListener(sign, stop, { capture: true });
    done();
  };
  requestAnimationFrame(move);
}
