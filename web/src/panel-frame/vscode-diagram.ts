// The script of the diagram frame in VS Code. It has the policy of its page, which wants Trusted Types; mermaid has none.
import './diagram';

interface Factory {
  createPolicy(name: 'default', rules: { createHTML(text: string): string }): unknown;
}

(globalThis as unknown as { trustedTypes?: Factory }).trustedTypes?.createPolicy('default', { createHTML: (text) => text });
