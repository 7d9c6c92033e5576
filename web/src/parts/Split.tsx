// A bar between two parts that changes the width of the right part, by pointer or by arrow keys.
import { useRef, useState } from 'preact/hooks';

export function Split(props: {
  label: string;
  /** The width of the right part. */
  width: number;
  min: number;
  max: number;
  onWidth: (width: number) => void;
}) {
  const start = useRef<{ x: number; width: number } | null>(null);
  const [held, setHeld] = useState(false);
  const set = (width: number) => props.onWidth(Math.round(Math.min(props.max, Math.max(props.min, width))));
  return (
    <div class={`split-bar${held ? ' held' : ''}`} role="separator" aria-orientation="vertical" tabIndex={0}
      aria-label={props.label} aria-valuenow={props.width} aria-valuemin={props.min} aria-valuemax={props.max}
      onKeyDown={(event) => {
        const step = event.shiftKey ? 64 : 16;
        if (event.key === 'ArrowLeft') set(props.width + step);
        else if (event.key === 'ArrowRight') set(props.width - step);
        else if (event.key === 'Home') set(props.min);
        else if (event.key === 'End') set(props.max);
        else return;
        event.preventDefault();
      }}
      onPointerDown={(event) => {
        start.current = { x: event.clientX, width: props.width };
        event.currentTarget.setPointerCapture(event.pointerId);
        setHeld(true);
      }}
      onPointerMove={(event) => {
        if (start.current) set(start.current.width + start.current.x - event.clientX);
      }}
      onPointerUp={() => {
        start.current = null;
        setHeld(false);
      }}
      onLostPointerCapture={() => {
        start.current = null;
        setHeld(false);
      }} />
  );
}
