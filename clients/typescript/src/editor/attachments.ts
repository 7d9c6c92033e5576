// A prompt as content blocks: its text, and what is attached.
import { stat } from 'node:fs/promises';
import { readText } from '../files';
import { at } from '../json';
import type { Attachment } from '../link/types';
import type { Core } from './core';

/** The largest file that is embedded in a prompt. Larger ones are only named. */
const mostEmbedded = 256 * 1024;

export interface PromptContent { blocks: unknown[]; names: string[] }

/** Whether the content of a prompt is known at once. */
export function isImmediate(attachments: readonly Attachment[]): boolean {
  return attachments.every((it) => it.attach !== 'file');
}

/** The content of a prompt without files. Throws an error for people. */
export function immediateContent(core: Core, text: string, attachments: readonly Attachment[]): PromptContent {
  return joined(text, attachments.map((it) => (it.attach === 'file' ? [] : [other(core, it)])).flat());
}

/** The content of a prompt. Throws an error for people. */
export async function promptContent(
  core: Core, text: string, attachments: readonly Attachment[],
): Promise<PromptContent> {
  const parts: Part[] = [];
  for (const it of attachments) parts.push(it.attach === 'file' ? await file(core, it.path) : other(core, it));
  return joined(text, parts);
}

interface Part { block: unknown; name: string }

function joined(text: string, parts: Part[]): PromptContent {
  const blocks = [...(text ? [{ type: 'text', text }] : []), ...parts.map((it) => it.block)];
  if (blocks.length === 0) throw new Error('write a message, or attach a file');
  return { blocks, names: parts.map((it) => it.name) };
}

const embeds = (core: Core): boolean => at(core.promptCapabilities, 'embeddedContext') === true;

async function file(core: Core, path: string): Promise<Part> {
  const found = await core.project.locate(path);
  const [uri, name] = [core.project.url(found), core.project.shown(found)];
  const about = await stat(found).catch(() => {
    throw new Error(`the file ${path} does not exist`);
  });
  const isSmall = about.isFile() && about.size <= mostEmbedded;
  const read = (it: string) => core.host.readTextFile?.(it, {}) ?? readText(it);
  const text = embeds(core) && isSmall ? await read(found).catch(() => undefined) : undefined;
  const block = text === undefined ? { type: 'resource_link', uri, name } : { type: 'resource', resource: { uri, text } };
  return { block, name };
}

function other(core: Core, attachment: Exclude<Attachment, { attach: 'file' }>): Part {
  const { name } = attachment;
  if (attachment.attach === 'image') {
    if (at(core.promptCapabilities, 'image') !== true) {
      throw new Error(`the agent does not accept images; remove ${name}`);
    }
    return { block: { type: 'image', mimeType: attachment.mime, data: attachment.data }, name };
  }
  const { text } = attachment;
  const block = embeds(core)
    ? { type: 'resource', resource: { uri: `attachment:${name}`, text } }
    : { type: 'text', text: `${name}:\n\n${text}` };
  return { block, name };
}
