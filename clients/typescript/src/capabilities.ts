// What an editor declares in `initialize`: exactly what it provides.
import type { Host } from './host';
import { operationNames, scpVersion, type OperationName } from './scp';

/** Whether the library performs `apply-edit` itself. */
export function performsEdits(host: Host): boolean {
  return Boolean(host.edits && host.readTextFile && host.writeTextFile && !host.operations?.['apply-edit']);
}

/** The operations that an editor performs. */
export function operationsOf(host: Host): OperationName[] {
  return operationNames.filter((name) => host.operations?.[name] || (name === 'apply-edit' && performsEdits(host)));
}

/** The capabilities of SCP: the member `symposium`. Undefined if the editor has none. */
function scpCapabilities(host: Host): Record<string, unknown> | undefined {
  const operations = operationsOf(host);
  const members = {
    ...(host.panels ? { html_panel: true } : {}),
    ...(host.comments ? { file_comment: true } : {}),
    ...(operations.length > 0 ? { ide_operation: operations } : {}),
  };
  return Object.keys(members).length > 0 ? { version: scpVersion, ...members } : undefined;
}

/** The member `clientCapabilities` of `initialize`. */
export function capabilitiesOf(host: Host): Record<string, unknown> {
  const symposium = scpCapabilities(host);
  return {
    fs: { readTextFile: Boolean(host.readTextFile), writeTextFile: Boolean(host.writeTextFile) },
    terminal: Boolean(host.terminals),
    session: { configOptions: { boolean: {} } },
    plan: {},
    _meta: { '_proxy/log': true, '_scp/log': true, ...(symposium ? { symposium } : {}) },
  };
}
