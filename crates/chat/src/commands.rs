//! The slash commands of the chat.

use crate::view::SlashCommand;

/// The maximum length of a description in `/help`.
const MAX_DESCRIPTION: usize = 70;
/// The maximum length of the name of a command. A longer word is a text.
const MAX_NAME: usize = 100;

/// A line that the user has entered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line {
    /// A text for the agent.
    Prompt(String),
    /// A command, without its slash.
    Command {
        /// The name.
        name: String,
        /// The text after the name.
        argument: String,
    },
}

/// Parses a line. A line that begins with a space or with two slashes is a text, and so is a path.
pub(crate) fn parse(line: &str) -> Line {
    if let Some(text) = line.strip_prefix("//") {
        return Line::Prompt(format!("/{text}"));
    }
    let Some(rest) = line.strip_prefix('/') else { return Line::Prompt(line.trim().to_owned()) };
    let (name, argument) = match rest.find(char::is_whitespace) {
        Some(at) => (&rest[..at], rest[at..].trim()),
        None => (rest, ""),
    };
    let is_name = |it: char| it.is_alphanumeric() || "-_:.".contains(it);
    match (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_name) {
        true => Line::Command { name: name.to_owned(), argument: argument.to_owned() },
        false => Line::Prompt(line.trim().to_owned()),
    }
}

/// A command of the chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Own {
    Help,
    Exit,
    New,
    Sessions,
    Load,
    Resume,
    Mode,
    Model,
    Config,
    Login,
    Logout,
    Cwd,
    Unfold,
    Wire,
}

/// The commands of the chat: name, argument, description.
const OWN: [(Own, &str, &str, &str); 14] = [
    (Own::Help, "help", "", "List the commands and keys"),
    (Own::New, "new", "", "Start a new session"),
    (Own::Sessions, "sessions", "", "List the earlier sessions of this folder"),
    (Own::Load, "load", "ID", "Load an earlier session and show its messages"),
    (Own::Resume, "resume", "ID", "Resume an earlier session without showing its messages"),
    (Own::Mode, "mode", "[NAME]", "Show or change the mode of the agent"),
    (Own::Model, "model", "[NAME]", "Show or change the model of the agent"),
    (Own::Config, "config", "[OPTION VALUE]", "Show or change the options of the agent"),
    (Own::Login, "login", "[METHOD]", "Log in, in one of the ways that the agent offers"),
    (Own::Logout, "logout", "", "Log out"),
    (Own::Cwd, "cwd", "", "Show the folder of the session"),
    (Own::Unfold, "unfold", "[N]", "Show the last folded output in full, or output number N"),
    (Own::Wire, "wire", "[on|off]", "Show the messages between the components, or stop that"),
    (Own::Exit, "exit", "", "Leave the chat (also /quit and Ctrl-D)"),
];

impl Own {
    /// The command with this name.
    pub(crate) fn find(name: &str) -> Option<Own> {
        match name {
            "quit" => Some(Own::Exit),
            _ => OWN.iter().find(|it| it.1 == name).map(|it| it.0),
        }
    }

    /// Whether the command is performed at once, also while the agent is working.
    pub(crate) fn is_immediate(self) -> bool {
        matches!(
            self,
            Own::Help | Own::Exit | Own::Mode | Own::Model | Own::Config | Own::Cwd | Own::Unfold
        )
    }
}

/// All commands of the chat that `is_available` accepts.
pub(crate) fn own(is_available: impl Fn(Own) -> bool) -> Vec<SlashCommand> {
    let available = OWN.iter().filter(|it| is_available(it.0));
    let command = |(_, name, argument, description): &(Own, &str, &str, &str)| SlashCommand {
        name: (*name).to_owned(),
        argument: (*argument).to_owned(),
        description: (*description).to_owned(),
        of_agent: false,
    };
    available.map(command).collect()
}

