// An agent that answers a greeting.
import { mockAgent } from 'acp-conductor-client/scenario/agent';

mockAgent(async (turn) => {
  await turn.log('info', `the user says: ${turn.text}`);
  await turn.say(turn.text === 'Hello, world' ? 'Hello, user' : `You said: ${turn.text}`);
});
