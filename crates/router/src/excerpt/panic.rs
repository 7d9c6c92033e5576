//! Panics of Rust and Go.

use super::{Block, backtrace_length, with_place};

pub(super) fn find(lines: &[&str]) -> Option<Block> {
    let mut found: Option<Block> = None;
    for index in 0..lines.len() {
        let panic = rust(lines, index).or_else(|| go(lines, index));
        let Some(panic) = panic else { continue };
        // A thread that waits for another one panics with the panic of that thread.
        let is_consequence =
            panic.text.contains("Any { .. }") || panic.text.contains("PoisonError");
        match &mut found {
            Some(found) if is_consequence => found.end = panic.end,
            _ => found = Some(panic),
        }
    }
    found
}

/// `thread 'main' panicked at src/main.rs:1:2:` and the message in the next lines, or before Rust 1.73
/// `thread 'main' panicked at 'message', src/main.rs:1:2`.
fn rust(lines: &[&str], index: usize) -> Option<Block> {
    let line = lines[index].trim_start();
    let (_, place) = line.strip_prefix("thread ")?.split_once(" panicked at ")?;
    if let Some((message, place)) = place.strip_prefix('\'').and_then(|it| it.rsplit_once("', ")) {
        let text = with_place(&format!("panicked: {message}"), Some(place));
        return Some(Block { end: index + 1 + backtrace_length(&lines[index + 1..]), text });
    }
    let ends = |line: &&&str| {
        !line.trim().is_empty()
            && !line.starts_with("note: ")
            && !line.starts_with("stack backtrace:")
            && !line.starts_with("thread '")
    };
    let message: Vec<&str> =
        lines[index + 1..].iter().take_while(ends).map(|it| it.trim()).collect();
    let end = {
        let end = index + 1 + message.len();
        end + backtrace_length(&lines[end..])
    };
    let message = format!("panicked: {}", message.join(" "));
    Some(Block { end, text: with_place(&message, Some(place.trim_end_matches(':'))) })
}

/// `panic: message`, then the goroutines.
fn go(lines: &[&str], index: usize) -> Option<Block> {
    let line = lines[index];
    let message = line.strip_prefix("panic: ").or_else(|| line.strip_prefix("fatal error: "))?;
    let goroutine = lines[index..].iter().take(8).position(|it| it.starts_with("goroutine "))?;
    let frames = &lines[index + goroutine..];
    let place = frames.iter().find_map(|frame| {
        let place = frame.trim().split(" +0x").next()?;
        let is_place = frame.starts_with([' ', '\t']) && place.contains(".go:");
        (is_place && !place.contains("/src/runtime/")).then_some(place)
    });
    let kind = line.split(": ").next().unwrap_or_default();
    let text = with_place(&format!("{kind}: {message}"), place);
    Some(Block { end: lines.len(), text })
}
