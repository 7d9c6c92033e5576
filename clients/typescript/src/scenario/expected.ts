// What a scenario expects, and whether an event is it.
import type { EditorEvent } from '../events';

/** A text contains this, or this expression matches it. */
export type Pattern = string | RegExp;

/** One expected message, as the person sees it. */
export type Expected =
  | { message: Pattern }
  | { thought: Pattern }
  | { log: Pattern; level?: string; component?: Pattern }
  | { tool: Pattern; status?: string }
  | { plan: Pattern }
  | { question: Pattern; choices?: string[] }
  | { note: Pattern }
  | { error: Pattern }
  /** The label of a panel. */
  | { panel: Pattern; contains?: Pattern }
  /** The place of a comment: `src/main.rs:12`, or `src/main.rs:12-14`. */
  | { comment: string; contains?: Pattern }
  | { edit: Pattern; state?: string }
  /** Why the turn ended, such as `end_turn`. */
  | { turn: string }
  /** The state of the chain: `running`, `login` or `ended`. */
  | { chain: string };

function fits(text: string | null, pattern: Pattern | undefined): boolean {
  if (pattern === undefined) return true;
  return text !== null && (typeof pattern === 'string' ? text.includes(pattern) : pattern.test(text));
}

/** The place of a comment as `Expected` writes it. */
export function placeOf(event: Extract<EditorEvent, { event: 'comment' }>): string {
  return `${event.path}:${event.line}${event.endLine === event.line ? '' : `-${event.endLine}`}`;
}

export function matches(event: EditorEvent, expected: Expected): boolean {
  switch (event.event) {
    case 'message': return 'message' in expected && fits(event.text, expected.message);
    case 'thought': return 'thought' in expected && fits(event.text, expected.thought);
    case 'log':
      return 'log' in expected && fits(event.text, expected.log) && fits(event.level, expected.level)
        && fits(event.component, expected.component);
    case 'tool': return 'tool' in expected && fits(event.title, expected.tool) && fits(event.status, expected.status);
    case 'plan': return 'plan' in expected && fits(event.steps.join('\n'), expected.plan);
    case 'question':
      return 'question' in expected && fits(event.title, expected.question)
        && (expected.choices ?? []).every((choice) => event.choices.includes(choice));
    case 'note': return 'note' in expected && fits(event.text, expected.note);
    case 'error': return 'error' in expected && fits(event.text, expected.error);
    case 'panel': return 'panel' in expected && fits(event.label, expected.panel) && fits(event.contents, expected.contains);
    case 'comment':
      return 'comment' in expected && (placeOf(event) === expected.comment || `${event.path}:${event.line}` === expected.comment)
        && fits(event.text, expected.contains);
    case 'edit': return 'edit' in expected && fits(event.label, expected.edit) && fits(event.state, expected.state);
    case 'turn': return 'turn' in expected && event.ended === expected.turn;
    case 'chain': return 'chain' in expected && event.state === expected.chain;
    default: return false;
  }
}
