// The commands of the palette, of menus and of links in the walkthrough.
import * as vscode from 'vscode';
import type { ChainControl } from './chain';
import type { Chat } from './chat';
import { editScheme } from './documents';
import { messages } from './messages';
import { completed, offers, pickOffer } from './offers';
import { lastTextEditor, pathIn } from './places';
import { installPage } from './program';
import { settings } from './settings';
import { why } from './small';

export interface Parts { control: ChainControl; chat: Chat }

type Command = (parts: Parts, ...words: unknown[]) => unknown;

export const commands: Record<string, Command> = {
  openChat: ({ chat }) => chat.show(),
  openChatTab: ({ chat }) => chat.openTab(),
  newSession: async ({ control, chat }) => {
    await chat.show();
    await control.ensure();
    // The page asks for it, so that it knows the session before it shows it.
    if (control.run) chat.post({ command: 'newSession' });
  },
  showSessions: async ({ chat }) => {
    await chat.show();
    chat.post({ command: 'sessions' });
  },
  cancel: async ({ control }) => {
    const session = control.currentSession();
    if (session !== null) await control.act({ op: 'cancel', session });
  },
  chooseChain: async ({ control, chat }) => {
    if (!vscode.workspace.isTrusted) return vscode.commands.executeCommand('workbench.trust.manage');
    const configuration = await control.configuration();
    for (const problem of configuration.problems) void messages.warn(problem);
    const offer = await pickOffer(await offers(configuration));
    const value = offer && await completed(offer);
    if (!value) return;
    await control.choose(value);
    await chat.show();
  },
  startChain: async ({ control, chat }) => {
    await control.start();
    await chat.showBeside();
  },
  restartChain: ({ control }) => control.restart(),
  stopChain: ({ control }) => control.stop(),
  showLog: ({ control }) => control.log.output.show(),
  showWireLog,
  addSelection: ({ control, chat }) => {
    const editor = lastTextEditor();
    if (!editor || editor.selection.isEmpty) throw new Error('Nothing is selected in a file.');
    const { start, end } = editor.selection;
    const last = end.line > start.line && end.character === 0 ? end.line : end.line + 1;
    return insertFile(control, chat, editor.document.uri, [start.line + 1, last]);
  },
  addFile: async ({ control, chat }, clicked, all) => {
    const many = Array.isArray(all) ? all : [clicked];
    const uris = many.filter((it): it is vscode.Uri => it instanceof vscode.Uri);
    const files = uris.length ? uris : [lastTextEditor()?.document.uri].filter((it) => it !== undefined);
    if (files.length === 0) throw new Error('No file is open.');
    for (const uri of files) await insertFile(control, chat, uri);
  },
  acceptEdit: (parts, uri) => answerEdit(parts, uri, true),
  rejectEdit: (parts, uri) => answerEdit(parts, uri, false),
  reply: ({ control }, reply) => control.run?.comments.reply(commentReply(reply)),
  ask: async ({ control, chat }, reply) => {
    await control.run?.comments.ask(commentReply(reply));
    await chat.showBeside();
  },
  resolveComment: ({ control }, thread) => control.run?.comments.resolve(threadOf(thread)),
  clearComments: ({ control }) => control.run?.comments.resolveAll(),
  openWalkthrough: () => (
    vscode.commands.executeCommand('workbench.action.openWalkthrough', 'acp-conductor.conductor#start', false)
  ),
  findProgram: async ({ control }) => {
    const found = await control.program();
    if ('problem' in found) return tellMissing(found.problem);
    void messages.info(`conductor ${found.version} is at ${found.path}.`);
    if (control.situation.is === 'noProgram') await control.start();
  },
  chooseProgram: async ({ control }) => {
    const options = { title: 'The program conductor', openLabel: 'Use', canSelectMany: false };
    const [file] = await vscode.window.showOpenDialog(options) ?? [];
    if (!file) return;
    await settings.setPath(file.fsPath);
    await control.restart();
  },
  openInstallPage: () => vscode.env.openExternal(vscode.Uri.parse(installPage)),
  openSettings: () => vscode.commands.executeCommand('workbench.action.openSettings', '@ext:acp-conductor.conductor'),
  actions,
};

