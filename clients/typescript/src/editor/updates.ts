// The updates of a session.
import { attachmentName, blockOf, commandsOf, stepsOf, titleOf, toolOf, usageOf } from '../content';
import { at, text } from '../json';
import { optionsOf } from '../settings';
import { resolve } from 'node:path';
import type { Core } from './core';
import type { Growing, SessionState } from './session';

/** The most tool calls of a turn that are shown. */
const mostCalls = 1000;
/** The most images and resources of one message. */
const mostBlocks = 100;

const growing: Record<string, Growing> = {
  agent_message_chunk: 'agent', agent_thought_chunk: 'thought', user_message_chunk: 'user',
};

/** The updates with which an agent repeats a conversation. */
const repeated = [...Object.keys(growing), 'tool_call', 'tool_call_update', 'plan'];

/** Shows an update of a session. What is malformed or unknown is left out. */
export function applyUpdate(core: Core, session: SessionState, update: unknown): void {
  const kind = text(at(update, 'sessionUpdate')) ?? '';
  if (session.activity === 'loading' && repeated.includes(kind)) session.beginReplay();
  switch (kind) {
    case 'agent_message_chunk': case 'agent_thought_chunk': case 'user_message_chunk':
      return onChunk(core, session, growing[kind] ?? 'agent', at(update, 'content'));
    case 'tool_call': case 'tool_call_update':
      return onToolCall(core, session, update);
    case 'plan':
      return session.put(`plan:${session.turn}`, { kind: 'plan', steps: stepsOf(at(update, 'entries')) });
    case 'available_commands_update':
      session.commands = commandsOf(at(update, 'availableCommands'));
      return session.showSettings();
    case 'current_mode_update': {
      const mode = session.settings.find((it) => it.category === 'mode');
      if (mode) mode.current = at(update, 'currentModeId') ?? null;
      return session.showSettings();
    }
    case 'config_option_update':
      return setOptions(session, at(update, 'configOptions'));
    case 'usage_update':
      session.usage = usageOf(update);
      return session.showSettings();
    case 'session_info_update': {
      const title = text(at(update, 'title'));
      if (title === undefined) return undefined;
      session.title = titleOf(title);
      return session.showInList();
    }
    default:
      return undefined;
  }
}

function onChunk(core: Core, session: SessionState, kind: Growing, content: unknown): void {
  // Some agents repeat the prompt that they got.
  if (kind === 'user' && session.activity !== 'loading') return;
  const newId = () => core.nextId('m');
  const more = text(at(content, 'text'));
  session.beginRepeatedTurn(kind);
  if (more !== undefined) return session.grow(kind, more, newId);
  if (kind === 'user') return session.attach(attachmentName(content), newId);
  if (kind !== 'agent') return;
  if (session.openMessage === null) session.grow(kind, '', newId);
  const id = session.openMessage ?? '';
  const entry = session.get(id);
  if (entry?.kind !== 'agent' || entry.blocks.length >= mostBlocks) return;
  session.put(id, { ...entry, blocks: [...entry.blocks, blockOf(content)] });
  session.endText();
}

function onToolCall(core: Core, session: SessionState, update: unknown): void {
  session.toolCalls.update(update);
  const callId = text(at(update, 'toolCallId'));
  if (callId === undefined) return;
  const id = `tool:${session.turn}:${callId}`;
  const call = session.toolCalls.complete(update);
  const before = session.get(id);
  if (!before) session.endText();
  if (session.toolTimes.size >= mostCalls && !session.toolTimes.has(callId)) return;
  const began = session.toolTimes.get(callId) ?? Date.now();
  session.toolTimes.set(callId, began);
  const status = text(at(call, 'status'));
  const ended = status === 'completed' || status === 'failed';
  const ms = (before?.kind === 'tool' ? before.ms : null) ?? (ended ? Math.max(0, Date.now() - began) : null);
  const tool = toolOf(call, core.project, began, ms);
  if (ended) for (const diff of tool.diffs) core.surface.fileWritten(resolve(core.project.folder, diff.path));
  session.put(id, { kind: 'tool', ...tool });
}

/** Replaces the options of a session. */
export function setOptions(session: SessionState, raw: unknown): void {
  if (!Array.isArray(raw)) return;
  const options = optionsOf(raw);
  const older = session.settings.filter((old) => (
    old.kind !== 'option' && options.every((it) => it.category !== old.category)));
  session.settings = [...options, ...older];
  session.showSettings();
}
