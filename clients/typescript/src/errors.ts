// Describes the errors of agents for people: the reason, in whatever member the agent has put it, and a remedy.
//
// Agents put the reason into different places: the message, `data` as text, `data.details`, `data.message`, or a nested
// error object. An error that asks for a login does not say how to log in: the answer to `initialize` does.
import { at, isObject, list, text } from './json';
import { loginsOf, remedies } from './logins';
import { oneLine, plain } from './printable';
import type { RpcErrorObject } from './rpc-error';
import { withoutSecrets } from './secrets';

/** The longest text of a single member of `data` that is shown. */
const longestText = 4000;
/** How deep nested objects in `data` are searched for texts. */
const mostDepth = 6;
/** Members of `data` that contain the reason. Their names are not shown. */
const reasonNames = [
  'details', 'detail', 'message', 'error', 'errors', 'reason', 'cause', 'description', 'msg', 'stderr', 'output',
  'hint', 'data',
];

/** What is known about the agent that sent an error. */
export interface Source { agent: string; request: string; greeting: unknown }

export interface Description {
  /** What failed, why, and what to do, in several lines. */
  text: string;
  /** Whether the agent asks for a login. */
  login: boolean;
}

export function describe(error: RpcErrorObject, source: Source): Description {
  const own = / \[more: conductor errors ([a-z-]+)\]$/.exec(error.message);
  return own?.[1] ? describeOwn(error, own[0], own[1]) : describeForeign(error, source);
}

function write(summary: string, details: string[], remedy: string[], code: string): string {
  const more = code ? [`more: conductor errors ${code}`] : [];
  return [summary, ...details.map((it) => `  ${it}`), ...[...remedy, ...more].map((it) => `  → ${it}`)].join('\n');
}

/** An error of the conductor itself. Its message is complete, and ends with the remedy and the code of the error. */
function describeOwn(error: RpcErrorObject, reference: string, code: string): Description {
  const message = oneLine(error.message);
  const remedy = oneLine(text(at(error.data, 'remedy')) ?? '');
  let summary = message.endsWith(reference) ? message.slice(0, -reference.length) : message;
  if (remedy && summary.endsWith(remedy)) summary = summary.slice(0, -remedy.length);
  summary = summary.replace(/[ ;]+$/, '');
  const quoted = list(at(error.data, 'lastWords')).flatMap((it) => text(it) ?? []).map(oneLine);
  const details = quoted.filter((it) => it.trim());
  // One line of output is already in the message.
  return { text: write(summary, details.length > 1 ? details : [], remedy ? [remedy] : [], code), login: false };
}

function describeForeign(error: RpcErrorObject, source: Source): Description {
  const firsts: string[] = [];
  const details: string[] = [];
  const reasons = reasonsOf(error);
  for (const reason of reasons) {
    const [first, ...rest] = reason.split('\n').map((it) => it.trimEnd()).filter((it) => it.trim());
    if (first === undefined) continue;
    firsts.push(first.trim());
    details.push(...rest.map(oneLine));
  }
  const all = reasons.map(joinLines).join(': ').toLowerCase();
  const login = asksForLogin(error, all);
  const remedy = login ? loginRemedy(source) : remedyFor(error, all, source);
  const summary = prefix(source) + firsts.join(': ');
  return { text: write(summary, details, remedy, login ? 'login-required' : 'agent-error'), login };
}

/** The start of the summary: the agent and its request. */
function prefix({ agent, request }: Source): string {
  const name = oneLine(agent);
  return name ? `agent '${name}' answered ${request} with an error: ` : `${request} failed: `;
}

function joinLines(reason: string): string {
  return oneLine(reason.split('\n').map((it) => it.trim()).filter(Boolean).join(' '));
}

/** The message, and the texts in `data` that the message does not contain. */
function reasonsOf(error: RpcErrorObject): string[] {
  const found = [plain(error.message.trim() || 'an error without a message')];
  collect('', withoutSecrets(error.data), mostDepth, found);
  return found;
}

/** Adds the texts in a value, which is the member `name`, unless an earlier text contains them. */
function collect(name: string, value: unknown, depth: number, found: string[]): void {
  if (depth === 0 || value === null || value === undefined) return;
  if (Array.isArray(value)) {
    for (const item of value) collect(name, item, depth - 1, found);
    return;
  }
  if (isObject(value)) {
    const rank = (it: string) => (reasonNames.includes(it) ? reasonNames.indexOf(it) : reasonNames.length);
    const members = Object.entries(value).sort(([a], [b]) => rank(a) - rank(b));
    for (const [member, item] of members) collect(member, item, depth - 1, found);
    return;
  }
  const whole = typeof value === 'string' ? value.trim() : JSON.stringify(value);
  const shown = plain(whole.slice(0, longestText));
  if (!shown) return;
  if (name && !reasonNames.includes(name)) {
    found.push(`${name}: ${shown}`);
  } else if (!found.some((it) => it === shown || (shown.length > 3 && it.includes(shown)))) {
    found.push(shown);
  }
}

const loginWords = [
  'auth_required', 'authentication required', 'not authenticated', 'authenticate first', 'not logged in',
  'please log in', 'please login', 'login required', 'log in to', '/login', 'api key', 'api_key', 'apikey',
  'unauthorized', 'invalid credentials', 'authentication_error',
];

/** Whether the agent asks for a login. Some agents use another code than that of ACP. */
function asksForLogin(error: RpcErrorObject, all: string): boolean {
  return error.code === -32000 || loginWords.some((word) => all.includes(word));
}

function loginRemedy(source: Source): string[] {
  const lines = remedies(loginsOf(source.greeting));
  return lines.length > 0 ? lines : [
    "log in with the agent's own program, or give the agent its API key in the environment; the agent advertises no login",
  ];
}

const networkWords = [
  'econnrefused', 'enotfound', 'econnreset', 'etimedout', 'eai_again', 'fetch failed', 'error sending request',
  'connection refused', 'network error', 'dns error',
];

/** Whether a text has one of these words, as a whole word. */
function hasWord(all: string, words: readonly string[]): boolean {
  return words.some((word) => new RegExp(`(?<![\\p{L}\\p{N}])${word}(?![\\p{L}\\p{N}])`, 'u').test(all));
}

function remedyFor(error: RpcErrorObject, all: string, source: Source): string[] {
  switch (error.code) {
    case -32601: return [`the agent does not support ${source.request || 'this request'}; update the agent`];
    case -32002: return ['start a new session, or check the path'];
    case -32800: return loginHint(source);
    default:
  }
  if (hasWord(all, networkWords)) return ['check the network connection and the address of the model service'];
  if (hasWord(all, ['rate limit', 'rate_limit', '429', 'overloaded', 'quota'])) {
    return ['wait, and send the request again; the model service limits requests'];
  }
  return loginHint(source);
}

/** A failed start of a session is often a missing login or a missing configuration, also if the agent does not say so. */
function loginHint(source: Source): string[] {
  if (!['session/new', 'session/load', 'session/resume'].includes(source.request)) return [];
  return remedies(loginsOf(source.greeting)).map((it) => `if the agent is not set up: ${it}`);
}
