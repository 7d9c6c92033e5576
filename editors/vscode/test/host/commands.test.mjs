// What the extension declares is there, and it becomes active quickly.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';

/** How long the activation may take, in milliseconds. */
const ACTIVATION = 100;

export function tests({ vscode, test }) {
  const extension = () => vscode.extensions.getExtension('acp-conductor.conductor');

  test('the extension is not active before something needs it', () => {
    assert.equal(extension().isActive, false);
  });

  test(`the extension is active in less than ${ACTIVATION} ms`, async () => {
    // The time of the processor: the time of a clock depends on what else the machine does.
    const before = process.threadCpuUsage();
    await extension().activate();
    const { user, system } = process.threadCpuUsage(before);
    const took = (user + system) / 1000;
    assert.ok(took < ACTIVATION, `it took ${took} ms`);
    const lines = readFileSync(process.env.CONDUCTOR_VSCODE_EVENTS, 'utf8').split('\n').filter(Boolean);
    const { ms } = lines.map((line) => JSON.parse(line)).find((it) => it.event === 'activate');
    assert.ok(ms < ACTIVATION, `its own work took ${ms} ms`);
  });

  test('each declared command exists', async () => {
    const declared = extension().packageJSON.contributes.commands.map((it) => it.command);
    const known = new Set(await vscode.commands.getCommands(true));
    assert.deepEqual(declared.filter((it) => !known.has(it)), []);
  });

  test('each declared setting has its default value', () => {
    for (const [name, { default: value }] of Object.entries(extension().packageJSON.contributes.configuration.properties)) {
      assert.deepEqual(vscode.workspace.getConfiguration().inspect(name)?.defaultValue, value, name);
    }
  });
}
