//! `conductor man`: the manual pages.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use acp_wire::ErrorKind;
use clap::{Arg, Command};

use super::output::Failure;
use crate::cli;

/// Writes a page with all commands, or the page of one command.
pub fn write_manual(out: &mut dyn Write, command: Option<&str>) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::of(ErrorKind::SystemError, error);
    match command {
        None => whole_page(out).map_err(failed),
        Some(name) => match commands().find(|it| it.get_name() == name) {
            Some(command) => command_page(out, &command).map_err(failed),
            None => {
                let names: Vec<String> = commands().map(|it| it.get_name().to_owned()).collect();
                let why = format!(
                    "there is no manual page for '{name}'; there are pages for {}",
                    names.join(", ")
                );
                Err(Failure::invalid(ErrorKind::InvalidOption, why))
            }
        },
    }
}

/// Writes `conductor.1` and a page for each command, such as `conductor-agent.1`, into a directory.
pub fn write_directory(directory: &Path) -> Result<(), Failure> {
    let failed = |path: &Path, error: io::Error| {
        let why = format!("cannot write {}: {error}", path.display());
        Failure::of(ErrorKind::UnwritableFile, why)
    };
    fs::create_dir_all(directory).map_err(|error| failed(directory, error))?;
    let mut pages = vec![("conductor".to_owned(), None)];
    pages.extend(commands().map(|it| (page_name(&it), Some(it.get_name().to_owned()))));
    for (name, command) in pages {
        let mut page = Vec::new();
        write_manual(&mut page, command.as_deref())?;
        let path = directory.join(format!("{name}.1"));
        fs::write(&path, page).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

/// The commands that are not internal, in the order of `conductor --help`.
fn commands() -> impl Iterator<Item = Command> {
    let all = cli::command();
    let mut visible: Vec<Command> =
        all.get_subcommands().filter(|it| !it.is_hide_set()).cloned().collect();
    visible.sort_by_key(|it| cli::position(it.get_name()));
    visible.into_iter()
}

fn page_name(command: &Command) -> String {
    format!("conductor-{}", command.get_name())
}

/// A single page, with a section for each command.
fn whole_page(out: &mut dyn Write) -> io::Result<()> {
    let command = cli::command();
    title(out, "conductor", &command)?;
    let synopses: Vec<String> = commands().map(|command| synopses(&command, true)).collect();
    writeln!(out, ".SH SYNOPSIS\n{}", synopses.join("\n.br\n"))?;
    let page = clap_mangen::Man::new(command);
    page.render_description_section(out)?;
    for command in commands() {
        let mut text = Vec::new();
        body(&mut text, &command)?;
        let text = String::from_utf8_lossy(&text).replace(".SH ", ".SS ");
        let name = format!("conductor {}", command.get_name());
        write!(out, ".SH \"{}\"\n{text}", escape(&name.to_uppercase()))?;
    }
    Ok(())
}

/// The page of one command.
fn command_page(out: &mut dyn Write, command: &Command) -> io::Result<()> {
    title(out, &page_name(command), command)?;
    body(out, command)?;
    writeln!(out, ".SH SEE ALSO\n.BR conductor (1)")
}

/// The header of a page, and its name section.
fn title(out: &mut dyn Write, name: &str, command: &Command) -> io::Result<()> {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let (name, about) = (escape(name), escape(about.trim_end_matches('.')));
    writeln!(out, ".TH {name} 1 \"\" \"conductor {}\"", env!("CARGO_PKG_VERSION"))?;
    writeln!(out, ".SH NAME\n{name} \\- {about}")
}

/// Synopsis, description, options and examples of a command.
fn body(out: &mut dyn Write, command: &Command) -> io::Result<()> {
    let mut command = command.clone();
    let examples = command.get_after_long_help().map(ToString::to_string);
    command = command.after_long_help(None::<&str>);
    let page = clap_mangen::Man::new(command.clone());
    writeln!(out, ".SH SYNOPSIS\n{}", synopses(&command, false))?;
    page.render_description_section(out)?;
    if !command.has_subcommands() {
        page.render_options_section(out)?;
    }
    for nested in command.get_subcommands() {
        let name = format!("conductor {} {}", command.get_name(), nested.get_name());
        let mut text = Vec::new();
        let page = clap_mangen::Man::new(nested.clone().after_long_help(None::<&str>));
        page.render_description_section(&mut text)?;
        page.render_options_section(&mut text)?;
        // The headings of the parts become paragraphs.
        let text = String::from_utf8_lossy(&text);
        let lines =
            text.lines().filter(|line| *line != ".SH DESCRIPTION" && *line != ".SH OPTIONS");
        let text: Vec<&str> = lines.collect();
        writeln!(out, ".SH \"{}\"\n{}", escape(&name.to_uppercase()), text.join("\n"))?;
        write_examples(out, nested.get_after_long_help().map(ToString::to_string), ".PP")?;
    }
    write_examples(out, examples, ".SH EXAMPLES")
}

/// Examples, after a heading.
fn write_examples(out: &mut dyn Write, examples: Option<String>, heading: &str) -> io::Result<()> {
    if let Some(examples) = examples {
        let examples = examples.strip_prefix("Examples:\n").unwrap_or(&examples);
        writeln!(out, "{heading}\n.nf")?;
        for line in examples.lines() {
            writeln!(out, "{}", escape(line.strip_prefix("  ").unwrap_or(line)))?;
        }
        writeln!(out, ".fi")?;
    }
    Ok(())
}

/// The synopsis of a command, or one for each of the commands that it consists of.
fn synopses(command: &Command, short: bool) -> String {
    let name = command.get_name();
    let nested = command.get_subcommands();
    let nested = nested.map(|it| synopsis(&format!("{name} {}", it.get_name()), it, short));
    let all: Vec<String> = nested.collect();
    match all.is_empty() {
        true => synopsis(name, command, short),
        false => all.join("\n.br\n"),
    }
}

/// The command with all of its options and their values, or with `[OPTION…]` in their place.
fn synopsis(name: &str, command: &Command, short: bool) -> String {
    let mut parts = vec![format!("\\fBconductor {}\\fR", escape(name))];
    let is_shown = |argument: &&Arg| !argument.is_hide_set() && argument.get_id() != "help";
    let (positional, options): (Vec<&Arg>, Vec<&Arg>) =
        command.get_arguments().filter(is_shown).partition(|it| it.is_positional());
    match short && !options.is_empty() {
        true => parts.push("[\\fIOPTION\\fR]...".to_owned()),
        false => parts.extend(options.into_iter().map(option)),
    }
    for argument in positional {
        let many = if is_repeated(argument) { "..." } else { "" };
        parts.push(match argument.is_required_set() {
            true => format!("{}{many}", value(argument)),
            false => format!("[{}]{many}", value(argument)),
        });
    }
    parts.join("\n")
}

/// An option in a synopsis, such as `[--log LEVEL]`.
fn option(option: &Arg) -> String {
    let long = option.get_long().map(|long| format!("--{long}"));
    let short = option.get_short().map(|short| format!("-{short}"));
    let name = escape(&long.or(short).unwrap_or_default());
    let many = if is_repeated(option) { "..." } else { "" };
    match option.get_action().takes_values() {
        false => format!("[\\fB{name}\\fR]"),
        true if option.is_require_equals_set() => format!("[\\fB{name}\\fR[={}]]", value(option)),
        true => format!("[\\fB{name}\\fR {}]{many}", value(option)),
    }
}

fn is_repeated(argument: &Arg) -> bool {
    matches!(argument.get_action(), clap::ArgAction::Append)
        || argument.get_num_args().is_some_and(|range| range.max_values() > 1)
}

fn value(argument: &Arg) -> String {
    let names = argument.get_value_names().unwrap_or_default();
    let name = names.first().map(ToString::to_string);
    let name = name.unwrap_or_else(|| argument.get_id().as_str().to_uppercase());
    format!("\\fI{}\\fR", escape(&name))
}

/// Text in roff.
fn escape(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    // A line that begins with a dot or an apostrophe would be a request.
    match text.starts_with(['.', '\'']) {
        true => format!("\\&{text}"),
        false => text,
    }
}
