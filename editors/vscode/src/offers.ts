// What a person can choose as a chain: named chains, agents on this machine, the demo agent, or a command line.
import * as vscode from 'vscode';
import { chainName, knownAgents, namedChains, namesOf, quoted, usualProxies, type ChainSpec } from './chains';
import type { Configuration } from './configuration';
import { findCommand } from './program';
import { settings } from './settings';

export interface Offer {
  title: string;
  about: string;
  /** A chain with a name. */
  chain: ChainSpec | null;
  /** An agent, if it is no chain with a name. Null: the person writes its command. */
  agent: string | null;
}

export interface Offers { named: Offer[]; agents: Offer[]; others: Offer[] }

export const demoAgent = 'demo-agent';

/** A new chain: the proxies that use what VS Code can show, and the agent. The settings can change it. */
const withProxies = (agent: string): string[] => [...usualProxies, agent];

/** What there is to choose from. The chain that conductor runs by default comes first. */
export async function offers({ chains, usual }: Configuration): Promise<Offers> {
  const isUsual = (chain: ChainSpec) => chain.configured !== undefined && chain.name === usual;
  const all = allNamed(chains);
  const named = [...all.filter(isUsual), ...all.filter((chain) => !isUsual(chain))].map((chain): Offer => ({
    title: chain.name, chain, agent: null,
    about: `${namesOf(chain).join(' → ')}${isUsual(chain) ? '. The default of your configuration.' : ''}`,
  }));
  const agents: Offer[] = [];
  for (const { name, command, args } of knownAgents) {
    const path = await findCommand(command);
    const agent = [quoted(path ?? ''), ...args].join(' ');
    if (path !== null) agents.push({ title: name, about: chainName(withProxies(command)), chain: null, agent });
  }
  const demo = `${chainName(withProxies(demoAgent))}. Needs no account and no network.`;
  return {
    named,
    agents,
    others: [
      { title: 'Demo agent', about: demo, chain: null, agent: demoAgent },
      { title: 'Enter a command line…', about: withProxies('your agent').join(' → '), chain: null, agent: null },
    ],
  };
}

/** The chains with a name. Those of the settings come first, and hide others of the same name. */
export function allNamed(configured: readonly ChainSpec[]): ChainSpec[] {
  const own = namedChains(settings.chains());
  return [...own, ...configured.filter(({ name }) => own.every((chain) => chain.name !== name))];
}

/** Lets the person choose. Null if she does not. */
export async function pickOffer({ named, agents, others }: Offers): Promise<Offer | null> {
  type Item = vscode.QuickPickItem & { offer?: Offer };
  const group = (label: string, list: Offer[]): Item[] => (list.length ? [
    { label, kind: vscode.QuickPickItemKind.Separator },
    ...list.map((offer): Item => ({ label: offer.title, detail: offer.about, offer })),
  ] : []);
  const items = [...group('chains', named), ...group('agents on this machine', agents), ...group('others', others)];
  const options = { title: 'Choose a chain', placeHolder: 'A chain, or an agent', matchOnDetail: true };
  const picked = await vscode.window.showQuickPick(items, options);
  return picked?.offer ?? null;
}

/** The value of the setting `conductor.chain` for an offer. Null if the person does not complete it. */
export async function completed(offer: Offer): Promise<string | string[] | null> {
  if (offer.chain) return offer.chain.name;
  const agent = offer.agent ?? await vscode.window.showInputBox({
    title: 'The agent',
    prompt: 'The command line of an agent that speaks ACP, such as: npx -y @agentclientprotocol/claude-agent-acp',
    ignoreFocusOut: true, validateInput: (text) => (text.trim() ? null : 'Write a command line.'),
  });
  if (agent === undefined || !agent.trim()) return null;
  return withProxies(agent.trim());
}
