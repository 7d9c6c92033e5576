//! `conductor chain`: the chains of the configuration files, and why a component is part of one.

use std::path::{Path, PathBuf};

use acp_conductor::configuration::{self, Files};
use acp_conductor::log;
use acp_wire::secret_names::is_secret_name;
use acp_wire::{ErrorKind, printable};
use client::payload::text_without_secrets;
use config::chain::{ResolvedChain, ResolvedEntry, Role};
use config::source::Place;
use config::variables::without_values;
use config::when::Surroundings;
use serde_json::{Value, json};

use super::output::{Failure, print, print_json};
use crate::cli::{Folder, NamedChainCommand};

/// `conductor chain`.
pub fn named_chain(command: &NamedChainCommand) -> Result<(), Failure> {
    match command {
        NamedChainCommand::List { options } => list(options),
        NamedChainCommand::Explain { chain, options } => explain(chain.as_deref(), options),
    }
}

fn list(options: &Folder) -> Result<(), Failure> {
    let surroundings = Surroundings::of_process(folder(options)?);
    let files = Files::read(&surroundings).map_err(|why| wrong(&why.into()))?;
    let chains: Vec<Listed> = files
        .configuration
        .chains()
        .keys()
        .map(|name| listed(name, &files, &surroundings))
        .collect();
    if options.json {
        let chains: Vec<Value> = chains.iter().map(Listed::to_json).collect();
        let default = files.configuration.default_chain().map(|it| it.value.as_str());
        let value = json!({
            "folder": shown(&surroundings.folder),
            "default": default,
            "project": project(&files),
            "chains": chains,
        });
        return print(|out| print_json(out, &value));
    }
    if let Some(notice) = &files.notice {
        log::print_error(&format!("conductor: {notice}\n"));
    }
    if chains.is_empty() {
        return print(|out| {
            writeln!(out, "There are no chains. To define one, run conductor config edit.")
        });
    }
    let rows: Vec<[String; 4]> = chains.iter().map(Listed::row).collect();
    print(|out| out.write_all(acp_conductor::table(&rows).as_bytes()))
}

/// A chain in a list.
struct Listed {
    name: String,
    is_default: bool,
    place: Place,
    chain: Result<ResolvedChain, String>,
}

fn listed(
    name: &config::source::Placed<String>,
    files: &Files,
    surroundings: &Surroundings,
) -> Listed {
    let configuration = &files.configuration;
    Listed {
        name: name.value.clone(),
        is_default: configuration.default_chain().is_some_and(|it| it.value == name.value),
        place: name.place.clone(),
        chain: configuration.chain(name, surroundings).map_err(|why| why.one_line()),
    }
}

impl Listed {
    fn row(&self) -> [String; 4] {
        let mark = if self.is_default { "*" } else { "" };
        let runs = match &self.chain {
            Ok(chain) => {
                let names = names(chain);
                let names: Vec<&str> = names.iter().flatten().map(String::as_str).collect();
                let agent = if chain.agent().is_some() { "" } else { " (no agent)" };
                format!("{}{agent}", names.join(" → ")).trim_start().to_owned()
            }
            Err(why) => format!("error: {why}"),
        };
        [mark.to_owned(), printable::one_line(&self.name), self.place.to_string(), runs]
    }

    fn to_json(&self) -> Value {
        let mut value = json!({ "name": self.name, "default": self.is_default });
        add_place(&mut value, &self.place);
        match &self.chain {
            Ok(chain) => {
                value["components"] = json!(names(chain).iter().flatten().collect::<Vec<_>>());
                let agent = chain.agent();
                value["agent"] = json!(agent.map(|it| &it.name));
                value["agentCommand"] = json!(agent.map(command_line));
            }
            Err(why) => value["error"] = json!(why),
        }
        value
    }
}

fn explain(name: Option<&str>, options: &Folder) -> Result<(), Failure> {
    let surroundings = Surroundings::of_process(folder(options)?);
    let files = Files::read(&surroundings).map_err(|why| wrong(&why.into()))?;
    let found = configuration::find_chain(&files, name, &surroundings);
    let chain = found.map_err(|why| {
        if let Some(notice) = &files.notice {
            log::print_error(&format!("conductor: {notice}\n"));
        }
        wrong(&why)
    })?;
    if options.json {
        let value = explained_as_json(&chain, &files, &surroundings.folder);
        return print(|out| print_json(out, &value));
    }
    let text = explained(&chain, &files, &surroundings.folder);
    print(|out| out.write_all(printable::plain(&text).as_bytes()))
}

