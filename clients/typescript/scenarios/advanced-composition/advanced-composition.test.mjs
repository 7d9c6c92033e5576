// Two agents work together: one writes code, the other reviews it, and the person decides in a panel.
import { scenario } from 'acp-conductor-client/scenario';

const chain = ['filter', './review.mjs', 'walkthrough', './agent.mjs'];

scenario('advanced-composition', { chain }, async (user) => {
  await user.says('Write a function that divides');
  await user.sees(
    { log: 'the reviewer says: Division by zero is possible in line 2.' },
    { comment: 'src/divide.js:2', contains: 'Division by zero' },
    { panel: 'Review', contains: 'Fix it' },
  );
  await user.uses('Review', { widget: 'what', kind: 'choice', value: 'fix' });
  await user.sees(
    { message: /I have written divide\.js\.[^]*I have added a check\./ },
    { log: 'the reviewer says: Nothing to object.' },
    { turn: 'end_turn' },
  );
});

scenario('advanced-composition with a closed panel', { chain }, async (user) => {
  await user.says('Write a function that divides');
  await user.sees({ panel: 'Review' });
  await user.closes('Review');
  await user.sees({ turn: 'end_turn' });
  user.doesNotSee({ message: 'I have added a check.' });
});
