// Markdown of agents as elements. There is no HTML string anywhere, remote images are not loaded.
import type { Token, Tokens } from 'marked';
import { Component, type ComponentChildren } from 'preact';
import { useMemo, useRef } from 'preact/hooks';
import '../style/markdown.css';
import { Code } from './Code';
import { Diagram } from './Diagram';
import { asPlace, linkedFile, safeAddress, shownTarget, splitPlaces, type FilePlace } from './links';
import { decodeEntities, GrowingText, isClosedFence, lexAll } from './markdown-blocks';

type OnFile = (path: string, line?: number) => void;

export interface MarkdownProps {
  text: string;
  /** More text may come. */
  open?: boolean | undefined;
  onFile?: OnFile | undefined;
}

export function Markdown(props: MarkdownProps) {
  const growing = useRef<GrowingText | null>(null);
  const open = props.open === true;
  const blocks = useMemo(() => {
    if (!open) {
      growing.current = null;
      return lexAll(props.text);
    }
    growing.current ??= new GrowingText();
    return growing.current.update(props.text);
  }, [props.text, open]);
  const last = blocks.tokens.length - 1;
  const levels = headingLevels(blocks.tokens);
  let diagrams = 0;
  return (
    <div class={open ? 'md md-open' : 'md'}>
      {blocks.tokens.map((token, i) => {
        const before = diagrams;
        diagrams += diagramsIn(token);
        return (
          <Block key={i} token={token} links={blocks.links} level={levels[i] ?? 2} open={open && i === last}
            diagrams={before} onFile={props.onFile} />
        );
      })}
    </div>
  );
}

interface BlockProps {
  token: Token;
  links: number;
  /** The level of a heading. */
  level: number;
  open: boolean;
  /** How many diagrams are in the blocks before it. */
  diagrams: number;
  onFile: OnFile | undefined;
}

/** How a block is drawn. `diagrams` counts those of the text so far. */
interface Drawing {
  onFile: OnFile | undefined;
  diagrams: number;
}

/**
 * The page has one h1, so headings begin with h2. A level is never left out, whatever the author wrote: the levels
 * are what screen readers jump by. How large a heading looks is its depth in the text.
 */
function headingLevels(tokens: Token[]): number[] {
  const outer: number[] = [];
  return tokens.map((token) => {
    if (token.type !== 'heading') return 2 + outer.length;
    const depth = (token as Tokens.Heading).depth;
    while (outer.length > 0 && outer[outer.length - 1]! >= depth) outer.pop();
    outer.push(depth);
    return 1 + outer.length;
  });
}

/** The most diagrams that are drawn in one text. Drawing keeps the page busy. */
const mostDiagrams = 20;

function isDiagram(token: Token): boolean {
  return token.type === 'code' && token.lang === 'mermaid';
}

/** How many diagrams are in a block, with those in its quotes and lists. */
function diagramsIn(some: Token): number {
  const token = some as Tokens.Generic & Token;
  if (!token.raw.includes('mermaid')) return 0;
  if (isDiagram(token)) return 1;
  const inside: Token[] = [...(token.tokens ?? []), ...((token.items as Token[] | undefined) ?? [])];
  return inside.reduce((sum, one) => sum + diagramsIn(one), 0);
}

/** One block. It is drawn again only if its text has changed. */
class Block extends Component<BlockProps> {
  override shouldComponentUpdate(next: BlockProps): boolean {
    const now = this.props;
    const same = now.token === next.token || (now.token.raw === next.token.raw && now.token.type === next.token.type);
    return !same || now.links !== next.links || now.level !== next.level || now.open !== next.open
      || now.diagrams !== next.diagrams || now.onFile !== next.onFile;
  }

  override render() {
    const { token, onFile, diagrams, open, level } = this.props;
    return drawBlock(token, { onFile, diagrams }, open, level);
  }
}

function drawBlocks(tokens: Token[] | undefined, drawing: Drawing, open: boolean): ComponentChildren {
  return tokens?.map((token, i) => drawBlock(token, drawing, open && i === tokens.length - 1, 6));
}

function drawBlock(some: Token, drawing: Drawing, open: boolean, level: number): ComponentChildren {
  const token = some as Tokens.Generic & Token;
  const { onFile } = drawing;
  const inside = () => drawInline(token.tokens, onFile);
  switch (token.type) {
    case 'space': case 'def': return null;
    case 'paragraph': return <p>{inside()}</p>;
    // The text of a list item without blank lines.
    case 'text': return token.tokens ? inside() : drawInline([token], onFile);
    case 'checkbox': return drawBox(token.checked);
    case 'heading': {
      // Headings in quotes and lists are no headings of the message.
      const Heading = level < 6 ? (`h${level}` as 'h2') : 'p';
      return <Heading class={`md-h${token.depth}`}>{inside()}</Heading>;
    }
    case 'hr': return <hr />;
    case 'code':
      if (isDiagram(token)) {
        drawing.diagrams += 1;
        if (drawing.diagrams > mostDiagrams) return <TooMany text={token.text} />;
        if (!open || isClosedFence(token.raw)) return <Diagram text={token.text} />;
      }
      return <Code text={token.text} language={token.lang ?? ''} open={open && !isClosedFence(token.raw)} />;
    case 'blockquote': return <blockquote>{drawBlocks(token.tokens, drawing, open)}</blockquote>;
    case 'list': return drawList(token as Tokens.List, drawing, open);
    case 'table': return drawTable(token as Tokens.Table, onFile);
    case 'html': return <p class="md-html">{token.raw.trimEnd()}</p>;
    default: return drawInline([token], onFile);
  }
}

