// The editor's side of ACP and SCP, for Node.
export * from './editor';
export * from './events';
export { filesIn, readText, writeText } from './files';
export type { Host } from './host';
export type { Program } from './program';
export { RpcError } from './rpc-error';
export * from './scp';
export { LinkHost } from './link/host';
export { type Entries, Topics, type TopicChange, type TopicListener } from './link/topics';
export type * from './link/types';