fn explained(chain: &ResolvedChain, files: &Files, folder: &Path) -> String {
    let rows: Vec<[String; 6]> = numbered(chain)
        .into_iter()
        .map(|(number, name, entry)| {
            let included = if entry.is_included() { "in" } else { "out" };
            let role = match entry.through.last() {
                Some(through) => format!("{} of {through}", role(entry)),
                None => role(entry).to_owned(),
            };
            [
                number.map_or_else(|| "-".to_owned(), |it| it.to_string()),
                included.to_owned(),
                name,
                role,
                entry.place.to_string(),
                entry.reason().unwrap_or_default(),
            ]
        })
        .collect();
    let mut text = format!("The chain {} in {}:\n\n", chain.name.value, shown(folder));
    text += &acp_conductor::table(&rows);
    if rows.is_empty() {
        text += "It has no components.\n";
    }
    let mut notes = Vec::new();
    if chain.entries.iter().any(|it| !it.verdicts.is_empty()) {
        notes.push(
            "Conditions are about this folder. They are evaluated when the chain starts.".into(),
        );
    }
    if chain.agent().is_none() {
        notes.push(match chain.left_out().any(|it| it.role == Role::Agent) {
            true => "The chain cannot run here, because its agent is left out.".into(),
            false => format!(
                "It has no agent: include it in another chain, or run it with conductor proxy --chain {}.",
                shell_words::quote(&chain.name.value)
            ),
        });
    }
    match (&files.notice, &files.project) {
        (Some(notice), _) => notes.push(notice.clone()),
        (None, Some(project)) => {
            notes.push(format!("{} is used, because you trust it.", shown(&project.path)));
        }
        (None, None) => {}
    }
    for note in notes {
        text += &format!("\n{note}\n");
    }
    text
}

fn explained_as_json(chain: &ResolvedChain, files: &Files, folder: &Path) -> Value {
    let entries: Vec<Value> = numbered(chain)
        .into_iter()
        .map(|(number, name, entry)| {
            let mut value = json!({
                "position": number,
                "name": name,
                "role": role(entry),
                "included": entry.is_included(),
                "reason": entry.reason(),
                "conditions": entry.verdicts,
                "through": entry.through,
            });
            add_place(&mut value, &entry.place);
            value
        })
        .collect();
    let mut value = json!({
        "name": chain.name.value,
        "folder": shown(folder),
        "project": project(files),
        "entries": entries,
    });
    add_place(&mut value, &chain.name.place);
    value
}

/// The entries, with the positions and the names of those that are part of the chain.
fn numbered(chain: &ResolvedChain) -> Vec<(Option<usize>, String, &ResolvedEntry)> {
    let mut position = 0;
    let entries = chain.entries.iter().zip(names(chain));
    entries
        .map(|(entry, name)| {
            position += usize::from(name.is_some());
            let number = name.is_some().then_some(position);
            (number, name.unwrap_or_else(|| printable::one_line(&entry.name)), entry)
        })
        .collect()
}

/// The names that the components have while the chain runs. None for an entry that is left out.
fn names(chain: &ResolvedChain) -> Vec<Option<String>> {
    let mut seen: Vec<&str> = Vec::new();
    let entries = chain.entries.iter();
    entries
        .map(|entry| {
            if !entry.is_included() {
                return None;
            }
            let before = seen.iter().filter(|it| **it == entry.name).count();
            seen.push(&entry.name);
            let name = printable::one_line(&entry.name);
            Some(if before > 0 { format!("{name}#{}", before + 1) } else { name })
        })
        .collect()
}

fn role(entry: &ResolvedEntry) -> &'static str {
    match entry.role {
        Role::Proxy => "proxy",
        Role::Agent => "agent",
        Role::Chain => "chain",
    }
}

/// What a component runs, as it is written. Variables are not expanded.
fn command_line(entry: &ResolvedEntry) -> String {
    let component = &entry.component;
    let command = component.command.iter().map(|it| it.value.as_str());
    let args = component.args.iter().flat_map(|it| &it.value).map(|it| it.value.as_str());
    shell_words::join(words_without_secrets(command.chain(args)))
}

/// The words of a command line without secrets: also without the values of options such as `--api-key VALUE`.
pub fn words_without_secrets<'a>(words: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut is_secret = false;
    let shown = words.map(|word| {
        let is_value = std::mem::take(&mut is_secret) && !word.starts_with("--");
        is_secret = word.starts_with('-') && !word.contains('=') && is_secret_name(word);
        match is_value {
            true => without_values(word),
            false => text_without_secrets(word).into_owned(),
        }
    });
    shown.collect()
}

/// The file of the project, whether it is used, and why not.
fn project(files: &Files) -> Value {
    if files.project.is_none() && files.notice.is_none() {
        return Value::Null;
    }
    json!({
        "file": files.project.as_ref().map(|it| shown(&it.path)),
        "used": files.notice.is_none(),
        "notice": files.notice,
    })
}

fn add_place(value: &mut Value, place: &Place) {
    let (line, column) = place.position();
    value["file"] = json!(shown(place.source.path()));
    value["line"] = json!(line);
    value["column"] = json!(column);
}

fn folder(options: &Folder) -> Result<PathBuf, Failure> {
    let missing = |path: &Path, why| {
        let why = format!("cannot use the folder {}: {why}", shown(path));
        Failure::of(ErrorKind::MissingDirectory, why)
    };
    let Some(folder) = &options.cwd else {
        return std::env::current_dir().map_err(|error| missing(Path::new("."), error.to_string()));
    };
    match std::path::absolute(folder) {
        Ok(path) if path.is_dir() => Ok(path),
        Ok(path) => Err(missing(&path, "it is not a folder".to_owned())),
        Err(error) => Err(missing(folder, error.to_string())),
    }
}

fn shown(path: &Path) -> String {
    printable::one_line(&path.display().to_string())
}

fn wrong(why: &configuration::Failure) -> Failure {
    Failure { status: 1, ..Failure::configuration(why) }
}
