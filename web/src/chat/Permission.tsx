// A question above the composer: who asks, what exactly, and every answer that is offered.
import { useEffect, useId, useRef } from 'preact/hooks';
import { own } from '../base/own';
import { markSuspicious } from '../base/suspicious';
import type { Choice, Question } from 'acp-conductor-client/link';
import { Button } from '../parts/Button';
import { Icon, type IconName } from '../parts/Icon';
import { Marked, MarkedNote } from '../parts/Marked';
import { Blocks, type OnDiff, type OnFile } from './Blocks';
import { Command } from './Command';
import { FileChange } from './FileChange';
import { plainTitle, Title } from './Title';
import { toolIcon } from './ToolCall';

const icons: Record<string, IconName> = { allow_once: 'check', allow_always: 'check', reject_once: 'x', reject_always: 'x' };

/** What an answer does, in our words: the agent chooses its name. */
const effects: Record<string, string> = {
  allow_once: 'Allow once', allow_always: 'Allow always', reject_once: 'Reject once', reject_always: 'Reject always',
};

/** An answer that holds for later, too, says so. */
function nameOf(choice: Choice): string {
  return choice.effect.endsWith('_always') && !/always/i.test(choice.name) ? `${choice.name} (always)` : choice.name;
}

function titleOf(choice: Choice, keys: string | undefined): string {
  const effect = own(effects, choice.effect);
  const words = effect && effect.toLowerCase() !== choice.name.toLowerCase() ? `${choice.name} – ${effect}` : choice.name;
  return keys ? `${words} (${shortKeys(keys)})` : words;
}

function shortKeys(keys: string): string {
  return keys.replace('Control', 'Ctrl').replace('Backspace', '⌫').replace('Enter', '⏎');
}

const order = ['reject_once', 'reject_always', 'allow_once', 'allow_always'];

/** Rejecting comes first, other answers last. Answers of one kind stay in the order of the agent. */
function inOrder(choices: readonly Choice[]): Choice[] {
  const rank = (choice: Choice) => (order.includes(choice.effect) ? order.indexOf(choice.effect) : order.length);
  return [...choices].sort((a, b) => rank(a) - rank(b));
}

export function PermissionRow(props: {
  question: Question;
  /** The agent that asks. */
  who: string;
  /** How many more questions wait behind this one. */
  more: number;
  disabled: string | false;
  /** Whether it can be answered already. */
  ready: boolean;
  onAnswer: (choice: string) => void;
  onFile: OnFile;
  onDiff?: OnDiff | undefined;
}) {
  const { question, onAnswer } = props;
  const title = useId();
  const group = useRef<HTMLDivElement>(null);
  const before = useRef<Element | null>(null);
  const tool = question.tool;
  // After the answer, the focus returns to where it was.
  useEffect(() => () => {
    if (!(before.current instanceof HTMLElement) || !before.current.isConnected) return;
    if (document.activeElement === document.body || document.activeElement === null) before.current.focus();
  }, []);
  return (
    <div ref={group} class="above-part permission" role="group" aria-labelledby={title} data-permission
      data-ready={props.ready ? 'true' : 'false'}
      onFocusIn={(event) => {
        if (event.relatedTarget instanceof HTMLElement && !group.current?.contains(event.relatedTarget)) {
          before.current = event.relatedTarget;
        }
      }}>
      <p class="permission-title" id={title}>
        <Icon name="circle-question-mark" class="is-warn" />
        <span>
          <strong>{props.who} asks:</strong>{' '}
          {question.command !== null && question.command === plainTitle(question.title) ? 'run this command'
            : <Title text={question.title} />}
        </span>
        {props.more > 0 && <span class="chip num">{props.more} more</span>}
      </p>
      <div class="permission-body">
        {question.command !== null && (
          <Command text={question.command} folder={question.folder} label="The command that would run" />
        )}
        {tool && tool.title && tool.title !== question.title && (
          <p class="row small muted"><Icon name={toolIcon(tool.tool)} /><span><Title text={tool.title} /></span></p>
        )}
        {tool && tool.places.length > 0 && (
          <p class="tool-places small">
            {tool.places.map((place) => (
              <button type="button" key={`${place.path}:${place.line}`} class="file-link"
                onClick={() => props.onFile(place.path, place.line ?? undefined)}>
                <Marked text={place.path} strict />{place.line !== null && `:${place.line}`}
              </button>
            ))}
          </p>
        )}
        <MarkedNote found={[...tool?.places ?? [], ...tool?.diffs ?? []].reduce((sum, { path }) => (
          sum + markSuspicious(path).filter((piece) => piece.why !== null).length), 0)} />
        {tool?.diffs.map((diff, index) => (
          <FileChange key={index} diff={diff} onFile={props.onFile} onDiff={props.onDiff} />
        ))}
        {tool && <Blocks blocks={tool.blocks} onFile={props.onFile} />}
        {tool && question.command === null && tool.diffs.length === 0 && tool.input !== null
          && typeof tool.input === 'object' && Object.keys(tool.input).length > 0 && (
          <Command text={JSON.stringify(tool.input, null, 2)} label="Input of the tool" />
        )}
      </div>
      <div class="buttons permission-buttons">
        {inOrder(question.choices).map((choice) => {
          const main = choice.effect === 'allow_once';
          const keys = main ? 'Control+Enter' : choice.effect === 'reject_once' ? 'Control+Backspace' : undefined;
          return (
            <Button key={choice.id} kind={main ? 'main' : 'normal'} icon={own(icons, choice.effect)} keys={keys}
              title={titleOf(choice, keys)}
              disabled={props.disabled || (props.ready ? false : 'This question has just come.')}
              onClick={() => onAnswer(choice.id)}>
              {nameOf(choice)}{keys && <kbd aria-hidden="true">{shortKeys(keys)}</kbd>}
            </Button>
          );
        })}
      </div>
    </div>
  );
}

/** The answer for `Ctrl+Enter` or `Ctrl+Backspace`. */
export function keyChoice(question: Question, effect: 'allow_once' | 'reject_once'): string | null {
  return question.choices.find((choice) => choice.effect === effect)?.id ?? null;
}
