// The extension: registers what VS Code shows. Everything else is made when it is first needed.
import * as vscode from 'vscode';
import { ChainControl } from './chain';
import { Chat, tabType, viewId } from './chat';
import { registerCommands, tellMissing, type Parts } from './commands';
import { Documents } from './documents';
import { Log } from './events';
import { messages } from './messages';
import { followTextEditors } from './places';
import { Status } from './status';

let control: ChainControl | null = null;

export function activate(context: vscode.ExtensionContext): void {
  const started = performance.now();
  const log = new Log();
  let made: Parts | null = null;
  const parts = (): Parts => {
    made ??= make(context, log);
    return made;
  };
  context.subscriptions.push(
    log,
    ...registerCommands(parts),
    vscode.window.registerWebviewViewProvider(viewId, {
      resolveWebviewView: (view) => parts().chat.resolveWebviewView(view),
    }),
    vscode.window.registerWebviewPanelSerializer(tabType, {
      deserializeWebviewPanel: (tab) => parts().chat.deserializeWebviewPanel(tab),
    }),
  );
  const { version }: { version?: unknown } = context.extension.packageJSON;
  log.activated(performance.now() - started, String(version));
}

/** Makes the parts of this window. */
function make(context: vscode.ExtensionContext, log: Log): Parts {
  const documents = new Documents();
  const chain = new ChainControl(context, log, documents);
  control = chain;
  const chat = new Chat(chain, context.extensionUri);
  context.subscriptions.push(
    documents.register(),
    followTextEditors(),
    chat,
    new Status(chain),
    vscode.workspace.onDidGrantWorkspaceTrust(() => {
      if (chain.situation.is === 'untrusted') void chain.start();
    }),
    vscode.workspace.onDidChangeWorkspaceFolders(() => {
      chain.foldersChanged();
      if (chain.situation.is === 'noFolder') void chain.start();
    }),
    vscode.workspace.onDidChangeConfiguration((change) => void settingsChanged(chain, change)),
    chain.onDidChange(() => tellOnce(chain)),
  );
  return { control: chain, chat };
}

const told = new Set<string>();

/** Says once in a window that the program is missing. The chat shows it as long as it is true. */
function tellOnce({ situation }: ChainControl): void {
  if (situation.is !== 'noProgram' || told.has(situation.problem)) return;
  told.add(situation.problem);
  void tellMissing(situation.problem);
}

/**
 * A chain that waits for its settings starts, and one that nobody has used yet starts again. For another one, the person
 * is asked, but only in the window that is used.
 */
async function settingsChanged(chain: ChainControl, change: vscode.ConfigurationChangeEvent): Promise<void> {
  if (change.affectsConfiguration('conductor')) chain.noteSettings();
  const names = ['path', 'chain', 'chains', 'options', 'environment'];
  if (chain.choosing || !names.some((name) => change.affectsConfiguration(`conductor.${name}`))) return;
  // VS Code may read its settings while the chain starts with those of before.
  await chain.settled();
  if (['noChain', 'noProgram', 'wrongChain'].includes(chain.situation.is)) return chain.start();
  if (!chain.isAlive) return;
  // Nothing would be lost.
  if (!chain.wasUsed) return chain.restart();
  if (!vscode.window.state.focused) return;
  const answer = await messages.info('The settings of the chain have changed.', 'Restart Chain');
  if (answer) await chain.restart();
}

/** Ends the chain: no process of it is left. */
export async function deactivate(): Promise<void> {
  await control?.end();
}
