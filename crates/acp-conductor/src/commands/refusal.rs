//! Tells an editor that there is no chain, because the configuration or the command line is wrong.
//!
//! An editor shows the error of its first request. It often does not show standard error.

use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};

use acp_conductor::configuration;
use acp_conductor::log;
use acp_wire::printable;
use serde_json::{Value, json};

use super::output::Failure;

/// The longest line that is read, in bytes. The first request of an editor is much shorter.
const MAX_LINE: u64 = 4 * 1024 * 1024;

/// The error code of JSON-RPC for an internal error. A component that cannot be started has the same.
const INTERNAL_ERROR: i32 = -32603;

/// Prints the error, and answers the first request on standard input with it. Waits for the request as a chain does: until
/// standard input is closed.
pub fn answer(why: &configuration::Failure) -> Failure {
    let data = why.kind().map(|kind| kind.code());
    tell(Failure::configuration(why), &why.one_line(), data)
}

/// The same for a chain that cannot start for another reason, such as a log file that cannot be written. A failure that the editor
/// knows already has no text.
pub fn answer_failure(failure: Failure) -> Failure {
    let Some(line) = failure.line.clone() else { return failure };
    let code = line.rsplit_once("[more: conductor errors ").and_then(|it| it.1.strip_suffix(']'));
    tell(failure, &printable::one_line(&line), code)
}

fn tell(failure: Failure, message: &str, code: Option<&str>) -> Failure {
    if io::stdin().is_terminal() {
        return failure;
    }
    if let Some(line) = &failure.line {
        log::print_error(&format!("conductor: {line}\n"));
    }
    let mut reader = BufReader::new(io::stdin().lock());
    let mut line = Vec::new();
    while matches!(reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line), Ok(1..)) {
        if let Some(id) = id_of_request(&line) {
            let mut error = json!({ "code": INTERNAL_ERROR, "message": message });
            if let Some(code) = code {
                error["data"] = json!({ "code": code });
            }
            let answer = json!({ "jsonrpc": "2.0", "id": id, "error": error });
            let mut out = io::stdout().lock();
            // The editor may have left.
            let _ = writeln!(out, "{answer}").and_then(|()| out.flush());
            break;
        }
        line.clear();
    }
    Failure { line: None, ..failure }
}

fn id_of_request(line: &[u8]) -> Option<Value> {
    let message: Value = serde_json::from_slice(line).ok()?;
    message.get("method")?;
    message.get("id").cloned()
}
