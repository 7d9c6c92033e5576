// The diagram library as a script of its own, with the six kinds of diagrams that `build.mjs` keeps.
import mermaid from 'mermaid';

declare global {
  interface Window { conductorMermaid?: typeof mermaid }
}
window.conductorMermaid = mermaid;
