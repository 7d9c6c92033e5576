//! Lines that say that they are an error, with the causes below them: uv, pip, cargo, clap, docker, anyhow and others.

use super::{Block, backtrace_length, indent, trailer};

pub(super) fn find(lines: &[&str]) -> Option<Block> {
    let index = lines.iter().rposition(|line| is_error_line(line))?;
    let line = lines[index].trim().trim_start_matches("× ");
    let causes = causes(&lines[index + 1..]);
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
    Some(Block { end: end_of_usage(lines, end), text })
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
    (begins || named) && !trailer::is_trailer(line)
}

/// The causes below an error line, each with the index of its last line.
fn causes(lines: &[&str]) -> Vec<(usize, String)> {
    let mut causes: Vec<(usize, String)> = Vec::new();
    let mut in_list = false;
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

/// The usage that follows an error of a command line.
fn end_of_usage(lines: &[&str], end: usize) -> usize {
    let rest = &lines[end..];
    let is_usage = |line: &&str| {
        let line = line.trim().to_lowercase();
        line.is_empty()
            || ["usage:", "tip:", "help:", "hint:", "for more information", "note:"]
                .iter()
                .any(|it| line.starts_with(it))
    };
    end + rest.iter().take_while(|line| is_usage(line)).count()
}
