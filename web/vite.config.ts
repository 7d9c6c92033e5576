// How the pages are built. `node build.mjs` is the command to use: it also builds the scripts of the panels.
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vite';

/** The pages. `parts` has all parts in all states. It and `panel-test` are for tests, never in the program. */
function pages(): Record<string, string> {
  const names = process.env.CONDUCTOR_PARTS ? ['studio', 'inspector', 'parts', 'panel-test'] : ['studio', 'inspector'];
  const found = names.filter((name) => existsSync(new URL(`${name}.html`, import.meta.url)));
  return Object.fromEntries(found.map((name) => [name, `${name}.html`]));
}

export default defineConfig({
  base: '/assets/',
  publicDir: false,
  envDir: false,
  resolve: { alias: { 'acp-conductor-client/link': fileURLToPath(new URL('../clients/typescript/src/link/index.ts', import.meta.url)) } },
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    outDir: '../crates/web/dist',
    emptyOutDir: true,
    target: 'es2022',
    sourcemap: false,
    modulePreload: false,
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    rollupOptions: {
      input: pages(),
      output: {
        // Fixed names. The groups keep them fixed also for chunks that are shared.
        entryFileNames: '[name].js',
        chunkFileNames: '[name].js',
        assetFileNames: '[name][extname]',
        codeSplitting: { groups: [{ name: 'vendor', test: /node_modules/ }, { name: 'shared', minShareCount: 2 }] },
      },
    },
  },
});
