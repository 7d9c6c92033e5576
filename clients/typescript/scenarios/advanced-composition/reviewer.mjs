// The agent that reviews code. It knows one mistake.
import { mockAgent } from 'acp-conductor-client/scenario/agent';

mockAgent(async (turn) => {
  const guarded = turn.text.includes('throw');
  await turn.say(guarded ? 'Nothing to object.' : 'Division by zero is possible in line 2.');
});
