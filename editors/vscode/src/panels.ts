// Panels of components as tabs. The component owns them: it changes them, brings them to the front and removes them.
//
// There is no serializer: a panel does not come back by itself after the window was loaded again. Its component may be
// gone or may have forgotten it, and buttons that do nothing are worse than none. A component that is still there shows
// its panel again.
import * as vscode from 'vscode';
import type { Topics } from 'acp-conductor-client';
import type { Action, Entry } from 'acp-conductor-client/link';
import type { Log } from './events';
import { mediaFolder, pageHtml } from './html';
import { shortLine } from './lines';
import { messages } from './messages';
import { setContext, why } from './small';

export type PanelEntry = Extract<Entry, { kind: 'panel' }>;

interface Tab { tab: vscode.WebviewPanel; shown: PanelEntry; ready: boolean }

export interface PanelTools {
  extension: vscode.Uri;
  log: Log;
  act(action: Action): Promise<unknown>;
  /** What the page asks VS Code for. */
  request(message: object, panel: string): void;
}

export class Panels {
  private readonly tabs = new Map<string, Tab>();
  private readonly unfollow: () => void;

  constructor(private readonly topics: Topics, private readonly tools: PanelTools) {
    this.unfollow = topics.follow((topic, change) => {
      if (topic !== 'panels') return;
      if (change.c === 'clear') for (const id of [...this.tabs.keys()]) this.remove(id);
      else this.refresh(change.id);
    });
    for (const [id] of topics.entries('panels')) this.refresh(id);
  }

  /** Brings a panel to the front because the person wants to see it. */
  reveal(id: string): void {
    this.tabs.get(id)?.tab.reveal(undefined, false);
  }

  dispose(): void {
    this.unfollow();
    for (const id of [...this.tabs.keys()]) this.remove(id);
  }

  private refresh(id: string): void {
    const entry = this.topics.get('panels', id);
    if (entry?.kind !== 'panel') return this.remove(id);
    const known = this.tabs.get(id);
    if (!known) return this.create(id, entry);
    const before = known.shown;
    known.shown = entry;
    known.tab.title = titleOf(entry);
    if (known.ready && (before.contents !== entry.contents || before.label !== entry.label)) this.send(known);
    if (entry.front > before.front) known.tab.reveal(undefined, true);
    this.report(id, entry);
  }

  private create(id: string, entry: PanelEntry): void {
    const { extension, log } = this.tools;
    const column = [...this.tabs.values()].find(({ tab }) => tab.viewColumn !== undefined)?.tab.viewColumn
      ?? vscode.ViewColumn.Beside;
    const place = { viewColumn: column, preserveFocus: true };
    const tab = vscode.window.createWebviewPanel('conductor.panel', titleOf(entry), place, {
      enableScripts: true,
      localResourceRoots: [mediaFolder(extension)],
      // What a person has typed into a widget is only in the page.
      retainContextWhenHidden: true,
    });
    tab.iconPath = vscode.Uri.joinPath(extension, 'images/icon.png');
    const made: Tab = { tab, shown: entry, ready: false };
    this.tabs.set(id, made);
    tab.webview.onDidReceiveMessage((message: unknown) => this.receive(id, made, message));
    tab.onDidDispose(() => {
      if (this.tabs.get(id) !== made) return;
      this.tabs.delete(id);
      log.own({ event: 'panel closed', id });
      this.tools.act({ op: 'closePanel', panel: id }).catch((error: unknown) => log.write('warn', String(error)));
    });
    tab.webview.html = pageHtml(tab.webview, extension, 'panel', 'editor');
    this.report(id, entry);
    setContext('shown', true);
  }

  private report(id: string, entry: PanelEntry): void {
    this.tools.log.own({ event: 'panel tab', id, label: entry.label, title: titleOf(entry) });
  }

  private remove(id: string): void {
    const known = this.tabs.get(id);
    this.tabs.delete(id);
    known?.tab.dispose();
  }

  private send({ tab, shown: { label, contents } }: Tab): void {
    void tab.webview.postMessage({ panel: { label, contents } });
  }

  private receive(id: string, made: Tab, message: unknown): void {
    if (typeof message !== 'object' || message === null) return;
    if ('ready' in message) {
      made.ready = true;
      return this.send(made);
    }
    if ('event' in message) {
      const event = eventOf(message.event);
      const inputs = inputsOf(message.event);
      if (!event) return;
      this.tools.log.own({ event: 'panel event', id, ...event });
      this.tools.act({ op: 'panelEvent', panel: id, widget: event.widget, event: event.kind, value: event.value, inputs })
        .catch((error: unknown) => {
          void messages.warn(`The panel did not get this: ${why(error)}`);
        });
      return;
    }
    if ('host' in message) this.tools.request(message, id);
  }
}

function titleOf({ label }: PanelEntry): string {
  return shortLine(label, 80) || 'Panel';
}

/** The texts that a button has sent along. */
function inputsOf(value: unknown): Record<string, string> | null {
  if (typeof value !== 'object' || value === null || !('inputs' in value)) return null;
  const { inputs } = value;
  if (typeof inputs !== 'object' || inputs === null) return null;
  const all: Array<[string, unknown]> = Object.entries(inputs);
  return Object.fromEntries(all.filter((it): it is [string, string] => typeof it[1] === 'string'));
}

function eventOf(value: unknown): { widget: string; kind: string; value: string | boolean | null } | null {
  if (typeof value !== 'object' || value === null || !('widget' in value) || !('kind' in value)) return null;
  const { widget, kind } = value;
  const data: unknown = 'value' in value ? value.value : null;
  if (typeof widget !== 'string' || typeof kind !== 'string') return null;
  return { widget, kind, value: typeof data === 'string' || typeof data === 'boolean' ? data : null };
}
