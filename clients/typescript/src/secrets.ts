// Hides secrets in the data of errors: the values of names such as `apiKey`, `env` and `headers`.

const hidden = '…';
const mostDepth = 64;

const secretParts = [
  'token', 'secret', 'password', 'passwd', 'passphrase', 'apikey', 'accesskey', 'privatekey', 'signingkey',
  'encryptionkey', 'authkey', 'authorization', 'credential', 'cookie', 'bearer', 'xauth', 'sessionkey',
];
const exceptions = [
  'progresstoken', 'tokentype', 'tokencount', 'maxtokens', 'tokenizer', 'cancellationtoken', 'tokenlimit',
];

function hasSecretValues(name: string): boolean {
  return ['env', 'headers', 'environment', 'cookies'].includes(name.toLowerCase());
}

function isSecretName(name: string): boolean {
  if (name.length > 100) return false;
  const lower = name.replace(/^-+/, '').toLowerCase();
  if (/[_.-]key$/.test(lower) && !/public|primary|foreign|sort|cache/.test(lower)) return true;
  const joined = lower.replace(/[^\p{L}\p{N}]/gu, '');
  return secretParts.some((part) => joined.includes(part)) && !exceptions.some((end) => joined.endsWith(end));
}

/** A copy of the value without its secrets. */
export function withoutSecrets(value: unknown, all = false, depth = mostDepth): unknown {
  if (depth === 0) return hidden;
  if (Array.isArray(value)) return value.map((item: unknown) => withoutSecrets(item, all, depth - 1));
  if (typeof value === 'object' && value !== null) {
    const members = Object.entries(value);
    // An entry such as {"name": "API_KEY", "value": "…"}.
    const isSecretEntry = members.some(([name, member]) => (
      ['name', 'key', 'id'].includes(name) && typeof member === 'string' && isSecretName(member)));
    return Object.fromEntries(members.map(([name, member]: [string, unknown]) => {
      // A number of tokens is no token.
      const isCount = /token/i.test(name) && typeof member !== 'string' && typeof member !== 'object';
      const hide = all || hasSecretValues(name) || (isSecretName(name) && !isCount) || (isSecretEntry && name === 'value');
      return [name, withoutSecrets(member, hide, depth - 1)];
    }));
  }
  return all && (typeof value === 'number' || (typeof value === 'string' && value !== '')) ? hidden : value;
}
