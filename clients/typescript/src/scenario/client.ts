// A bare client: the library alone, without a user interface.
import { Editor } from '../editor';
import { filesIn } from '../files';
import { program } from './program';
import { LinkedTarget } from './linked';
import type { StartTarget } from './target';

export const startClient: StartTarget = async ({ chain, folder, env, emit }) => {
  const editor = new Editor({
    program: { command: program(), args: ['agent', ...chain], cwd: folder, env: { ...process.env, ...env } },
    folder,
    components: chain,
    client: { name: 'scenario-client', title: 'Scenario client', version: '1' },
    host: { ...filesIn(folder), terminals: true, panels: true, comments: true },
  });
  const target = new LinkedTarget(editor.topics, (action) => editor.do(action), () => editor.stop(), emit);
  editor.start();
  return ready(target);
};

/** The target when it can be used. If it never can, its program is ended. */
export async function ready(target: LinkedTarget): Promise<LinkedTarget> {
  try {
    await target.ready();
    return target;
  } catch (error) {
    await target.stop();
    throw error;
  }
}
