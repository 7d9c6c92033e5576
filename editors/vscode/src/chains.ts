// Chains: what the settings say, the agents that people use, and the names of components.

/** A chain that can be started. */
export interface ChainSpec {
  /** The name that a person reads. */
  name: string;
  /** The proxies, then the agent: words of `conductor agent`. Of a chain of the configuration: their names. */
  components: string[];
  /** Present if the chain is one of conductor's configuration: conductor knows it by its name. */
  configured?: { agentCommand: string };
}

export type Chosen = { chain: ChainSpec } | { problem: string } | null;

/** An agent that may be installed. */
export interface KnownAgent {
  name: string;
  /** The command to look for. */
  command: string;
  args: string[];
}

/** The agents of docs/agents.md that are commands. */
export const knownAgents: readonly KnownAgent[] = [
  { name: 'Claude', command: 'claude-agent-acp', args: [] },
  { name: 'Claude (older adapter)', command: 'claude-code-acp', args: [] },
  { name: 'Codex', command: 'codex-acp', args: [] },
  { name: 'Gemini CLI', command: 'gemini', args: ['--acp'] },
  { name: 'GitHub Copilot CLI', command: 'copilot', args: ['--acp'] },
  { name: 'OpenCode', command: 'opencode', args: ['acp'] },
  { name: 'goose', command: 'goose', args: ['acp'] },
  { name: 'Qwen Code', command: 'qwen', args: ['--acp'] },
  { name: 'Kimi Code', command: 'kimi', args: ['acp'] },
  { name: 'Mistral Vibe', command: 'vibe-acp', args: [] },
  { name: 'Hermes Agent', command: 'hermes', args: ['acp'] },
  { name: 'OpenHands', command: 'openhands', args: ['acp'] },
  { name: 'elizacp', command: 'elizacp', args: ['acp'] },
];

/** The built-in proxies of a new chain: panels and comments, and the operations of the editor. */
export const usualProxies: readonly string[] = ['walkthrough', 'ide'];

/** The chains of an object of the settings, without those that are wrong. */
export function namedChains(value: unknown): ChainSpec[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [];
  return Object.entries(value).flatMap(([name, components]) => {
    const list = componentList(components);
    return list.length ? [{ name, components: list }] : [];
  });
}

/** A list of words that are not empty. Everything else is an empty list. */
function componentList(value: unknown): string[] {
  if (!Array.isArray(value) || !value.every((it): it is string => typeof it === 'string')) return [];
  return value.map((it) => it.trim()).filter(Boolean);
}

/** The chain that the settings name. Null if they name none. */
export function chosenChain(setting: unknown, named: readonly ChainSpec[]): Chosen {
  const words = typeof setting === 'string' ? [setting.trim()].filter(Boolean) : componentList(setting);
  const [first] = words;
  if (first === undefined) return null;
  if (words.length === 1) {
    const found = named.find((chain) => chain.name === first);
    if (found) return { chain: found };
  }
  if (typeof setting === 'string') {
    const list = JSON.stringify([first]);
    const remedy = `For a command, write a list: ${list}.`;
    const places = 'in the setting conductor.chains and in the configuration of conductor';
    return { problem: `There is no chain '${first}' ${places}. ${remedy}` };
  }
  return { chain: { name: chainName(words), components: words } };
}

/** The words that name a chain, after `conductor agent` and its options. */
export function chainWords({ name, components, configured }: ChainSpec): string[] {
  return configured ? ['--chain', name] : ['--', ...components];
}

/** The names of the components of a chain. */
export function namesOf({ components, configured }: ChainSpec): string[] {
  return configured ? [...components] : componentNames(components);
}

/** The command line of the agent of a chain. */
export function agentCommand({ components, configured }: ChainSpec): string {
  return configured ? configured.agentCommand : components.at(-1) ?? '';
}

/** The name of a chain without a name: its components. */
export function chainName(components: readonly string[]): string {
  return componentNames(components).join(' → ');
}

/** The names of components, as conductor gives them: `name`, `name#2`. */
export function componentNames(components: readonly string[]): string[] {
  const seen = new Map<string, number>();
  return components.map((text) => {
    const name = componentName(text);
    const count = (seen.get(name) ?? 0) + 1;
    seen.set(name, count);
    return count > 1 ? `${name}#${count}` : name;
  });
}

