// The answer of `conductor chain list --json`: the chains of conductor's own configuration, and what is wrong with it.
import { configuredChains, member, type ChainSpec } from './chains';

export interface Configuration {
  /** The chains that can run. */
  chains: ChainSpec[];
  /** The name of the chain that conductor runs if none is named. */
  usual: string | null;
  /** What keeps chains from being used: a mistake, or a project that is not trusted. Each is one line. */
  problems: string[];
}

export const noConfiguration: Configuration = { chains: [], usual: null, problems: [] };

/** The configuration in the output. */
export function configurationOf(json: string): Configuration {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    return noConfiguration;
  }
  const chains = configuredChains(json);
  const [usual, notice, all] = [member(value, 'default'), member(member(value, 'project'), 'notice'), member(value, 'chains')];
  const wrong = (Array.isArray(all) ? all : []).flatMap((chain: unknown) => {
    const [name, error, file, line] = ['name', 'error', 'file', 'line'].map((key) => member(chain, key));
    if (typeof name !== 'string' || typeof error !== 'string') return [];
    const isPlace = typeof file === 'string' && typeof line === 'number' && !error.startsWith(file);
    return [`The chain ${name} is wrong: ${firstLine(error)}${isPlace ? ` (${file}:${line})` : ''}`];
  });
  return {
    chains,
    usual: chains.find(({ name }) => name === usual)?.name ?? null,
    problems: [...(typeof notice === 'string' && notice ? [withoutReference(notice)] : []), ...wrong],
  };
}

/** The configuration if the command has failed. A version that does not have the command has no chains. */
export function failedConfiguration(stderr: string): Configuration {
  const start = stderr.indexOf('conductor: ');
  if (start < 0) return noConfiguration;
  const text = stderr.slice(start + 'conductor: '.length);
  const place = /^ *--> (\S.*)$/m.exec(text)?.[1];
  const problem = `The configuration of conductor has a mistake: ${withoutReference(firstLine(text))}`;
  return { ...noConfiguration, problems: [place === undefined ? problem : `${problem} (${place.trim()})`] };
}

const firstLine = (text: string): string => text.trim().split('\n')[0]?.trim() ?? '';
const withoutReference = (text: string): string => text.replace(/ \[more: [^\]]*\]\s*$/, '');
