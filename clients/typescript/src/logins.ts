// The ways to log in that an agent names in its answer to `initialize`.
import { at, isObject, list, text } from './json';
import type { Login } from './link/types';
import { oneLine } from './printable';

/** What a way to log in needs. */
type How =
  | { how: 'authenticate' }
  | { how: 'terminal'; command: string }
  | { how: 'environment'; variables: string[]; link: string };

export type AgentLogin = { id: string; name: string; about: string } & How;

const line = (value: unknown): string => oneLine((text(value) ?? '').trim());

/** Quotes a word for a shell. */
function quote(raw: string): string {
  const word = oneLine(raw);
  return /^[A-Za-z0-9\-_./:=@%+,]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
}

/** The command with the additional arguments and variables of a method. */
function terminalCommand(method: unknown, command: string): string {
  const pair = (name: string, value: unknown) => `${oneLine(name)}=${quote(text(value) ?? '')}`;
  const env = at(method, 'env');
  const variables = isObject(env)
    ? Object.entries(env).map(([name, value]) => pair(name, value))
    : list(env).map((it) => pair(text(at(it, 'name')) ?? '', at(it, 'value')));
  const args = list(at(method, 'args')).flatMap((it) => text(it) ?? []);
  return [...variables, oneLine(command), ...args.map(quote)].join(' ');
}

function variablesOf(method: unknown): string[] {
  const names = list(at(method, 'vars'))
    .filter((it) => at(it, 'optional') !== true)
    .flatMap((it) => text(at(it, 'name')) ?? text(it) ?? []);
  // The oldest form has one variable.
  return [...names, ...(text(at(method, 'varName')) === undefined ? [] : [String(at(method, 'varName'))])].map(oneLine);
}

function howOf(method: unknown): How {
  const terminal = at(method, '_meta', 'terminal-auth');
  const own = text(at(terminal, 'command'));
  if (own !== undefined) return { how: 'terminal', command: terminalCommand(terminal, quote(own)) };
  switch (at(method, 'type')) {
    case 'terminal':
      return { how: 'terminal', command: terminalCommand(method, 'AGENT') };
    case 'env_var':
      return { how: 'environment', variables: variablesOf(method), link: line(at(method, 'link')) };
    default:
      return { how: 'authenticate' };
  }
}

/** The ways to log in, of ACP version 1 or 2. All texts are safe to show. */
export function loginsOf(greeting: unknown): AgentLogin[] {
  return list(at(greeting, 'authMethods')).flatMap((method) => {
    const id = text(at(method, 'id')) ?? text(at(method, 'methodId'));
    if (id === undefined) return [];
    return { id, name: line(at(method, 'name')) || oneLine(id), about: line(at(method, 'description')), ...howOf(method) };
  });
}

/** A way to log in, as a view shows it. */
export function shownLogin(login: AgentLogin): Login {
  const { id, name, about } = login;
  switch (login.how) {
    case 'authenticate': return { id, name, about, command: null };
    case 'terminal': return { id, name, about, command: login.command };
    case 'environment': return { id, name, about, command: `export ${login.variables.map((it) => `${it}=…`).join(' ')}` };
  }
}

const title = ({ name, about }: AgentLogin): string => (about ? `${name} (${about})` : name);

function remedy(login: AgentLogin): string {
  switch (login.how) {
    case 'terminal':
      return `${title(login)}: run \`${login.command}\` in a terminal`;
    case 'environment': {
      const variables = login.variables.join(' and ') || 'its variables';
      const link = login.link && ` (see ${login.link})`;
      return `${title(login)}: set ${variables} in the environment of the agent${link}`;
    }
    case 'authenticate':
      return `${title(login)}: choose this login in your editor, or type /login in \`conductor try\``;
  }
}

/** What a person has to do for each login, one line each. The logins that the editor performs share a line. */
export function remedies(logins: readonly AgentLogin[]): string[] {
  const requests = logins.filter((it) => it.how === 'authenticate');
  const lines = logins.filter((it) => it.how !== 'authenticate').map(remedy);
  if (requests.length > 1) {
    const names = requests.map(title).join('; ');
    lines.push(`type /login in \`conductor try\`, or choose a login in your editor: ${names}`);
  } else {
    lines.push(...requests.map(remedy));
  }
  return lines;
}
