// An agent that knows only MCP servers on standard input and output, and uses the tools that it is given.
import { mockAgent } from 'acp-conductor-client/scenario/agent';

mockAgent(async (turn) => {
  const tools = await turn.tools('remind');
  await turn.say(`My tools are: ${tools.join(', ')}`);
  const { text, isError } = await turn.callTool('remind', 'remind_me', JSON.parse(turn.text));
  await turn.log(isError ? 'error' : 'info', 'the tool has answered');
  await turn.say(`The tool says: ${text}`);
});
