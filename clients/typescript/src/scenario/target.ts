// An editor that scenarios are played in.
import type { EditorEvent } from '../events';

/** What a scenario runs on. */
export interface TargetOptions {
  /** The words of `conductor agent`: proxies, then the agent. */
  chain: string[];
  /** The folder of the project. */
  folder: string;
  /** The environment of the program. */
  env: Record<string, string>;
  /** Called with each event, in order. */
  emit: (event: EditorEvent) => void;
}

/** A use of a widget of a panel. */
export type WidgetUse =
  | { widget: string; kind: 'click' | 'choice' | 'input'; value: string }
  | { widget: string; kind: 'toggle'; value: boolean };

/** What a person does in the editor. Each resolves when the editor has taken it. */
export interface Target {
  say(text: string): Promise<void>;
  answer(question: Extract<EditorEvent, { event: 'question' }>, choice: string): Promise<void>;
  reply(comment: Extract<EditorEvent, { event: 'comment' }>, text: string): Promise<void>;
  use(panel: Extract<EditorEvent, { event: 'panel' }>, use: WidgetUse): Promise<void>;
  closePanel(panel: Extract<EditorEvent, { event: 'panel' }>): Promise<void>;
  answerEdit(edit: Extract<EditorEvent, { event: 'edit' }>, accept: boolean): Promise<void>;
  /** Ends the editor. Rejects if it left a process. */
  stop(): Promise<void>;
}

/** Starts an editor. Resolves when a person can write the first message. */
export type StartTarget = (options: TargetOptions) => Promise<Target>;
