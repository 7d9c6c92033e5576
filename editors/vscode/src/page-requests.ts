// What pages ask VS Code for: to open files, changes, panels and links, and to run a few commands.
import * as vscode from 'vscode';
import type { ChainControl } from './chain';
import { isExternal } from './lines';
import { messages } from './messages';
import { why } from './small';

/** The commands that a page may ask for. The others are keys that VS Code does not see in the frame of a panel. */
const allowed = [
  'conductor.startChain', 'conductor.restartChain', 'conductor.chooseChain',
  'workbench.action.showCommands', 'workbench.action.quickOpen', 'workbench.action.toggleSidebarVisibility',
  'workbench.action.togglePanel', 'workbench.action.closeActiveEditor', 'workbench.action.nextEditor',
  'workbench.action.previousEditor', 'workbench.action.focusNextPart', 'workbench.action.focusPreviousPart',
];

/** Does what the chat or the page of a panel asks for. What is not known is ignored. */
export function onPageRequest(control: ChainControl, message: object, panel: string | null = null): void {
  const member = (name: string): unknown => Reflect.get(message, name);
  const text = (name: string): string | null => {
    const value = member(name);
    return typeof value === 'string' ? value : null;
  };
  const path = text('path');
  const tell = (error: unknown): void => void messages.warn(why(error));
  switch (member('host')) {
    case 'openFile': {
      const line = member('line');
      if (path !== null) control.openFile(path, typeof line === 'number' ? line : null, panel).catch(tell);
      return;
    }
    case 'openDiff': {
      const after = text('new');
      if (path !== null && after !== null) control.showDiff(path, text('old'), after).catch(tell);
      return;
    }
    case 'openPanel': return control.run?.panels.reveal(text('id') ?? '');
    case 'openLink': return openLink(text('href') ?? '');
    case 'showLog': return control.log.output.show();
    case 'command': {
      const asked = text('command') ?? '';
      const command = asked === 'conductor.start' ? 'conductor.startChain' : asked;
      if (allowed.includes(command)) void vscode.commands.executeCommand(command);
    }
  }
}

/** VS Code asks the person before it opens an address that she does not trust. */
function openLink(href: string): void {
  if (!isExternal(href)) return;
  // A Uri of VS Code is written anew when it is opened, and `%2F` becomes `/`. VS Code opens a text as it is, although the type
  // of this function does not say so.
  const address = href as unknown as vscode.Uri;
  vscode.env.openExternal(address).then(undefined, (error: unknown) => void messages.warn(`The link was not opened: ${why(error)}`));
}
