// The scripts and styles of the sandboxed frames as texts. `build.mjs` makes this module.
declare module 'conductor:frames' {
  export const panelScript: string;
  export const panelStyle: string;
  export const diagramScript: string;
}
