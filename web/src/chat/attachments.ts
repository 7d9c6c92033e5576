// Makes attachments from files of the user: images and texts, with limits.
import { bytes } from '../base/format';
import type { Attachment } from 'acp-conductor-client/link';

export const maxImage = 5_000_000;
export const maxText = 500_000;
export const maxTotal = 10_000_000;

const imageTypes = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];

/** The bytes of an attachment in the message. */
function size(attachment: Attachment): number {
  if (attachment.attach === 'image') return attachment.data.length;
  return attachment.attach === 'text' ? attachment.text.length : 0;
}

export function nameOf(attachment: Attachment): string {
  return attachment.attach === 'file' ? attachment.path : attachment.name;
}

function toBase64(data: Uint8Array): string {
  let binary = '';
  for (let at = 0; at < data.length; at += 0x8000) binary += String.fromCharCode(...data.subarray(at, at + 0x8000));
  return btoa(binary);
}

/** The attachment, or the reason why the file cannot be attached. */
export async function attachFile(
  file: File, before: readonly Attachment[], images: boolean,
): Promise<Attachment | { problem: string }> {
  const name = file.name || 'image.png';
  const total = before.reduce((sum, other) => sum + size(other), 0);
  if (total + file.size > maxTotal) {
    return { problem: `${name} was not attached: all attachments together may have ${bytes(maxTotal)}.` };
  }
  if (file.type.startsWith('image/')) {
    if (!images) return { problem: `${name} was not attached: this agent does not take images.` };
    if (!imageTypes.includes(file.type)) {
      return { problem: `${name} was not attached: images may be PNG, JPEG, GIF or WebP.` };
    }
    if (file.size > maxImage) {
      return { problem: `${name} has ${bytes(file.size)}. An image may have ${bytes(maxImage)}.` };
    }
    const data = toBase64(new Uint8Array(await file.arrayBuffer()));
    return { attach: 'image', name, mime: file.type, data };
  }
  if (file.size > maxText) return { problem: `${name} has ${bytes(file.size)}. A text may have ${bytes(maxText)}.` };
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer());
    if (text.includes('\0')) throw new Error('binary');
    return { attach: 'text', name, text };
  } catch {
    return { problem: `${name} was not attached: it is neither an image nor text.` };
  }
}