/// The text of `/help`.
pub(crate) fn help(commands: &[SlashCommand]) -> String {
    let head = |it: &SlashCommand| match it.argument.as_str() {
        "" => format!("/{}", it.name),
        argument => format!("/{} {argument}", it.name),
    };
    let row = |it: &SlashCommand| format!("  {:<21} {}", head(it), first_sentence(&it.description));
    let (of_agent, own): (Vec<&SlashCommand>, Vec<_>) = commands.iter().partition(|it| it.of_agent);
    let mut lines = Vec::new();
    if !of_agent.is_empty() {
        lines.push("Commands of the agent:".to_owned());
        lines.extend(of_agent.iter().map(|it| row(it)));
    }
    // Last, because the list of the agent may be longer than the screen.
    lines.push("Commands:".to_owned());
    lines.extend(own.iter().map(|it| row(it)));
    let shadowed = of_agent.iter().find(|agent| own.iter().any(|it| it.name == agent.name));
    if let Some(command) = shadowed {
        lines.push(format!(
            "The agent has commands with the names of ours: two slashes reach them, as in //{}.",
            command.name
        ));
    }
    lines.push(
        "A line that begins with a space or with // is sent to the agent as it is.".to_owned(),
    );
    lines.push("Ctrl-C interrupts the agent; a second Ctrl-C leaves the chat.".to_owned());
    lines.join("\n")
}

/// The first sentence of a description, of limited length. Some agents send whole paragraphs.
fn first_sentence(description: &str) -> String {
    let sentence = description.split_inclusive(". ").next().unwrap_or_default().trim_end();
    shorten(sentence, MAX_DESCRIPTION)
}

/// The text, or its beginning if it has more characters than that.
pub(crate) fn shorten(text: &str, length: usize) -> String {
    match text.chars().nth(length) {
        None => text.to_owned(),
        Some(_) => {
            let start: String = text.chars().take(length - 1).collect();
            format!("{}…", start.trim_end())
        }
    }
}

/// The command that a misspelt name is closest to.
pub(crate) fn suggest<'a>(name: &str, commands: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let commands: Vec<&str> = commands.collect();
    let begins = commands.iter().find(|it| name.len() > 1 && it.to_lowercase().starts_with(&name));
    if let Some(command) = begins {
        return Some(command);
    }
    let near = commands.into_iter().map(|it| (distance(&name, &it.to_lowercase()), it));
    let best = near.min_by_key(|(distance, it)| (*distance, it.len().abs_diff(name.len())))?;
    let allowed = (name.chars().count().max(best.1.chars().count()) / 3).max(1);
    (best.0 <= allowed).then_some(best.1)
}

/// The number of characters to insert, delete, replace or swap with the next one.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replace = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replace.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(name: &str, argument: &str) -> Line {
        Line::Command { name: name.to_owned(), argument: argument.to_owned() }
    }

    #[test]
    fn a_line_with_a_slash_is_a_command_unless_it_is_escaped_or_a_path() {
        assert_eq!(parse("/help"), command("help", ""));
        assert_eq!(parse("/load  abc "), command("load", "abc"));
        assert_eq!(parse("/mcp:web two\nlines"), command("mcp:web", "two\nlines"));
        let prompt = |text: &str| Line::Prompt(text.to_owned());
        assert_eq!(parse("hello"), prompt("hello"));
        assert_eq!(parse(" /help"), prompt("/help"));
        assert_eq!(parse("//help me"), prompt("/help me"));
        assert_eq!(parse("/etc/hosts is odd"), prompt("/etc/hosts is odd"));
        assert_eq!(parse("/"), prompt("/"));
        let long = format!("/{}", "x".repeat(10_000_000));
        assert_eq!(parse(&long), prompt(&long));
    }

    #[test]
    fn a_misspelt_command_has_a_suggestion() {
        let names = || OWN.iter().map(|it| it.1);
        assert_eq!(suggest("hlep", names()), Some("help"));
        assert_eq!(suggest("sesions", names()), Some("sessions"));
        assert_eq!(suggest("sess", names()), Some("sessions"));
        assert_eq!(suggest("Modle", names()), Some("model"));
        assert_eq!(suggest("xyzzy", names()), None);
    }

    #[test]
    fn help_tells_how_to_reach_a_command_of_the_agent_with_the_same_name() {
        let mut commands = own(|_| true);
        assert!(!help(&commands).contains("two slashes"));
        let mut agent = commands[0].clone();
        agent.of_agent = true;
        agent.description = format!("Short. {}", "long ".repeat(100));
        commands.push(agent);
        let text = help(&commands);
        assert!(text.contains("Short.\n") && !text.contains("long"), "{text}");
        assert!(
            text.contains("Commands of the agent:\n  /help") && text.contains("//help"),
            "{text}"
        );
    }
}
