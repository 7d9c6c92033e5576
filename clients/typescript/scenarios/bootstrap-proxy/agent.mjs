// An agent that repeats each prompt, and asks before it does something.
import { mockAgent } from 'acp-conductor-client/scenario/agent';

mockAgent(async (turn) => {
  if (turn.text !== 'ask me') {
    await turn.say(`Echo: ${turn.text}`);
    return;
  }
  const answer = await turn.ask('Paint the house');
  await turn.say(answer === 'allow' ? 'It is painted.' : 'It stays as it is.');
});
