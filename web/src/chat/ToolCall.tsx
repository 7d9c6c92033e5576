// A tool call: one line with icon, title, state and time, and below it what the tool has shown.
import { useRef, useState } from 'preact/hooks';
import { shownDuration } from '../base/format';
import { own } from '../base/own';
import { useNow } from '../base/signals';
import type { Topic } from '../link/store';
import type { Exit, Place, Tool } from 'acp-conductor-client/link';
import { Ansi } from '../parts/Ansi';
import { Button } from '../parts/Button';
import { Code } from '../parts/Code';
import { diffStat } from '../parts/Diff';
import { Icon, type IconName } from '../parts/Icon';
import { Marked } from '../parts/Marked';
import { Blocks, type OnDiff, type OnFile } from './Blocks';
import { Command } from './Command';
import { FileChange } from './FileChange';
import type { EntryOf } from './model';
import { plainTitle, Title } from './Title';

const kinds: Record<string, { icon: IconName; word: string }> = {
  read: { icon: 'eye', word: 'Read' }, edit: { icon: 'pencil', word: 'Edit' }, delete: { icon: 'trash-2', word: 'Delete' },
  move: { icon: 'move', word: 'Move' }, search: { icon: 'search', word: 'Search' },
  execute: { icon: 'terminal', word: 'Run' }, think: { icon: 'brain', word: 'Think' },
  fetch: { icon: 'globe', word: 'Fetch' },
};

export function toolIcon(kind: string): IconName {
  return own(kinds, kind)?.icon ?? 'wrench';
}

const states: Record<string, { icon: IconName; word: string; cls: string }> = {
  pending: { icon: 'circle', word: 'waiting', cls: 'muted' },
  in_progress: { icon: 'clock', word: 'running', cls: 'is-accent' },
  completed: { icon: 'check', word: 'done', cls: 'is-ok' },
  failed: { icon: 'circle-x', word: 'failed', cls: 'is-err' },
};

const stateOf = (status: string) => own(states, status) ?? { icon: 'circle' as const, word: status, cls: 'muted' };

/** All lines that the diffs of a call add and remove. */
function stat(tool: Tool): { added: number; removed: number } | null {
  if (!tool.diffs.length) return null;
  const all = tool.diffs.map((diff) => diffStat(diff.old, diff.new));
  return all.reduce((sum, one) => ({ added: sum.added + one.added, removed: sum.removed + one.removed }));
}

type OnKill = ((terminal: string) => void) | undefined;

export interface ToolCallProps {
  tool: Tool;
  topic: Topic;
  onFile: OnFile;
  onDiff?: OnDiff | undefined;
  onKill?: OnKill;
}

export function ToolCall(props: ToolCallProps) {
  const { tool, topic, onFile } = props;
  const running = tool.status === 'in_progress' && tool.ms === null;
  const now = useNow(running);
  const rest = tool.blocks.length > 0 || tool.diffs.length > 0 || tool.terminals.length > 0
    || hasValue(tool.input) || hasValue(tool.output);
  // Changes of files and running commands are open until the user closes them.
  const wants = tool.diffs.length > 0 || tool.terminals.length > 0 || tool.status === 'failed';
  const chosen = useRef(false);
  const [opened, setOpened] = useState(false);
  const open = rest && (chosen.current ? opened : wants);
  const state = stateOf(tool.status);
  const lines = stat(tool);
  const elapsed = tool.ms ?? (running && tool.time > 0 ? now - tool.time : null);
  const time = elapsed === null || (tool.ms === null && elapsed < 2000) ? null : shownDuration(elapsed);
  const toggle = () => {
    chosen.current = true;
    setOpened(!open);
  };
  const head = (
    <>
      <Icon name={toolIcon(tool.tool)} class="muted" />
      <span class="tool-title"><Title text={tool.title || own(kinds, tool.tool)?.word || 'Tool call'} /></span>
      {lines && (
        <span class="tool-lines num">
          <span class="is-ok">+{lines.added}</span> <span class="is-err">−{lines.removed}</span>
        </span>
      )}
      <span class={`tool-state ${state.cls}`}>
        {time !== null && <span class="num muted">{time}</span>}
        <Icon name={state.icon} size={14} /><span class={tool.status === 'completed' ? 'hidden-text' : ''}>{state.word}</span>
      </span>
    </>
  );
  return (
    <div class={`tool${open ? ' open' : ''}`} data-tool={tool.tool} data-status={tool.status}>
      {rest ? (
        <button type="button" class="tool-head" data-toggle aria-expanded={open} onClick={toggle}>
          <Icon name={open ? 'chevron-down' : 'chevron-right'} class="muted tool-arrow" size={14} />
          {head}
        </button>
      ) : <div class="tool-head">{head}</div>}
      <Places places={tool.places.filter((place) => !open || tool.diffs.every((diff) => diff.path !== place.path))}
        onFile={onFile} />
      {open && (
        <div class="tool-body">
          {tool.diffs.map((diff, index) => <FileChange key={index} diff={diff} onFile={onFile} onDiff={props.onDiff} />)}
          {tool.terminals.map((id) => <TerminalOf key={id} id={id} topic={topic} title={tool.title} onKill={props.onKill} />)}
          <Blocks blocks={tool.blocks} onFile={onFile} />
          <Raw label="Input" value={tool.input} />
          <Raw label="Output" value={tool.output} />
        </div>
      )}
    </div>
  );
}

