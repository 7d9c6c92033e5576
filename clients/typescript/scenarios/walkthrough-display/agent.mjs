// An agent that presents a walkthrough, and says what the answers were.
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
  const { text } = await turn.callTool('walkthrough', 'present_walkthrough', walkthrough);
  await turn.say(`You told me: ${text}`);
});
