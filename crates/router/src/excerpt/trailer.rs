//! Lines that say nothing about the reason of a failure.

/// The beginnings of such lines.
const BEGINNINGS: [&str; 44] = [
    "Node.js v",
    "Bun v",
    "note: run with `RUST_BACKTRACE",
    "note: Some details are omitted",
    "npm warn",
    "npm WARN",
    "npm notice",
    "npm info",
    "npm verb",
    "npm error",
    "npm ERR!",
    "exit status ",
    "For more information about ",
    "For more information, try",
    "Some errors have detailed explanations",
    "Stack backtrace:",
    "stack backtrace:",
    "Stack trace:",
    "compilation terminated.",
    "collect2: error: ld returned",
    "BEGIN failed--compilation aborted",
    "info Visit https://yarnpkg.com",
    "error Command failed with exit code",
    "ELIFECYCLE",
    "Run 'docker ",
    "See 'docker ",
    "See \"",
    "Emitted 'error' event",
    "Require stack:",
    "make: ***",
    "(Use `node --trace-",
    "(node:",
    "error: aborting due to ",
    "error: process didn't exit successfully",
    "[Previous line repeated ",
    "thrown in ",
    "hint: ",
    "help: ",
    "This error happened while installing",
    "No authorization header was set",
    "[stderr]",
    "Location:",
    "Backtrace omitted",
    "Run with RUST_BACKTRACE",
];

/// Whether a line says nothing about the reason.
pub(super) fn is_trailer(line: &str) -> bool {
    let line = line.trim();
    let is_rule = |it: char| {
        matches!(it, '-' | '=' | '+' | '|' | '_' | '*' | '{' | '}' | '[' | ']' | '─' | '━')
    };
    line.is_empty()
        || line.chars().all(|it| is_rule(it) || it == ' ')
        || BEGINNINGS.iter().any(|beginning| line.starts_with(beginning))
        || is_frame(line)
        || is_error_count(line)
        || line.starts_with("from ") && line.contains(":in ")
}

/// Whether a line is a frame of a native stack trace: `  0: function`, or a numbered address.
fn is_frame(line: &str) -> bool {
    let rest = line.trim_start_matches('#').trim_start_matches(|it: char| it.is_ascii_digit());
    let numbered = rest.len() < line.len();
    numbered && (rest.starts_with(": 0x") || rest == ": <unknown>" || line.starts_with('#'))
}

/// Whether a line is the number of errors: `2 errors generated.`
fn is_error_count(line: &str) -> bool {
    let words: Vec<&str> = line.split(' ').collect();
    match words.as_slice() {
        [count, "error" | "errors"] | [count, "error" | "errors", "generated."] => {
            count.parse::<u32>().is_ok()
        }
        _ => false,
    }
}
