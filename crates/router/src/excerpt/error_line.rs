//! Lines that say that they are an error, with the causes below them: uv, pip, cargo, clap, docker, anyhow and others.

use super::{Block, backtrace_length, indent, trailer, with_place};

/// The error line of eyre. The message is the first one of the numbered causes below it.
const EMPTY: &str = "Error:";

pub(super) fn find(lines: &[&str]) -> Option<Block> {
    let index = lines.iter().rposition(|line| is_error_line(line))?;
    let line = lines[index].trim();
    // miette marks the message.
    let line = line.split_once("× ").map_or(line, |(_, message)| message);
    let causes = causes(&lines[index + 1..], line == EMPTY);
    let end = index + 1 + causes.iter().map(|(at, _)| at + 1).max().unwrap_or_default();
    // The frames of a stack trace without this line belong to the module `stack`.
    let next = lines[end..].iter().find(|line| !line.trim().is_empty());
    let end = match next.is_some_and(|line| line.trim() == "Stack backtrace:") {
        true => end + backtrace_length(&lines[end..]),
        false => end,
    };
    let causes = causes.into_iter().map(|(_, cause)| cause);
    let parts = std::iter::once(line.trim_end_matches(':').to_owned()).chain(causes);
    let text = parts.collect::<Vec<_>>().join(": ");
    let snippet = snippet(&lines[end..]);
    let place = snippet.iter().find_map(|line| line.trim().strip_prefix("╭─[")?.strip_suffix(']'));
    let end = end_of_usage(lines, end + snippet.len());
    Some(Block { end, text: with_place(&text, place) })
}

/// The source that miette shows in a frame below an error.
fn snippet<'a, 'b>(lines: &'a [&'b str]) -> &'a [&'b str] {
    let is_part = |line: &&&str| line.contains(['╭', '│', '·', '╰']);
    &lines[..lines.iter().take_while(is_part).count()]
}

fn is_error_line(line: &str) -> bool {
    const BEGINNINGS: [&str; 10] = [
        "error: ",
        "Error: ",
        "ERROR: ",
        "fatal: ",
        "Fatal: ",
        "FATAL: ",
        "docker: ",
        "× ",
        "PHP Fatal error: ",
        "ERR_PNPM_",
    ];
    let text = line.trim_start();
    let begins = BEGINNINGS.iter().any(|it| text.starts_with(it)) && indent(line) <= 2;
    // `program: error: message` (argparse).
    let named = line.split_once(": error: ").is_some_and(|(name, _)| !name.contains(' '));
    (begins || named || line == EMPTY) && !trailer::is_trailer(line)
}

/// The causes below an error line, each with the index of its last line. `in_list` means that the list of the causes
/// begins with the first line, without a heading.
fn causes(lines: &[&str], mut in_list: bool) -> Vec<(usize, String)> {
    let mut causes: Vec<(usize, String)> = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let text = line.trim();
        let marked = ["cause: ", "Caused by: ", "├─▶ ", "╰─▶ ", "tip: "];
        let marked = marked.iter().find_map(|it| text.strip_prefix(it));
        let depth = indent(line);
        match (marked, causes.last_mut()) {
            _ if text == "Caused by:" => in_list = true,
            (Some(cause), _) => causes.push((index, cause.to_owned())),
            _ if text.is_empty() => {}
            (None, _) if in_list && depth > 0 => {
                // anyhow numbers the causes if there are several.
                let number = text.split_once(": ").filter(|it| it.0.parse::<u32>().is_ok());
                causes.push((index, number.map_or(text, |it| it.1).to_owned()));
            }
            // A long cause is wrapped.
            (None, Some((at, cause)))
                if *at + 1 == index && (depth >= 4 || text.starts_with('│')) =>
            {
                *at = index;
                cause.push(' ');
                cause.push_str(text.trim_start_matches('│').trim_start());
            }
            _ => break,
        }
    }
    causes
}

/// The usage that follows an error of a command line. It may be the whole help, with lists of commands and options.
fn end_of_usage(lines: &[&str], end: usize) -> usize {
    let mut in_help = false;
    let is_usage = |line: &&&str| {
        let text = line.trim().to_lowercase();
        in_help |= text.starts_with("usage:");
        let is_help =
            in_help && (indent(line) > 0 || text.ends_with(':') || text.contains("--help"));
        text.is_empty()
            || is_help
            || ["usage:", "tip:", "help:", "hint:", "for more information", "note:"]
                .iter()
                .any(|it| text.starts_with(it))
    };
    end + lines[end..].iter().take_while(is_usage).count()
}
