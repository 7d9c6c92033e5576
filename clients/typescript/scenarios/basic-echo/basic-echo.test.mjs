// A person greets the agent, and the agent answers.
import { scenario } from 'acp-conductor-client/scenario';

scenario('basic-echo', { chain: ['./agent.mjs'] }, async (user) => {
  await user.says('Hello, world');
  await user.sees(
    { log: 'the user says: Hello, world', level: 'info' },
    { message: 'Hello, user' },
    { turn: 'end_turn' },
  );
  await user.says('Once more');
  await user.sees({ message: 'You said: Once more' }, { turn: 'end_turn' });
});
