// Content of messages and tool calls that is not plain text: images, resources, and what a page cannot show.
import type { Block, FileDiff } from 'acp-conductor-client/link';
import { Code } from '../parts/Code';
import { Icon } from '../parts/Icon';
import { Markdown } from '../parts/Markdown';

export type OnFile = (path: string, line?: number) => void;
export type OnDiff = (diff: FileDiff) => void;

const shownImages = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];

export function Blocks(props: { blocks: readonly Block[]; onFile: OnFile }) {
  return <>{props.blocks.map((block, index) => <BlockView key={index} block={block} onFile={props.onFile} />)}</>;
}

function BlockView({ block, onFile }: { block: Block; onFile: OnFile }) {
  switch (block.block) {
    case 'text': return <Markdown text={block.text} onFile={onFile} />;
    case 'image':
      if (!block.data || !shownImages.includes(block.mime)) {
        return <Remark icon="image" text={`An image (${block.mime}) that is not part of the message. It is not loaded.`} />;
      }
      return <img class="block-image" src={`data:${block.mime};base64,${block.data}`} alt="Image from the agent" />;
    case 'resource':
      return (
        <div class="block-resource">
          <p class="row small"><Icon name="file-text" /><span class="cut" title={block.uri}>{block.name || block.uri}</span></p>
          {block.text !== null && <Code text={block.text} file={block.uri} />}
        </div>
      );
    case 'other': return <Remark icon="info" text={`The agent sent ${block.about}, which this page cannot show.`} />;
  }
}

function Remark(props: { icon: 'image' | 'info'; text: string }) {
  return <p class="block-remark row small muted"><Icon name={props.icon} /><span>{props.text}</span></p>;
}
