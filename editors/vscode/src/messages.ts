// Messages at the edge of the window. Their texts may come from components, so that no text becomes a link.
import * as vscode from 'vscode';
import { messageText } from './lines';

/** The only way to show messages: a test checks it. */
export const messages = {
  info: <Button extends string | vscode.MessageItem>(text: string, ...buttons: Button[]): Thenable<Button | undefined> =>
    show('showInformationMessage', text, buttons),
  warn: <Button extends string | vscode.MessageItem>(text: string, ...buttons: Button[]): Thenable<Button | undefined> =>
    show('showWarningMessage', text, buttons),
  error: <Button extends string | vscode.MessageItem>(text: string, ...buttons: Button[]): Thenable<Button | undefined> =>
    show('showErrorMessage', text, buttons),
};

type Method = 'showInformationMessage' | 'showWarningMessage' | 'showErrorMessage';
type Show = <Button>(text: string, ...buttons: Button[]) => Thenable<Button | undefined>;

function show<Button>(method: Method, text: string, buttons: Button[]): Thenable<Button | undefined> {
  const call: Show = vscode.window[method];
  return call(messageText(text), ...buttons);
}
