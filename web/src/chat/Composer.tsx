// The place to write: text, attachments, completions, choices of mode and model, Send and Stop.
import type { Ref } from 'preact';
import { useEffect, useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { duration, plural } from '../base/format';
import { say } from '../base/live';
import { useNow } from '../base/signals';
import type { Attachment, Command, Select } from 'acp-conductor-client/link';
import { Button } from '../parts/Button';
import { Icon } from '../parts/Icon';
import { Menu } from '../parts/Menu';
import { attachFile, nameOf } from './attachments';
import { complete, completionAt, type CompletionQuery } from './completion';
import { Suggestions, type Suggestion } from './Suggestions';

export interface ComposerProps {
  text: string;
  onText: (text: string) => void;
  attachments: readonly Attachment[];
  /** Changes the attachments and returns them. */
  onAttachments: (change: (all: readonly Attachment[]) => readonly Attachment[]) => readonly Attachment[];
  commands: readonly Command[];
  selects: readonly Select[];
  usage: string | null;
  images: boolean;
  /** Since when the agent works, or null. */
  runningSince: number | null;
  cancelling: boolean;
  /** The component that the chain waits for. */
  awaits: string | null;
  /** Why nothing can be sent now. */
  disabled: string | false;
  placeholder: string;
  textRef: Ref<HTMLTextAreaElement>;
  /** Grows when the mode or model menu is to be opened by a key. */
  openSelect: { id: string; count: number };
  findFiles: (text: string) => Promise<string[]>;
  /** The user has chosen a file after `@`. */
  onMention: (path: string) => void;
  onSend: () => void;
  onStop: () => void;
  onSelect: (select: string, value: string) => void;
  /** `↑` in an empty box. */
  onEditLast: () => void;
  onProblem: (text: string) => void;
}

export function Composer(props: ComposerProps) {
  const { text } = props;
  const area = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  const listId = useId();
  const [query, setQuery] = useState<CompletionQuery | null>(null);
  const [found, setFound] = useState<readonly Suggestion[]>([]);
  /** The letters that `found` belongs to. */
  const [answered, setAnswered] = useState<string | null>(null);
  const searching = query?.kind === 'file' && query.text !== answered;
  /** The key that was pressed while `searching`. It acts when the files are known. */
  const held = useRef<'Enter' | 'Tab' | null>(null);
  const [active, setActive] = useState(0);
  const [dragging, setDragging] = useState(false);
  /** How many groups of files are being read. */
  const [reading, setReading] = useState(0);
  const caret = useRef<number | null>(null);
  const running = props.runningSince !== null;
  const now = useNow(running);

  useLayoutEffect(() => {
    const element = area.current;
    if (!element) return;
    element.style.height = 'auto';
    element.style.height = `${element.scrollHeight}px`;
    if (caret.current !== null) element.setSelectionRange(caret.current, caret.current);
    caret.current = null;
  }, [text]);

  useLayoutEffect(() => {
    held.current = null;
    if (!query) {
      setFound([]);
      setAnswered(null);
      return undefined;
    }
    setActive(0);
    if (query.kind === 'command') {
      const typed = query.text.toLowerCase();
      setFound(props.commands.filter((command) => command.name.toLowerCase().includes(typed))
        .map((command) => ({ value: command.name, about: [command.hint && `[${command.hint}]`, command.about].filter(Boolean).join(' ') })));
      return undefined;
    }
    let current = true;
    const answer = (paths: readonly string[]) => {
      if (!current) return;
      setFound(paths.slice(0, 12).map((value) => ({ value, about: '' })));
      setAnswered(query.text);
    };
    props.findFiles(query.text).then(answer, () => answer([]));
    return () => {
      current = false;
    };
  }, [query?.kind, query?.text, props.commands]);

  const open = query !== null && found.length > 0;
  useEffect(() => {
    if (open) say(`${plural(found.length, query.kind === 'file' ? 'file' : 'command')}, arrow keys choose`);
  }, [open, found]);
  const look = () => {
    const element = area.current;
    if (!element) return;
    setQuery(element.selectionStart === element.selectionEnd ? completionAt(element.value, element.selectionStart) : null);
  };
  const choose = (value: string) => {
    if (!query) return;
    if (query.kind === 'file') props.onMention(value);
    const result = complete(text, query, value);
    caret.current = result.caret;
    setQuery(null);
    props.onText(result.text);
    area.current?.focus();
  };
  const empty = !text.trim() && !props.attachments.length;
  const send = () => {
    if (empty || props.disabled || reading > 0) return;
    setQuery(null);
    props.onSend();
    area.current?.focus();
  };
  const attach = async (files: readonly File[]) => {
    setReading((count) => count + 1);
    try {
      for (const file of files) {
        const result = await attachFile(file, props.onAttachments((all) => all), props.images);
        if ('problem' in result) props.onProblem(result.problem);
        else props.onAttachments((all) => [...all, result]);
      }
    } finally {
      setReading((count) => count - 1);
    }
  };

  useEffect(() => {
    const key = held.current;
    if (searching || !key) return;
    held.current = null;
    const item = found[0];
    if (item) choose(item.value);
    else if (key === 'Enter') send();
  }, [searching]);

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.isComposing) return;
    const plain = !event.ctrlKey && !event.altKey && !event.metaKey && !event.shiftKey;
    if (searching && plain && (event.key === 'Enter' || (event.key === 'Tab' && open))) {
      event.preventDefault();
      held.current = event.key;
      return;
    }
    if (open && plain) {
      const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0;
      if (step) {
        event.preventDefault();
        setActive((active + step + found.length) % found.length);
        return;
      }
      if (event.key === 'Enter' || event.key === 'Tab') {
        const item = found[active];
        // A command that is already written in full is sent, not completed.
        const complete = query?.kind === 'command' && item?.value === query.text && event.key === 'Enter';
        if (item && !complete) {
          event.preventDefault();
          choose(item.value);
          return;
        }
      }
      if (event.key === 'Escape') {
        event.preventDefault();
        event.stopPropagation();
        setQuery(null);
        return;
      }
    }
    if (event.key === 'Enter' && plain) {
      event.preventDefault();
      send();
    } else if (event.key === 'ArrowUp' && plain && text === '') {
      event.preventDefault();
      props.onEditLast();
    }
  };

  return (
    <div class={`composer${dragging ? ' dragging' : ''}`}
      onDragOver={(event) => {
        if (!event.dataTransfer?.types.includes('Files')) return;
        event.preventDefault();
        setDragging(true);
      }}
      onDragLeave={() => setDragging(false)}
      onDrop={(event) => {
        setDragging(false);
        const files = [...(event.dataTransfer?.files ?? [])];
        if (!files.length) return;
        event.preventDefault();
        void attach(files);
      }}>
      {open && query && (
        <Suggestions id={listId} kind={query.kind} items={found} active={active} onChoose={choose} />
      )}
      {props.attachments.length > 0 && (
        <ul role="list" class="chips composer-chips" aria-label="Attached">
          {props.attachments.map((attachment, index) => (
            <li key={index} class="chip">
              {attachment.attach === 'image'
                ? <img class="chip-image" src={`data:${attachment.mime};base64,${attachment.data}`} alt="" />
                : <Icon name="file-text" size={12} />}
              <span class="cut">{nameOf(attachment)}</span>
              <button type="button" class="chip-remove" aria-label={`Remove ${nameOf(attachment)}`} title="Remove"
                onClick={() => {
                  props.onAttachments((all) => all.filter((other) => other !== attachment));
                  area.current?.focus();
                }}>
                <Icon name="x" size={12} />
              </button>
            </li>
          ))}
        </ul>
      )}
      <textarea id="composer" class="composer-text" rows={1} aria-label="Message" value={text}
        ref={(element) => {
          area.current = element;
          if (typeof props.textRef === 'function') props.textRef(element);
          else if (props.textRef) props.textRef.current = element;
        }}
        placeholder={props.placeholder} aria-autocomplete="list" aria-controls={open ? listId : undefined}
        aria-activedescendant={open ? `${listId}-${active}` : undefined}
        onInput={(event) => {
          props.onText(event.currentTarget.value);
          look();
        }}
        onKeyDown={onKeyDown} onClick={look} onBlur={() => setQuery(null)}
        onKeyUp={(event) => {
          if (['ArrowLeft', 'ArrowRight', 'Home', 'End'].includes(event.key)) look();
        }}
        onPaste={(event) => {
          const files = [...(event.clipboardData?.files ?? [])];
          if (!files.length) return;
          event.preventDefault();
          void attach(files);
        }} />
      <div class="composer-bar">
        <Button kind="plain" icon="paperclip" label="Attach files" onClick={() => picker.current?.click()} />
        <input ref={picker} type="file" multiple hidden aria-hidden="true" tabIndex={-1} data-attach
          onChange={(event) => {
            void attach([...(event.currentTarget.files ?? [])]);
            event.currentTarget.value = '';
            area.current?.focus();
          }} />
        <div class="composer-selects">
          {props.selects.map((select) => (
            <SelectMenu key={select.id} select={select} disabled={props.disabled}
              openCount={props.openSelect.id === select.id ? props.openSelect.count : 0}
              onSelect={(value) => props.onSelect(select.id, value)} />
          ))}
          {props.usage && <span class="small muted num composer-usage">{props.usage}</span>}
        </div>
        {running && now - (props.runningSince ?? now) >= 2000 && (
          <span class="small muted num nowrap" data-elapsed>
            {props.awaits && <span class="composer-awaits">{props.awaits} </span>}
            {duration(now - (props.runningSince ?? now))}
          </span>
        )}
        {running && (
          <Button icon="square" class="stop" label={empty ? undefined : 'Stop'} keys="Escape"
            disabled={props.cancelling ? 'The agent has not stopped yet.' : false}
            onClick={props.onStop} title="Stop (Esc)">
            {empty ? (props.cancelling ? 'Stopping' : <>Stop <kbd>Esc</kbd></>) : undefined}
          </Button>
        )}
        {(!running || !empty) && (
          <Button kind="main" icon="arrow-up" class="send" onClick={send}
            disabled={props.disabled || (reading > 0 ? 'The files are being read.' : empty ? 'Write a message first.' : false)}
            title={running ? 'Send after this answer (Enter)' : 'Send (Enter)'}>
            {running ? 'Queue' : 'Send'}
          </Button>
        )}
      </div>
    </div>
  );
}

function SelectMenu(props: {
  select: Select; disabled: string | false; openCount: number; onSelect: (value: string) => void;
}) {
  const { select } = props;
  const current = select.values.find((value) => value.id === select.current);
  const value = current?.name ?? select.current;
  // A mode or a model speaks for itself, another option needs its name.
  const shown = select.id === 'mode' || select.id === 'model' ? value : `${select.name}: ${value}`;
  return (
    <Menu side="up" openCount={props.openCount} onSelect={props.onSelect}
      items={select.values.map((one) => ({
        id: one.id, label: one.name, about: one.about, checked: one.id === select.current,
      }))}
      button={{
        kind: 'plain', class: 'select', disabled: props.disabled, label: `${select.name}: ${value}`,
        title: `${select.name}: ${value}`,
        children: <><span class="cut">{shown}</span><Icon name="chevron-down" size={12} /></>,
      }} />
  );
}
