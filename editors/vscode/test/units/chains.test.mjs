// Chains: what the settings mean, and the names of components.
import assert from 'node:assert/strict';
import test from 'node:test';
import { load } from './load.mjs';

const {
  agentCommand, chainName, chainWords, chosenChain, componentNames, configuredChains, loginCommand, loginVariables, namedChains, namesOf,
  quoted, splitWords,
} = await load('chains');
const { configurationOf } = await load('configuration');

const named = [{ name: 'Tours', components: ['walkthrough', 'my-agent'] }];

test('a chain is a list, or a name', () => {
  assert.deepEqual(chosenChain(['ide', ' my-agent '], named), {
    chain: { name: 'ide → my-agent', components: ['ide', 'my-agent'] },
  });
  assert.deepEqual(chosenChain('Tours', named), { chain: named[0] });
  assert.deepEqual(chosenChain(['Tours'], named), { chain: named[0] });
  assert.deepEqual(chosenChain(['my-agent'], named), { chain: { name: 'my-agent', components: ['my-agent'] } });
});

test('a name that does not exist is named, and what is no chain is none', () => {
  assert.match(chosenChain('Turs', named).problem, /no chain 'Turs'/);
  for (const value of [undefined, null, [], '', '  ', 7, {}, [3]]) assert.equal(chosenChain(value, named), null);
});

test('wrong chains of the settings are left out', () => {
  assert.deepEqual(namedChains({ Tours: ['walkthrough', 'my-agent'], none: [], wrong: 'x', mixed: ['a', 1] }), named);
  for (const value of [null, [], 'x', undefined]) assert.deepEqual(namedChains(value), []);
});

test('components have the names that conductor gives them', () => {
  assert.deepEqual(componentNames([
    '/opt/bin/claude-code-acp --x', 'npx -y @zed-industries/claude-code-acp', 'python3 -u agent.py', "sh -c 'exec agent'",
    'tee a', 'tee b', 'LEVEL=debug node ./tee.js --to "my log"', 'builtin:ide',
    '{"command":"node","args":["a b","my.mjs"]}', '{"name":"n","command":"x"}',
  ]), ['claude-code-acp', 'claude-code-acp#2', 'agent', 'sh', 'tee', 'tee#2', 'tee#3', 'ide', 'my', 'n']);
  assert.equal(chainName(['walkthrough', 'KEY=secret my-agent']), 'walkthrough → my-agent');
});

test('words are split as a shell does, and paths of Windows stay', () => {
  assert.deepEqual(splitWords(String.raw`a 'b c' "d \"e" f\ g ''`, false), ['a', 'b c', 'd "e', 'f g', '']);
  assert.deepEqual(splitWords(String.raw`C:\bin\agent.exe "C:\My Agent\a.exe"`, true), [
    String.raw`C:\bin\agent.exe`, String.raw`C:\My Agent\a.exe`,
  ]);
  for (const word of ['a', 'a b', "it's", '', '$x', '/usr/bin/x']) {
    assert.deepEqual(splitWords(quoted(word), false), [word]);
  }
});

test('chains of the configuration run by their names', () => {
  const place = { file: '/home/me/.config/conductor/conductor.toml', line: 3, column: 9 };
  const list = {
    folder: '/project', default: 'work', project: null, more: 1,
    chains: [
      { name: 'work', default: true, ...place, components: ['log', 'log#2', 'agent.py'], agent: 'agent.py', agentCommand: 'npx -y a' },
      { name: 'part', default: false, ...place, components: ['filter'], agent: null, agentCommand: null },
      { name: 'wrong', default: false, ...place, error: 'there is no component `x`' },
      { name: '', components: ['x'], agent: 'x', agentCommand: 'x' },
      null,
    ],
  };
  const chains = configuredChains(JSON.stringify(list));
  const [work] = chains;
  assert.deepEqual(chains, [
    { name: 'work', components: ['log', 'log#2', 'agent.py'], configured: { agentCommand: 'npx -y a' } },
  ]);
  assert.deepEqual(chosenChain('work', [...named, ...chains]), { chain: work });
  assert.deepEqual(chainWords(work), ['--chain', 'work']);
  assert.deepEqual(namesOf(work), ['log', 'log#2', 'agent.py']);
  assert.equal(loginCommand('AGENT --login', agentCommand(work)), 'npx -y a --login');
  for (const text of ['', 'error', '[]', '{}', '{"chains":7}', '{"chains":{"a":["x"]}}', '{"chains":[{"name":"a"}]}']) {
    assert.deepEqual(configuredChains(text), []);
  }
});

test('the default chain, a project that is not trusted and wrong chains are known', () => {
  const chain = (name, more) => ({ name, components: ['a'], agent: 'a', agentCommand: 'a', ...more });
  const found = configurationOf(JSON.stringify({
    default: 'work', project: { file: '/p/conductor.toml', used: false, notice: 'x is not used [more: conductor errors untrusted-project]' },
    chains: [chain('work'), { name: 'wrong', file: '/c.toml', line: 7, error: 'there is no component `x`\nmore' }],
  }));
  assert.deepEqual(found.chains.map(({ name }) => name), ['work']);
  assert.equal(found.usual, 'work');
  assert.deepEqual(found.problems, ['x is not used', 'The chain wrong is wrong: there is no component `x` (/c.toml:7)']);
  assert.equal(configurationOf(JSON.stringify({ default: 'gone', chains: [] })).usual, null);
  assert.deepEqual(configurationOf('x'), { chains: [], usual: null, problems: [] });
});

test('a log-in by environment variables has no command', () => {
  assert.deepEqual(loginVariables('export OPENAI_API_KEY=…'), ['OPENAI_API_KEY']);
  assert.deepEqual(loginVariables('export A=… B=…'), ['A', 'B']);
  for (const command of ['AGENT login', 'A=1 AGENT', 'export A=1', 'exporter A=…']) assert.equal(loginVariables(command), null);
});

test('chains of the settings run by their components', () => {
  const [tours] = named;
  assert.deepEqual(chainWords(tours), ['--', 'walkthrough', 'my-agent']);
  assert.deepEqual(namesOf({ name: 'x', components: ['tee a', './tee.sh'] }), ['tee', 'tee#2']);
  assert.equal(agentCommand(tours), 'my-agent');
});

test('a log-in starts the agent with its own command line', () => {
  assert.equal(loginCommand('X=1 AGENT --login', 'npx -y my-agent'), 'X=1 npx -y my-agent --login');
  assert.equal(loginCommand('AGENT', '{"command":"my agent","args":["a"]}'), "'my agent' a");
  assert.equal(loginCommand('other AGENTS', 'x'), 'other AGENTS');
  assert.equal(loginCommand('AGENT $&', 'x $1'), 'x $1 $&');
});
