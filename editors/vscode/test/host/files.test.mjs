// What the agent reads and writes is what the person sees: also text that is not saved. Edits are asked for first.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, lstatSync, readFileSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { change, closeAll, show, startAgent, until } from './agent.mjs';

export async function tests({ vscode, test, options: { folder } }) {
  const url = (name) => pathToFileURL(`${folder}/${name}`).href;
  const onDisk = (name) => readFileSync(`${folder}/${name}`, 'utf8');
  const text = async (name) => (await vscode.workspace.openTextDocument(vscode.Uri.file(`${folder}/${name}`))).getText();
  let agent;
  let sessionId;

  test('a file is read as it is shown, also if it is not saved', async () => {
    agent = await startAgent(vscode);
    sessionId = 's1';
    const read = (more) => agent.request('fs/read_text_file', { sessionId, path: `${folder}/edited/faces.js`, ...more });
    assert.equal((await read()).content, onDisk('edited/faces.js'));
    const { document } = await show(vscode, folder, 'edited/faces.js');
    await change(vscode, document, new vscode.Range(0, 0, 0, 0), '// one 😀\n// two\n');
    assert.equal((await read()).content, `// one 😀\n// two\n${onDisk('edited/faces.js')}`);
    assert.equal((await read({ line: 2, limit: 1 })).content.trimEnd(), '// two');
    await closeAll(vscode);
  });

  test('a file that does not exist is an error', async () => {
    await assert.rejects(agent.request('fs/read_text_file', { sessionId, path: `${folder}/missing.txt` }), /missing\.txt/);
  });

  test('a written file is on the disk, and is shown where it is open', async () => {
    const write = (name, content) => agent.request('fs/write_text_file', { sessionId, path: `${folder}/${name}`, content });
    await write('new/deep/file.txt', 'one\n');
    assert.equal(onDisk('new/deep/file.txt'), 'one\n');
    const { document } = await show(vscode, folder, 'new/deep/file.txt');
    await write('new/deep/file.txt', 'two 😀\n');
    assert.equal(onDisk('new/deep/file.txt'), 'two 😀\n');
    await until(() => document.getText() === 'two 😀\n', 'the new text in the editor');
    // VS Code tells the extensions later that the text is saved.
    await until(() => !document.isDirty, 'the document without changes');
    await closeAll(vscode);
  });

  test('a file that is no UTF-8 text is not read, so that it is not damaged', async () => {
    const read = (name) => agent.request('fs/read_text_file', { sessionId, path: `${folder}/${name}` });
    writeFileSync(`${folder}/edited/latin.txt`, Buffer.from('caf\xe9\n', 'latin1'));
    await assert.rejects(read('edited/latin.txt'), /not UTF-8/);
    const edit = agent.operation('apply-edit', { edits: [{ ...ranges('edited/latin.txt', 1, 1, 2, 'C') }] });
    await assert.rejects(edit, /not UTF-8/);
    execFileSync('mkfifo', [`${folder}/edited/pipe`]);
    await assert.rejects(read('edited/pipe'), /not a regular file/);
    const write = agent.request('fs/write_text_file', { sessionId, path: `${folder}/edited/pipe`, content: 'x' });
    await assert.rejects(write, /not a regular file/);
    unlinkSync(`${folder}/edited/pipe`);
  });

  test('a file that is written by a link stays behind its link', async () => {
    writeFileSync(`${folder}/edited/real.txt`, 'one\n');
    symlinkSync('real.txt', `${folder}/edited/link.txt`);
    await agent.request('fs/write_text_file', { sessionId, path: `${folder}/edited/link.txt`, content: 'two\n' });
    assert.equal(onDisk('edited/real.txt'), 'two\n');
    assert.ok(lstatSync(`${folder}/edited/link.txt`).isSymbolicLink());
  });

  /** Asks for an edit, and waits until VS Code shows it. */
  async function propose(edits, label = 'Rename') {
    const answer = agent.operation('apply-edit', { label, edits });
    answer.catch(() => {});
    await until(() => vscode.window.tabGroups.all.some((group) => group.tabs.some((tab) => (
      tab.input instanceof vscode.TabInputTextDiff && tab.input.modified.scheme === 'conductor-edit'))), 'the diff');
    return answer.then((it) => it, (error) => ({ error }));
  }
  const ranges = (name, line, from, to, text_) => ({
    url: url(name), new_text: text_,
    start: { line, ...(from === null ? {} : { column: from }) }, ...(to === null ? {} : { end: { line, column: to } }),
  });
  const diffs = () => vscode.window.tabGroups.all.flatMap((group) => group.tabs).filter((tab) => tab.input instanceof vscode.TabInputTextDiff);

  test('an edit that is accepted changes the files, with columns that count characters', async () => {
    await closeAll(vscode);
    const promise = propose([ranges('edited/faces.js', 1, 29, 34, 'later'), ranges('edited/use.js', 3, 7, 12, 'sum')]);
    await until(() => diffs().length > 0, 'the diff');
    assert.match(onDisk('edited/faces.js'), /const after/, 'nothing changes before the person has accepted');
    await vscode.commands.executeCommand('conductor.acceptEdit');
    assert.deepEqual(await promise, { applied: true });
    assert.equal(await text('edited/faces.js'), "const faces = '😀👩‍🚀'; const later = faces;\n");
    assert.match(await text('edited/use.js'), /^const sum = add/m);
    await until(() => diffs().length === 0, 'the end of the diff');
    await closeAll(vscode);
  });

  test('an edit that is rejected changes nothing', async () => {
    const promise = propose([ranges('edited/use.js', 1, 1, 7, 'export')]);
    await until(() => diffs().length > 0, 'the diff');
    const before = await text('edited/use.js');
    await vscode.commands.executeCommand('conductor.rejectEdit');
    const { applied, reason } = await promise;
    assert.equal(applied, false);
    assert.match(reason, /reject/);
    assert.equal(await text('edited/use.js'), before);
  });

  test('an edit of a file that has changed meanwhile is not applied', async () => {
    const promise = propose([ranges('edited/use.js', 3, 7, 10, 'seven')]);
    await until(() => diffs().length > 0, 'the diff');
    const document = await vscode.workspace.openTextDocument(vscode.Uri.file(`${folder}/edited/use.js`));
    await change(vscode, document, new vscode.Range(0, 0, 0, 0), '// before\n');
    await vscode.commands.executeCommand('conductor.acceptEdit');
    const { applied, reason } = await promise;
    assert.equal(applied, false);
    assert.match(reason, /changed/);
    assert.match(document.getText(), /^\/\/ before\nimport/);
    await closeAll(vscode);
  });

  test('an edit of a text that is not saved is made on that text', async () => {
    await closeAll(vscode);
    const { document } = await show(vscode, folder, 'edited/use.js');
    await change(vscode, document, new vscode.Range(0, 0, 0, 0), '// 😀 top\n');
    const promise = propose([ranges('edited/use.js', 1, 4, 5, '🚀')]);
    await until(() => diffs().length > 0, 'the diff');
    await vscode.commands.executeCommand('conductor.acceptEdit');
    assert.deepEqual(await promise, { applied: true });
    assert.match(document.getText(), /^\/\/ 🚀 top\nimport/);
    await closeAll(vscode);
  });

  test('the columns of an edit do not count a byte order mark, and it stays', async () => {
    writeFileSync(`${folder}/edited/mark.js`, '\ufeffimport a;\n');
    const promise = propose([ranges('edited/mark.js', 1, 1, 7, 'export')]);
    await until(() => diffs().length > 0, 'the diff');
    const [{ input }] = diffs();
    assert.equal((await vscode.workspace.openTextDocument(input.modified)).getText(), 'export a;\n');
    await vscode.commands.executeCommand('conductor.acceptEdit');
    assert.deepEqual(await promise, { applied: true });
    assert.equal(onDisk('edited/mark.js'), '\ufeffexport a;\n');
    await closeAll(vscode);
  });

  test('only the edit of the named diff is accepted', async () => {
    const first = propose([ranges('edited/first.js', 1, null, null, 'first\n')], 'First');
    await until(() => diffs().length === 1, 'the first diff');
    const [{ input }] = diffs();
    const second = propose([ranges('edited/second.js', 1, null, null, 'second\n')], 'Second');
    await until(() => diffs().length === 2, 'the second diff');
    await vscode.commands.executeCommand('conductor.acceptEdit', input.modified);
    assert.deepEqual(await first, { applied: true });
    // The same button once more: this edit has its answer, and the other one must not get it.
    await vscode.commands.executeCommand('conductor.acceptEdit', input.modified);
    assert.equal(existsSync(`${folder}/edited/second.js`), false);
    await vscode.commands.executeCommand('conductor.rejectEdit', diffs()[0].input.modified);
    assert.equal((await second).applied, false);
    await closeAll(vscode);
  });

  test('a new file can be made by an edit', async () => {
    const promise = propose([{ url: url('edited/made.js'), start: { line: 1, column: 1 }, new_text: 'export {};\n' }]);
    await until(() => diffs().length > 0, 'the diff');
    assert.equal(existsSync(`${folder}/edited/made.js`), false);
    await vscode.commands.executeCommand('conductor.acceptEdit');
    assert.deepEqual(await promise, { applied: true });
    assert.equal(await text('edited/made.js'), 'export {};\n');
    await closeAll(vscode);
  });
}
