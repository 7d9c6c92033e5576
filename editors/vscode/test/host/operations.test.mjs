// The operations of SCP are answered by VS Code itself: selections, files, symbols and diagnostics.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { isDeepStrictEqual } from 'node:util';
import { change, closeAll, show, startAgent, until } from './agent.mjs';

export async function tests({ vscode, test, options: { folder } }) {
  const url = (name) => pathToFileURL(`${folder}/${name}`).href;
  let agent;

  test('the editor declares what it provides', async () => {
    agent = await startAgent(vscode);
    const { clientCapabilities, clientInfo } = await agent.heard('initialize');
    const { version, html_panel, file_comment, ide_operation } = clientCapabilities._meta.symposium;
    assert.deepEqual({ version, html_panel, file_comment }, { version: '1.1', html_panel: true, file_comment: true });
    const all = ['apply-edit', 'diagnostics', 'find-all-references', 'find-definition', 'get-selection', 'list-open-files', 'open-file'];
    assert.deepEqual(ide_operation === true ? all : [...ide_operation].sort(), all);
    assert.deepEqual(clientCapabilities.fs, { readTextFile: true, writeTextFile: true });
    assert.equal(clientCapabilities.terminal, true);
    assert.match(clientInfo.name, /conductor|vscode/i);
    assert.equal((await agent.heard('session/new')).cwd, folder);
  });

  test('without an editor, nothing is selected', async () => {
    await closeAll(vscode);
    assert.equal(await agent.operation('get-selection'), null);
    assert.deepEqual(await agent.operation('list-open-files'), { files: [] });
  });

  test('columns of a selection count characters, also after an emoji', async () => {
    const editor = await show(vscode, folder, 'src/faces.js');
    // const faces = '😀👩‍🚀'; const after = faces;
    const at = editor.document.getText().indexOf('after');
    assert.equal(at, 31);
    editor.selection = new vscode.Selection(0, at, 0, at + 5);
    assert.deepEqual(await agent.operation('get-selection'), {
      url: url('src/faces.js'), start: { line: 1, column: 29 }, end: { line: 1, column: 34 }, text: 'after',
    });
  });

  test('a selection over several lines has its text as it is shown, also if it is not saved', async () => {
    const { document } = await show(vscode, folder, 'src/math.js');
    await change(vscode, document, new vscode.Range(0, 0, 0, 0), '// new 😀\n');
    const editor = await vscode.window.showTextDocument(document, { preview: false });
    editor.selection = new vscode.Selection(2, 8, 0, 7);
    const selection = await agent.operation('get-selection');
    assert.deepEqual(selection, {
      url: url('src/math.js'), start: { line: 1, column: 8 }, end: { line: 3, column: 9 },
      text: '😀\nexport function add(a, b) {\n  return',
    });
    const { files } = await agent.operation('list-open-files');
    assert.deepEqual([...files].sort((a, b) => a.url.localeCompare(b.url)), [
      { url: url('src/faces.js'), active: false, modified: false },
      { url: url('src/math.js'), active: true, modified: true },
    ]);
    await closeAll(vscode);
  });

  test('the selection stays known while the chat has the focus', async () => {
    const editor = await show(vscode, folder, 'src/math.js');
    // VS Code may still be giving the file back its text, and the selection ends with the old one.
    await until(async () => {
      editor.selection = new vscode.Selection(0, 16, 0, 19);
      return (await agent.operation('get-selection'))?.text === 'add';
    }, 'the selection');
    await vscode.commands.executeCommand('conductor.openChat');
    assert.equal((await agent.operation('get-selection')).text, 'add');
  });

  test('a file is opened at a line and a column', async () => {
    await closeAll(vscode);
    await agent.operation('open-file', { url: url('src/faces.js'), line: 1, column: 29 });
    const { document, selection } = await until(() => vscode.window.activeTextEditor, 'an editor');
    assert.equal(document.uri.fsPath, `${folder}/src/faces.js`);
    assert.deepEqual([selection.active.line, selection.active.character], [0, 31]);
    await agent.operation('open-file', { url: 'src/use.js', line: 3 });
    await until(() => vscode.window.activeTextEditor?.document.uri.fsPath === `${folder}/src/use.js`, 'the other file');
    assert.equal(vscode.window.activeTextEditor.selection.active.line, 2);
    await assert.rejects(agent.operation('open-file', { url: 'src/missing.js' }), /missing\.js/);
  });

  test('definitions and references come from the language features of VS Code', async () => {
    await closeAll(vscode);
    /** The language server needs some time to read the project, and the texts that are not the unsaved ones any more. */
    const finds = async (name, params, read, expected) => {
      let found;
      await until(async () => isDeepStrictEqual(found = read(await agent.operation(name, params)), expected), name)
        .catch(() => assert.deepEqual(found, expected));
    };
    const texts = ({ locations }) => locations.map(({ url: it, start, text }) => [it, start, text]);
    await finds('find-definition', { url: url('src/use.js'), line: 3, column: 15 }, texts, [
      [url('src/math.js'), { line: 1, column: 17 }, 'export function add(a, b) {'],
    ]);
    const places = ({ locations }) => locations.map(({ url: it, start: { line, column } }) => `${it.split('/').at(-1)}:${line}:${column}`).sort();
    const expected = ['math.js:1:17', 'use.js:1:10', 'use.js:3:15', 'use.js:4:13'];
    await finds('find-all-references', { url: url('src/math.js'), line: 1, column: 17 }, places, expected);
    // Without a place, the symbol is looked for in the project.
    await finds('find-all-references', { symbol: 'add' }, places, expected);
    assert.deepEqual(await agent.operation('find-all-references', { symbol: 'noSuchName' }), { locations: [] });
  });

  test('diagnostics are those of VS Code', async () => {
    const own = vscode.languages.createDiagnosticCollection('test');
    const at = vscode.Uri.file(`${folder}/src/faces.js`);
    const warning = new vscode.Diagnostic(new vscode.Range(0, 31, 0, 36), 'unused', vscode.DiagnosticSeverity.Warning);
    warning.source = 'test';
    own.set(at, [warning, new vscode.Diagnostic(new vscode.Range(0, 0, 0, 5), 'a hint', vscode.DiagnosticSeverity.Hint)]);
    own.set(vscode.Uri.file(`${folder}/src/use.js`), [new vscode.Diagnostic(new vscode.Range(0, 0, 0, 1), 'wrong')]);
    const first = { url: url('src/faces.js'), start: { line: 1, column: 29 }, end: { line: 1, column: 34 }, severity: 'warning',
      message: 'unused', source: 'test' };
    const second = { url: url('src/faces.js'), start: { line: 1, column: 1 }, end: { line: 1, column: 6 }, severity: 'hint', message: 'a hint' };
    const sorted = ({ diagnostics }) => diagnostics.filter((it) => /unused|a hint|wrong/.test(it.message))
      .sort((a, b) => b.message.localeCompare(a.message));
    assert.deepEqual(sorted(await agent.operation('diagnostics', { url: url('src/faces.js') })), [first, second]);
    const all = sorted(await agent.operation('diagnostics'));
    assert.deepEqual(all.map((it) => [it.message, it.severity]), [['wrong', 'error'], ['unused', 'warning'], ['a hint', 'hint']]);
    own.dispose();
  });

  test('files outside of the workspace are refused if the setting denies them', async () => {
    const elsewhere = mkdtempSync(join(tmpdir(), 'conductor-outside-'));
    const path = join(elsewhere, 'outside.js');
    writeFileSync(path, 'const secret = 1;\n');
    symlinkSync(path, join(folder, 'edited/link.js'));
    const settings = vscode.workspace.getConfiguration('conductor');
    const deny = (value) => settings.update('files.outside', value, vscode.ConfigurationTarget.Workspace);
    const disposables = [vscode.languages.createDiagnosticCollection('test'), vscode.languages.registerDefinitionProvider(
      { pattern: '**/src/faces.js' }, { provideDefinition: () => new vscode.Location(vscode.Uri.file(path), new vscode.Range(0, 6, 0, 12)) })];
    const [problems] = disposables;
    problems.set(vscode.Uri.file(path), [new vscode.Diagnostic(new vscode.Range(0, 6, 0, 12), 'the secret')]);
    try {
      await deny('deny');
      for (const url of [path, pathToFileURL(path).href, 'edited/link.js']) {
        for (const [name, params] of [
          ['open-file', {}], ['find-definition', { line: 1 }], ['find-all-references', { symbol: 'secret' }], ['diagnostics', {}],
          ['apply-edit', { edits: [{ url, start: { line: 1 }, new_text: 'x' }] }],
        ]) await assert.rejects(agent.operation(name, { url, ...params }), /outside of the workspace.*conductor\.files\.outside/, name);
      }
      const editor = await show(vscode, elsewhere, 'outside.js');
      editor.selection = new vscode.Selection(0, 6, 0, 12);
      await assert.rejects(agent.operation('get-selection'), /outside of the workspace/);
      const { diagnostics } = await agent.operation('diagnostics');
      assert.deepEqual(diagnostics.filter((it) => it.message === 'the secret'), []);
      const definition = async () => (await agent.operation('find-definition', { url: 'src/faces.js', line: 1, column: 1 }))
        .locations.find((it) => it.url === pathToFileURL(path).href);
      assert.equal((await definition()).text, undefined);
      await deny(undefined);
      assert.equal((await definition()).text, 'const secret = 1;');
      assert.equal((await agent.operation('get-selection')).text, 'secret');
      // Without a session, there is nobody to ask.
      await assert.rejects(agent.operation('open-file', { url: path }), /outside/);
    } finally {
      await deny(undefined);
      for (const one of disposables) one.dispose();
      await closeAll(vscode);
      rmSync(elsewhere, { recursive: true });
      rmSync(join(folder, 'edited/link.js'));
    }
  });

  test('an operation that has wrong params, or that does not exist, is refused', async () => {
    await assert.rejects(agent.operation('open-file', { line: 1 }), /url/);
    await assert.rejects(agent.operation('format-disk'), /format-disk|not found|method/i);
  });
}
