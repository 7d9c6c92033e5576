// The agent that writes code.
import { mockAgent } from 'acp-conductor-client/scenario/agent';

mockAgent(async (turn) => {
  const careful = turn.text.includes('Division by zero');
  const body = careful ? "  if (b === 0) throw new RangeError('b is 0');\n  return a / b;\n" : '  return a / b;\n';
  const path = `${turn.folder}/src/divide.js`;
  const content = `export function divide(a, b) {\n${body}}\n`;
  await turn.request('fs/write_text_file', { sessionId: turn.session, path, content });
  await turn.say(careful ? 'I have added a check.' : 'I have written divide.js.');
});
