// An agent that is a pipe: everything that the editor writes goes to a test, and what the test sends goes to the editor.
import { connect } from 'node:net';

const test = connect(Number(process.argv[2]), '127.0.0.1');
process.stdin.pipe(test);
test.pipe(process.stdout);
test.on('error', () => process.exit(1));
test.on('close', () => process.exit(0));