/** Registers them. `parts` makes what they need when the first one is used. */
export function registerCommands(parts: () => Parts): vscode.Disposable[] {
  const attempt = (run: Command) => async (...words: unknown[]): Promise<unknown> => {
    try {
      return await run(parts(), ...words);
    } catch (error) {
      void messages.warn(why(error));
      return undefined;
    }
  };
  const { registerCommand } = vscode.commands;
  return Object.entries(commands).map(([name, run]) => registerCommand(`conductor.${name}`, attempt(run)));
}

/** Says how to get the program. */
export async function tellMissing(problem: string): Promise<void> {
  const [install, choose] = ['How to Install', 'Choose File…'];
  const answer = await messages.warn(problem, install, choose);
  if (answer === install) await vscode.commands.executeCommand('conductor.openInstallPage');
  else if (answer === choose) await vscode.commands.executeCommand('conductor.chooseProgram');
}

async function showWireLog({ control }: Parts): Promise<void> {
  if (!settings.logMessages()) {
    const answer = await messages.info(
      'The messages of the chain are not written. They contain your prompts, and texts of your files.',
      'Write Them and Restart',
    );
    if (!answer) return;
    await vscode.workspace.getConfiguration('conductor').update('log.messages', true, vscode.ConfigurationTarget.Global);
    await control.restart();
  }
  control.log.wire.show();
}

async function insertFile(control: ChainControl, chat: Chat, uri: vscode.Uri, lines?: [number, number]): Promise<void> {
  await chat.show();
  const path = pathIn(control.run?.folder ?? vscode.workspace.workspaceFolders?.[0]?.uri.fsPath ?? '/', uri.fsPath);
  chat.post(lines ? { command: 'insert', path, lines } : { command: 'insert', path });
}

/** Answers the edit of a diff: of the one whose button was pressed, or of the one in front. */
async function answerEdit({ control }: Parts, uri: unknown, accept: boolean): Promise<void> {
  const edits = control.run?.edits;
  const input = vscode.window.tabGroups.activeTabGroup.activeTab?.input;
  const isEdit = input instanceof vscode.TabInputTextDiff && input.modified.scheme === editScheme;
  const diff = uri instanceof vscode.Uri ? uri : isEdit ? input.modified : null;
  if (diff) {
    const id = edits?.find(diff) ?? null;
    if (id === null) throw new Error('This edit waits for no answer any more.');
    return edits?.answer(id, accept);
  }
  const waiting = edits?.waiting() ?? [];
  const [first, second] = waiting;
  if (!first) throw new Error('No edit waits for an answer.');
  const items = waiting.map(({ id, label, files }) => ({ label, description: files.join(', '), id }));
  const title = accept ? 'Accept Edit' : 'Reject Edit';
  const picked = second ? await vscode.window.showQuickPick(items, { title, placeHolder: 'Which edit?' }) : first;
  if (picked) await edits?.answer(picked.id, accept);
}

/** VS Code hands over the thread and the text. */
function commentReply(value: unknown): vscode.CommentReply {
  const isReply = typeof value === 'object' && value !== null && 'thread' in value && 'text' in value;
  if (isReply && typeof value.text === 'string') return { thread: threadOf(value.thread), text: value.text };
  throw new Error('This command needs a comment.');
}

function threadOf(value: unknown): vscode.CommentThread {
  const isThread = typeof value === 'object' && value !== null && 'uri' in value && 'comments' in value;
  if (isThread) return value as vscode.CommentThread;
  throw new Error('This command needs a comment.');
}

/** What can be done with the chain, for the status bar. */
async function actions({ control }: Parts): Promise<void> {
  const { chain, run, situation } = control;
  type Item = vscode.QuickPickItem & { command?: string };
  const one = (label: string, command: string): Item => ({ label, command: `conductor.${command}` });
  const items: Item[] = [
    one('$(comment-discussion) Open chat', 'openChat'),
    ...(run && control.isAlive ? [
      one('$(add) New session', 'newSession'),
      one('$(debug-restart) Restart chain', 'restartChain'),
      one('$(circle-slash) End chain', 'stopChain'),
    ] : [one('$(play) Start chain', 'startChain')]),
    one('$(list-selection) Choose chain…', 'chooseChain'),
    one('$(output) Show log', 'showLog'),
    one('$(gear) Open settings', 'openSettings'),
  ];
  const problem = chain?.error ?? ('problem' in situation ? situation.problem : null);
  const placeHolder = problem ?? (run ? run.spec.name : 'No chain runs');
  const picked = await vscode.window.showQuickPick(items, { title: 'Conductor', placeHolder });
  if (picked?.command) await vscode.commands.executeCommand(picked.command);
}
