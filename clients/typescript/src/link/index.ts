// The link: how a page follows the state that somebody else holds, and asks for actions.
//
// The studio's page is linked to `conductor studio`, and the chat of an editor to the program that holds its sessions.
export * from './action';
export * from './check';
export * from './decode';
export * from './host';
export * from './replica';
export * from './topics';
export * from './transport';
export type * from './types';