function Places(props: { places: readonly Place[]; onFile: OnFile }) {
  if (!props.places.length) return null;
  const shown = props.places.slice(0, 8);
  const more = props.places.length - shown.length;
  return (
    <p class="tool-places small">
      {shown.map((place) => (
        <button type="button" key={`${place.path}:${place.line}`} class="file-link"
          onClick={() => props.onFile(place.path, place.line ?? undefined)}>
          <Marked text={place.path} strict />{place.line !== null && `:${place.line}`}
        </button>
      ))}
      {more > 0 && <span class="muted">and {more} more</span>}
    </p>
  );
}

function hasValue(value: unknown): boolean {
  if (value === null || value === undefined || value === '') return false;
  return typeof value !== 'object' || Object.keys(value).length > 0;
}

function Raw(props: { label: string; value: unknown }) {
  const [open, setOpen] = useState(false);
  if (!hasValue(props.value)) return null;
  const text = typeof props.value === 'string' ? props.value : JSON.stringify(props.value, null, 2);
  return (
    <div class="raw">
      <button type="button" class="fold small" aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon name={open ? 'chevron-down' : 'chevron-right'} size={14} />{props.label}
      </button>
      {open && <Code text={text} language={typeof props.value === 'string' ? '' : 'json'} />}
    </div>
  );
}

function TerminalOf(props: { id: string; topic: Topic; title: string; onKill: OnKill }) {
  const entry = props.topic.get(`terminal:${props.id}`).value;
  if (entry?.kind !== 'terminal') return <p class="small muted">The output of this terminal is not known.</p>;
  return <Terminal entry={entry} id={props.id} title={props.title} onKill={props.onKill} />;
}

/** How a command has ended. */
function Ended({ exit }: { exit: Exit | null }) {
  if (exit === null) return <span class="small muted">running</span>;
  if (exit.code === 0) return <span class="row small num muted"><Icon name="check" size={14} />exit 0</span>;
  if (exit.code === null && exit.signal === null) return <span class="small muted">ended</span>;
  return (
    <span class="row small num is-err">
      <Icon name="circle-x" size={14} />{exit.code === null ? `killed by ${exit.signal}` : `exit ${exit.code}`}
    </span>
  );
}

export function Terminal({ entry, id, title, onKill }: { entry: EntryOf<'terminal'>; id: string; title?: string; onKill?: OnKill }) {
  return (
    <div class="terminal">
      <div class="terminal-head">
        {entry.command === plainTitle(title ?? '') && entry.folder === null ? <span class="small muted grow">Terminal</span>
          : <Command text={entry.command} folder={entry.folder} label="Command" />}
        <Ended exit={entry.exit} />
        {entry.exit === null && onKill && (
          <Button kind="plain" icon="square" label="Stop this command" class="terminal-stop" onClick={() => onKill(id)}>Stop</Button>
        )}
      </div>
      {entry.cut && <p class="small muted terminal-cut">The beginning of the output is missing.</p>}
      {entry.text && <Ansi text={entry.text} />}
    </div>
  );
}