function TooMany(props: { text: string }) {
  return (
    <div class="diagram">
      <p class="diagram-problem">A text can show {mostDiagrams} diagrams. This one is shown as its source.</p>
      <Code text={props.text} language="mermaid" />
    </div>
  );
}

function drawBox(checked: boolean) {
  return <span class="md-box" role="img" aria-label={checked ? 'Done:' : 'Open:'}>{checked ? '☑' : '☐'}</span>;
}

function drawList(list: Tokens.List, drawing: Drawing, open: boolean) {
  const items = list.items.map((item, i) => (
    <li key={i} class={item.task ? 'md-task' : undefined}>
      {drawBlocks(item.tokens, drawing, open && i === list.items.length - 1)}
    </li>
  ));
  return list.ordered ? <ol start={list.start === '' ? 1 : list.start}>{items}</ol> : <ul>{items}</ul>;
}

function drawTable(table: Tokens.Table, onFile: OnFile | undefined) {
  const cls = (cell: Tokens.TableCell) => (cell.align ? `md-${cell.align}` : undefined);
  return (
    <div class="md-table" tabIndex={0} role="group" aria-label="Table">
      <table>
        <thead>
          <tr>
            {table.header.map((cell) => <th scope="col" class={cls(cell)}>{drawInline(cell.tokens, onFile)}</th>)}
          </tr>
        </thead>
        <tbody>
          {table.rows.map((row) => (
            <tr>{row.map((cell) => <td class={cls(cell)}>{drawInline(cell.tokens, onFile)}</td>)}</tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function drawInline(tokens: Token[] | undefined, onFile: OnFile | undefined): ComponentChildren {
  return tokens?.map((token, i) => drawOne(token as Tokens.Generic & Token, i, onFile));
}

function drawOne(token: Tokens.Generic & Token, key: number, onFile: OnFile | undefined): ComponentChildren {
  const inside = () => drawInline(token.tokens, onFile);
  switch (token.type) {
    case 'text': return token.tokens ? inside() : drawText(token.text, onFile);
    case 'escape': return token.text;
    case 'strong': return <strong key={key}>{inside()}</strong>;
    case 'em': return <em key={key}>{inside()}</em>;
    case 'del': return <del key={key}>{inside()}</del>;
    case 'br': return <br key={key} />;
    case 'codespan': {
      const place = onFile && asPlace(token.text);
      return place ? <FileLink key={key} place={place} onFile={onFile}><code>{token.text}</code></FileLink>
        : <code key={key}>{token.text}</code>;
    }
    case 'link': return drawLink(token as Tokens.Link, key, onFile);
    case 'image': return drawImage(token as Tokens.Image, key);
    // HTML is not Markdown here: it is shown as it was written.
    default: return token.raw;
  }
}

function drawText(text: string, onFile: OnFile | undefined): ComponentChildren {
  const decoded = decodeEntities(text);
  if (!onFile) return decoded;
  return splitPlaces(decoded).map((part, i) =>
    typeof part === 'string' ? part : <FileLink key={i} place={part} onFile={onFile}>{part.text}</FileLink>);
}

function FileLink(props: { place: FilePlace; onFile: OnFile; children: ComponentChildren }) {
  const { path, line } = props.place;
  return (
    <button type="button" class="md-file" title={line ? `Open ${path}, line ${line}` : `Open ${path}`}
      onClick={() => props.onFile(path, line)}>
      {props.children}
    </button>
  );
}

function drawLink(link: Tokens.Link, key: number, onFile: OnFile | undefined): ComponentChildren {
  const inside = drawInline(link.tokens, undefined);
  const url = safeAddress(link.href);
  if (url) {
    const target = shownTarget(url, link.text);
    return (
      <span key={key}>
        <a href={url.href} target="_blank" rel="noopener noreferrer">{inside}</a>
        {target && <span class="md-host"> ({target})</span>}
      </span>
    );
  }
  const file = onFile ? linkedFile(link.href) : null;
  if (file && onFile) return <FileLink key={key} place={file} onFile={onFile}>{inside}</FileLink>;
  // Not a link that we open. Its target stays readable.
  return <span key={key} class="md-dead">{inside} <span class="md-host">({link.href})</span></span>;
}

function drawImage(image: Tokens.Image, key: number): ComponentChildren {
  if (/^data:image\/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]+$/.test(image.href)) {
    return <img key={key} class="md-image" src={image.href} alt={image.text} />;
  }
  const what = image.text ? `Image: ${image.text}` : 'Image';
  return <span key={key} class="md-image-place">{what} <span class="md-host">(not loaded: {image.href})</span></span>;
}
