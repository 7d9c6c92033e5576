// An agent that presents a walkthrough, waits for the answers, and asks the editor where a function is used.
import { mockAgent } from 'acp-conductor-client/scenario/agent';

const walkthrough = {
  title: 'How the sum is made',
  sections: [
    {
      heading: 'The function',
      markdown: 'Everything is in **one** function.',
      code: [{ path: 'src/sum.js', line: 1, end_line: 3, comment: 'Is the name clear?' }],
    },
    { question: { text: 'Shall I add a test?', choices: ['Yes', 'No'] } },
  ],
};

mockAgent(async (turn) => {
  if (turn.text === 'Where is sum used?') {
    const { text } = await turn.callTool('editor', 'find_all_references', { symbol: 'sum' });
    await turn.say(`It is used here: ${text}`);
    return;
  }
  const { text } = await turn.callTool('walkthrough', 'present_walkthrough', walkthrough);
  await turn.say(`You told me: ${text}`);
});
