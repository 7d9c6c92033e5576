// An icon of the Lucide set. It is decoration: the text beside it, or the label of its button, says the same.
import { icons } from './icons';

export type IconName = keyof typeof icons;

export function Icon(props: { name: IconName; class?: string; size?: number }) {
  const size = props.size ?? 16;
  return (
    <svg class={`icon ${props.class ?? ''}`} width={size} height={size} viewBox="0 0 24 24" aria-hidden="true"
      focusable="false">
      <path d={icons[props.name]} />
    </svg>
  );
}
