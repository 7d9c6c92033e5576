// Highlights the code of a panel and has its diagrams drawn, with limits: a panel must not keep the page busy.
import { highlight, knownLanguage } from '../parts/highlight';
import type { Block, Fill } from '../panel-frame/messages';
import { drawDiagram } from './diagrams';

/** Characters of code that are highlighted, and diagrams that are drawn, in one panel. */
export const paintLimits = { code: 128 * 1024, diagrams: 20 };

export class Painter {
  private seq = 0;
  private blocks: Block[] = [];
  private scheme = '';
  /** What is the same in the next HTML is not made again. */
  private made = new Map<string, Fill | Promise<Fill>>();

  constructor(private readonly send: (seq: number, at: number, fill: Fill) => void) {}

  paint(seq: number, blocks: Block[], vars: Record<string, string>): void {
    this.seq = seq;
    this.blocks = blocks;
    this.scheme = JSON.stringify(vars);
    const before = this.made;
    this.made = new Map();
    let code = paintLimits.code;
    let diagrams = paintLimits.diagrams;
    blocks.forEach((block, at) => {
      const diagram = block.language === 'mermaid';
      const key = `${diagram ? this.scheme : ''}\n${block.language}\n${block.text}`;
      if (diagram) diagrams -= 1;
      else code -= block.text.length;
      let fill = this.made.get(key) ?? before.get(key);
      if (!fill && diagram) fill = diagrams >= 0 ? drawDiagram(block.text, vars) : tooMany;
      else if (!fill && code >= 0 && knownLanguage(block.language)) fill = paintCode(block);
      if (!fill) return;
      this.made.set(key, fill);
      if (!(fill instanceof Promise)) this.send(seq, at, fill);
      else void fill.then((drawn) => this.send(seq, at, drawn));
    });
  }

  /** Draws the diagrams in other colours. */
  repaint(vars: Record<string, string>): void {
    if (this.blocks.length > 0 && JSON.stringify(vars) !== this.scheme) this.paint(this.seq, this.blocks, vars);
  }
}

const tooMany: Fill = {
  problem: `A panel can show ${paintLimits.diagrams} diagrams. This one is shown as its source.`,
};

function paintCode({ text, language }: Block): Fill {
  const lines = highlight(text, language);
  return { lines: lines.map((line) => line.map((piece): [string, string | null] => [piece.text, piece.cls])) };
}