const interpreters = ['node', 'python', 'python3', 'npx', 'uvx', 'bun', 'bunx', 'deno', 'sh', 'bash', 'env'];

/** The name of a component: the program, or the script that an interpreter runs. */
export function componentName(text: string): string {
  const { name, command, args } = parsed(text);
  if (name !== null) return name;
  const stem = stemOf(command);
  const script = args.find((arg) => !arg.startsWith('-') && !/\s/.test(arg));
  return script !== undefined && interpreters.includes(stem) ? stemOf(script) : stem;
}

function stemOf(path: string): string {
  const name = path.split(/[/\\]/).at(-1) ?? path;
  return name.replace(/\.(js|mjs|cjs|ts|py|sh|exe)$/, '');
}

/** The command line of a component, as a shell reads it. */
export function commandLine(text: string): string {
  if (!text.trimStart().startsWith('{')) return text.trim();
  const { command, args } = parsed(text);
  return [command, ...args].map(quoted).join(' ');
}

/** The command of a log-in: where the agent is meant to be started, its own command line. */
export function loginCommand(command: string, agent: string): string {
  return command.replace(/(^|\s)AGENT(?=\s|$)/, (_, before: string) => before + commandLine(agent));
}

/** The environment variables of a log-in that has no command: it says only which ones to set. Null for other log-ins. */
export function loginVariables(command: string): string[] | null {
  const [first, ...words] = command.split(' ');
  const names = words.filter((word) => word.endsWith('=…')).map((word) => word.slice(0, -2));
  return first === 'export' && names.length === words.length ? names : null;
}

function parsed(text: string): { name: string | null; command: string; args: string[] } {
  if (text.trimStart().startsWith('{')) {
    try {
      const value: unknown = JSON.parse(text);
      const [name, command, args]: unknown[] = ['name', 'command', 'args'].map((key) => member(value, key));
      return {
        name: typeof name === 'string' ? name : null,
        command: typeof command === 'string' ? command : '?',
        args: componentList(args),
      };
    } catch {
      return { name: null, command: text.trim().slice(0, 20), args: [] };
    }
  }
  const words = splitWords(text);
  const first = words.findIndex((word) => !/^[A-Za-z_]\w*=/.test(word));
  const [command = text.trim(), ...args] = first < 0 ? [] : words.slice(first);
  return { name: null, command: command.replace(/^builtin:/, ''), args };
}

/** The words of a command line, with the quotes of a shell. Windows paths keep their backslashes. */
export function splitWords(text: string, windows = process.platform === 'win32'): string[] {
  const words: string[] = [];
  let word: string | null = null;
  let quote = '';
  for (let at = 0; at < text.length; at += 1) {
    const letter = text.charAt(at);
    const isEscape = letter === '\\' && !windows;
    if (quote) {
      if (letter === quote) quote = '';
      else if (isEscape && quote === '"' && isEscapable(text.charAt(at + 1))) word += text.charAt(++at);
      else word += letter;
    } else if (letter === '"' || letter === "'") {
      quote = letter;
      word ??= '';
    } else if (isEscape && at + 1 < text.length) {
      word = (word ?? '') + text.charAt(++at);
    } else if (/\s/.test(letter)) {
      if (word !== null) words.push(word);
      word = null;
    } else {
      word = (word ?? '') + letter;
    }
  }
  if (word !== null) words.push(word);
  return words;
}

/** What a backslash escapes between double quotes. */
const isEscapable = (letter: string): boolean => letter !== '' && '"\\$`'.includes(letter);

/** A word, quoted so that a shell reads it as one. */
export function quoted(word: string): string {
  return /^[\w@%+:,./~-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** The chains of `conductor chain list --json` that have an agent. Older versions do not have the command. */
export function configuredChains(json: string): ChainSpec[] {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    return [];
  }
  const chains = member(value, 'chains');
  if (!Array.isArray(chains)) return [];
  return chains.flatMap((chain: unknown) => {
    const [name, agentCommand] = [member(chain, 'name'), member(chain, 'agentCommand')];
    const components = componentList(member(chain, 'components'));
    // A chain without an agent is a part of others, and a chain with a mistake has no components.
    if (typeof name !== 'string' || !name || typeof agentCommand !== 'string' || !components.length) return [];
    return [{ name, components, configured: { agentCommand } }];
  });
}

/** A member of an object, or undefined. */
export function member(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, key) : undefined;
}
