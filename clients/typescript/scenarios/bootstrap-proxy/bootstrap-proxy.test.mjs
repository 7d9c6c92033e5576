// A proxy stands between editor and agent: prompts, answers, log messages and questions pass it.
import { scenario } from 'acp-conductor-client/scenario';

scenario('bootstrap-proxy', { chain: ['./proxy.mjs', './agent.mjs'] }, async (user) => {
  await user.says('Hello');
  await user.sees({ log: 'the proxy passes a prompt on' }, { message: 'Echo: Hello' }, { turn: 'end_turn' });
});

scenario('bootstrap-proxy with a question', { chain: ['./proxy.mjs', './agent.mjs'] }, async (user) => {
  for (const [choice, result] of [['Allow once', 'It is painted.'], ['Reject', 'It stays as it is.']]) {
    await user.says('ask me');
    await user.sees({ question: 'Paint the house', choices: ['Allow once', 'Reject'] });
    await user.answers(choice);
    await user.sees({ message: result }, { turn: 'end_turn' });
  }
});

scenario('bootstrap-proxy with three proxies', { chain: ['./proxy.mjs', './proxy.mjs', './proxy.mjs', './agent.mjs'] }, async (user) => {
  await user.says('Hello');
  const passed = { log: 'the proxy passes a prompt on' };
  await user.sees(passed, passed, passed, { message: 'Echo: Hello' }, { turn: 'end_turn' });
});
