// Every state of the page, made by hand: accessibility, widths, and that nothing is cut.
import test, { after, before } from 'node:test';
import assert from 'node:assert/strict';
import { axe, fits, open, picture } from './harness.mjs';
import { startParts } from './parts-server.mjs';

let parts;
before(async () => {
  parts = await startParts();
});
after(() => parts.close());

/** A state, and what shows that it is there. */
const states = {
  '': 'h1', done: '.message.note', empty: '.examples', none: '.examples', loading: '.loading', streaming: '.queued',
  working: '[data-status="in_progress"]', permission: '[data-permission]', suspicious: '.suspicious', error: '.error-card',
  starting: '[data-bar="starting"]', ended: '[data-bar="ended"]', login: '.logins', lost: '[data-bar="lost"]', gone: '.screen.full .button',
  'needs-login': '.screen.full h1', outdated: '.screen.full .button', long: '.earlier', companion: '.companion',
};

for (const [state, sign] of Object.entries(states)) {
  test(`the state ${state || 'gallery'} is accessible and fits`, async (t) => {
    for (const width of [1440, 900, 400]) {
      const page = await open(`${parts.url}?state=${state}`, { t, width, height: width === 400 ? 800 : 900 });
      await page.waitForSelector(sign);
      for (const colorScheme of ['light', 'dark']) {
        await page.emulateMedia({ colorScheme });
        await axe(page);
        await fits(page);
        if (process.env.CONDUCTOR_PICTURES) await picture(page, `${state || 'gallery'}-${width}-${colorScheme}`);
      }
      await page.check();
    }
  });
}

test('drawers, the palette, menus and help are accessible', async (t) => {
  const page = await open(`${parts.url}?state=done`, { t, width: 900 });
  await page.getByRole('button', { name: 'Sessions' }).click();
  await page.waitForSelector('.drawer.left');
  await axe(page);
  await page.keyboard.press('Escape');
  await page.waitForSelector('.drawer.left', { state: 'hidden' });
  await page.getByRole('button', { name: 'Files', exact: true }).click();
  await page.waitForSelector('.drawer.right');
  await axe(page);
  await page.keyboard.press('Escape');
  await page.keyboard.press('Control+k');
  await page.waitForSelector('dialog.palette');
  await page.keyboard.type('r');
  await page.waitForSelector('.palette-item:has-text("router.rs")');
  await axe(page);
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Keys' }).click();
  await page.waitForSelector('dialog.help');
  await axe(page);
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Mode: Ask first' }).click();
  await page.waitForSelector('[role="menu"]');
  await axe(page);
  await page.keyboard.press('Escape');
  await page.getByLabel('Message', { exact: true }).fill('@');
  await page.waitForSelector('.suggestions');
  await axe(page);
});

test('Show earlier shows all rows, and the latest is in view', async (t) => {
  const page = await open(`${parts.url}?state=long`, { t });
  await page.waitForSelector('.earlier');
  assert.equal(await page.locator('article').count(), 200);
  await page.waitForFunction(() => {
    const box = document.querySelector('.conversation');
    return box.scrollHeight - box.clientHeight - box.scrollTop < 24;
  });
  await page.getByRole('button', { name: /Show earlier \(300\)/ }).click();
  await page.waitForFunction(() => document.querySelectorAll('article').length === 400);
  await page.getByRole('button', { name: 'Jump to latest' }).click();
  await page.waitForSelector('[data-following="true"]');
});
