//! The completion of slash commands.

use crate::view::SlashCommand;

/// The maximum number of commands in the list.
pub(super) const MAX_SHOWN: usize = 6;

/// The commands that an input can become. Empty if the input is not the name of a command.
pub(super) fn candidates<'a>(commands: &'a [SlashCommand], input: &str) -> Vec<&'a SlashCommand> {
    let Some(rest) = input.strip_prefix('/') else { return Vec::new() };
    match rest.split_once(char::is_whitespace) {
        // The argument of a command is being entered.
        Some((name, _)) => commands.iter().filter(|it| it.name == name).take(1).collect(),
        None => commands.iter().filter(|it| it.name.starts_with(rest)).collect(),
    }
}

/// What Tab makes of an input: the part that all candidates have in common.
pub(super) fn completed(commands: &[SlashCommand], input: &str) -> Option<String> {
    if input.contains(char::is_whitespace) {
        return None;
    }
    let found = candidates(commands, input);
    let first = found.first()?;
    if let [only] = found[..] {
        let space = if only.argument.is_empty() { "" } else { " " };
        return Some(format!("/{}{space}", only.name)).filter(|it| it != input);
    }
    let mut common = first.name.as_str();
    for command in &found {
        let same = common.char_indices().zip(command.name.chars());
        let end = same.take_while(|((_, one), other)| one == other).last();
        common = &common[..end.map_or(0, |((at, one), _)| at + one.len_utf8())];
    }
    Some(format!("/{common}")).filter(|it| it.len() > input.len())
}
