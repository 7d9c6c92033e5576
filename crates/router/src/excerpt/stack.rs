//! Stack traces whose frames begin with `at`: Node.js, Deno, Bun, Java and .NET. Also the crash of a JavaScript heap.

use super::{Block, indent, is_underline, with_place};

/// The lines that may separate the parts of a message from its frames, such as `Require stack:`.
const BETWEEN: [&str; 2] = ["Require stack:", "- /"];

pub(super) fn find(lines: &[&str]) -> Option<Block> {
    let mut found: Option<Block> = None;
    let mut index = 0;
    while index < lines.len() {
        if let Some(text) = lines[index].strip_prefix("FATAL ERROR: ") {
            // The rest is a native stack trace.
            found = Some(Block { end: lines.len(), text: format!("FATAL ERROR: {text}") });
            break;
        }
        if let Some(text) = without_frames(lines[index]) {
            found = Some(Block { end: index + 1, text: text.to_owned() });
        }
        if !is_frame(lines[index]) {
            index += 1;
            continue;
        }
        let end = end_of_frames(lines, index);
        if let Some(trace) = trace(lines, index, end) {
            found = Some(joined(found, trace));
        } else if let Some(found) = &mut found {
            // The frames of an event belong to the error before them.
            found.end = end;
        }
        index = end;
    }
    let mut found = found?;
    found.end = end_of_members(lines, found.end);
    Some(found)
}

/// An error that has no frames, as Node.js prints it: `[Error: message]`, or `[Error: message] {` before its members.
fn without_frames(line: &str) -> Option<&str> {
    let line = line.strip_prefix('[')?;
    let message = line.strip_suffix("] {").or_else(|| line.strip_suffix(']'))?;
    is_headline(message).then(|| without_explanation(message))
}

/// One message and its frames.
struct Trace {
    end: usize,
    message: String,
    place: Option<String>,
    is_cause: bool,
}

fn joined(earlier: Option<Block>, trace: Trace) -> Block {
    let text = with_place(&trace.message, trace.place.as_deref());
    match earlier.filter(|_| trace.is_cause) {
        Some(earlier) => {
            // A cause explains the error better than the place of the error.
            let text = format!("{}; cause: {}", earlier.text, trace.message);
            Block { end: trace.end, text }
        }
        None => Block { end: trace.end, text },
    }
}

fn is_frame(line: &str) -> bool {
    indent(line) > 0 && line.trim_start().starts_with("at ")
}

fn end_of_frames(lines: &[&str], start: usize) -> usize {
    let frame = |line: &str| is_frame(line) || line.trim_start().starts_with("... ");
    let count = lines[start..].iter().take_while(|line| frame(line)).count();
    start + count
}

/// The members of an error object after its frames: `{`, `code: '…'`, `}`.
fn end_of_members(lines: &[&str], end: usize) -> usize {
    let opened = end > 0 && lines[end - 1].ends_with('{');
    match lines[end..].iter().position(|line| line.trim() == "}") {
        Some(close) if opened || close == 0 => end + close + 1,
        _ => end,
    }
}

/// The message before the frames `lines[start..end]`. `None` if they belong to something else.
fn trace(lines: &[&str], start: usize, end: usize) -> Option<Trace> {
    let mut at = start;
    // Deno prints the source line between the message and the frames.
    if at >= 2 && is_underline(lines[at - 1]) {
        at -= 2;
    }
    let skipped = |line: &str| BETWEEN.iter().any(|it| line.trim_start().starts_with(it));
    while at > 0 && (skipped(lines[at - 1]) || lines[at - 1].trim().is_empty()) {
        at -= 1;
    }
    let stop = |line: &str| {
        line.trim().is_empty() || is_underline(line) || is_frame(line) || line.trim() == "}"
    };
    let above = lines[..at].iter().rev().take_while(|line| !stop(line)).count();
    let mut message: Vec<&str> = lines[at - above..at].iter().map(|it| it.trim()).collect();
    message.retain(|it| !skipped(it) && !is_member(it));
    let head = message.iter().position(|it| is_headline(it)).unwrap_or_default();
    let head = message.get(head..).filter(|it| !it.is_empty())?;
    // The frames of a Rust backtrace are numbered.
    let is_number = |it: &str| it.split(':').next().is_some_and(|it| it.parse::<u32>().is_ok());
    if head[0].starts_with("Emitted ") || head.iter().any(|it| is_number(it)) {
        return None;
    }
    let message = head.join(" ");
    let causes = ["[cause]: ", "Caused by: ", "[errors]: [ "];
    let cause = causes.iter().find_map(|it| message.strip_prefix(it));
    let frames = &lines[start..end];
    let place = frames.iter().find_map(|it| place(it)).or_else(|| source_place(lines, at - above));
    Some(Trace {
        end,
        message: without_explanation(cause.unwrap_or(&message))
            .trim_end_matches('{')
            .trim()
            .to_owned(),
        place,
        is_cause: cause.is_some(),
    })
}

/// Whether a line is the first one of a message: the name of an error, then a colon.
fn is_headline(line: &str) -> bool {
    let Some((name, _)) = line.split_once(':') else { return false };
    ["Error", "Exception", "Rejection", "error", "cause"].iter().any(|it| name.contains(it))
}

/// Whether a line is a member of an error object that Bun prints below the message.
fn is_member(line: &str) -> bool {
    ["code: \"", "errno: ", "syscall: \"", "path: \""].iter().any(|it| line.starts_with(it))
}

/// The place in a frame, unless it is inside of the runtime.
fn place(frame: &str) -> Option<String> {
    let frame = frame.trim_end_matches(['{', ' ']);
    // .NET
    if let Some((path, line)) = frame.split(") in ").nth(1).and_then(|it| it.split_once(":line ")) {
        return Some(format!("{path}:{line}"));
    }
    let place = match frame.rsplit_once('(') {
        Some((_, place)) => place.trim_end_matches(')'),
        None => frame.trim_start().strip_prefix("at ")?.trim_start_matches("async "),
    };
    let inside = ["node:", "java.base/", "jdk.", "ext:", "internal/", "<anonymous>"];
    let is_inside =
        inside.iter().any(|it| place.starts_with(it) || frame.contains(&format!("at {it}")));
    let is_inside = is_inside || place.contains("/node_modules/");
    let has_line = place.rsplit(':').next().is_some_and(|it| it.parse::<u32>().is_ok());
    let place = place.strip_prefix("file://").unwrap_or(place);
    (has_line && !is_inside).then(|| place.to_owned())
}

/// The place above the source line that Node.js prints before a message.
fn source_place(lines: &[&str], message: usize) -> Option<String> {
    let above = &lines[message.saturating_sub(5)..message];
    let place = above.iter().rev().find(|line| {
        let (path, line_number) = line.rsplit_once(':').unwrap_or_default();
        line_number.parse::<u32>().is_ok() && !path.contains(' ')
    })?;
    (!place.starts_with("node:")).then(|| (*place).to_owned())
}

/// Node.js explains at length what a rejected promise is, before the reason.
fn without_explanation(message: &str) -> &str {
    const REASON: &str = "The promise rejected with the reason ";
    message.find(REASON).map_or(message, |at| &message[at..])
}
