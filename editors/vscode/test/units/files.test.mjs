// Files that the agent writes while they are open in an editor.
import assert from 'node:assert/strict';
import test from 'node:test';
import { load } from './load.mjs';

test('an open file is saved after a change, also if VS Code does not say yet that it is not saved', async () => {
  let text = 'one\n';
  const saved = [];
  const document = {
    uri: { scheme: 'file', fsPath: '/p/a.txt' }, isClosed: false, isDirty: false,
    getText: () => text, positionAt: (offset) => offset,
    save: async () => {
      if (document.isDirty) return false;
      saved.push(text);
      return true;
    },
  };
  const vscode = {
    workspace: {
      textDocuments: [document], workspaceFolders: [], asRelativePath: (path) => path,
      applyEdit: async ({ from, to, part }) => {
        text = text.slice(0, from) + part + text.slice(to);
        return true;
      },
    },
    Range: class { constructor(from, to) { Object.assign(this, { from, to }); } },
    WorkspaceEdit: class { replace(_, { from, to }, part) { Object.assign(this, { from, to, part }); } },
  };
  const { fileHost } = await load('files', vscode);
  const host = fileHost('/p', { own: () => {} });
  await host.writeTextFile('/p/a.txt', 'two\n');
  assert.deepEqual(saved, ['two\n']);
  // The text is there already.
  await host.writeTextFile('/p/a.txt', 'two\n');
  assert.deepEqual(saved, ['two\n']);
  document.isDirty = true;
  await assert.rejects(host.writeTextFile('/p/a.txt', 'two\n'), /did not save/);
});
