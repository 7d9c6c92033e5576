// A proxy offers a tool over ACP. The agent does not know that way, so the conductor starts a bridge for it.
import { scenario } from 'acp-conductor-client/scenario';

scenario('mcp-bridge', { chain: ['remind', './agent.mjs'] }, async (user) => {
  await user.says('{"in": "2h", "text": "Stretch your legs"}');
  await user.sees(
    { message: /My tools are: .*remind_me/ },
    { tool: 'remind: remind_me', status: 'completed' },
    { log: 'the tool has answered', level: 'info' },
    { message: 'The tool says: Reminder 1 is set.' },
    { turn: 'end_turn' },
  );
});

scenario('mcp-bridge with a bad call', { chain: ['remind', './agent.mjs'] }, async (user) => {
  await user.says('{"in": "whenever", "text": "Stretch your legs"}');
  await user.sees(
    { tool: 'remind: remind_me', status: 'failed' },
    { log: 'the tool has answered', level: 'error' },
    { turn: 'end_turn' },
  );
});
