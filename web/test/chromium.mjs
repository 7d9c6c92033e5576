// Finds Debian's Chromium, and has the options of the tests.

import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

export function browserOptions() {
  const args = [
    '--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-sync',
    '--disable-default-apps', '--no-first-run', '--no-pings', '--mute-audio', '--hide-scrollbars=false',
    '--font-render-hinting=none', '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost',
  ];
  if (process.getuid?.() === 0) args.push('--no-sandbox');
  // A page that does not come from the program itself may not connect to this machine otherwise.
  if (process.env.CONDUCTOR_TEST_DIST) args.push('--disable-features=LocalNetworkAccessChecks,LocalNetworkAccessChecksWebSockets');
  return { executablePath: chromiumPath(), headless: true, args };
}

function chromiumPath() {
  if (process.env.CONDUCTOR_CHROMIUM) return process.env.CONDUCTOR_CHROMIUM;
  for (const name of ['chromium', 'chromium-headless-shell']) {
    for (const folder of (process.env.PATH ?? '').split(delimiter)) {
      try {
        accessSync(join(folder, name), constants.X_OK);
        return join(folder, name);
      } catch { /* Not here. */ }
    }
  }
  throw new Error('Chromium is missing. Install the Debian package chromium, or set CONDUCTOR_CHROMIUM.');
}
