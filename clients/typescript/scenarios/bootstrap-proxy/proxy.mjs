// A proxy that passes everything on, and logs that it was there.
import { mockProxy } from 'acp-conductor-client/scenario/proxy';

mockProxy({
  prompt: async (prompt, proxy) => {
    proxy.log('info', 'the proxy passes a prompt on');
    return proxy.toAgent('session/prompt', prompt);
  },
});
