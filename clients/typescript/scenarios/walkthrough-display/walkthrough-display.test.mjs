// A person asks for a walkthrough. A panel appears, a comment stands at the code, and what she answers reaches the agent.
import { scenario } from 'acp-conductor-client/scenario';

const files = {
  'src/sum.js': 'export function sum(a, b) {\n  return a + b;\n}\n',
  'src/main.js': "import { sum } from './sum.js';\n\nconsole.log(sum(1, 2));\n",
};

scenario('walkthrough-display', { chain: ['walkthrough', './agent.mjs'], files }, async (user) => {
  await user.says('Walk me through the sum');
  await user.sees(
    { tool: 'walkthrough: present_walkthrough', status: 'in_progress' },
    { panel: 'How the sum is made', contains: 'Everything is in' },
    { comment: 'src/sum.js:1-3', contains: 'Is the name clear?' },
  );
  await user.replies('src/sum.js:1', 'Yes, it is.');
  await user.uses('How the sum is made', { widget: 'q1', kind: 'choice', value: 'Yes' });
  await user.sees(
    { tool: 'walkthrough: present_walkthrough', status: 'completed' },
    { message: /You told me: (?=[\s\S]*Yes, it is\.)(?=[\s\S]*Shall I add a test\?)/ },
    { turn: 'end_turn' },
  );
});
