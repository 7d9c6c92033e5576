// A reporter of Node's test runner: a line of JSON for each test of a file, for `node.rs`.

export default async function* (source) {
  for await (const { type, data } of source) {
    if ((type !== 'test:pass' && type !== 'test:fail') || data.nesting !== 0) continue;
    // The event of a file that cannot be loaded has no file, but is named after it.
    const file = data.file ?? data.name;
    yield `${JSON.stringify({ file, name: data.name, passed: type === 'test:pass', ms: data.details.duration_ms })}\n`;
  }
}
