//! How to start a component: its texts with the values of variables.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use acp_wire::ErrorKind;

use super::{BuiltIn, Configuration, Mentions, ResolvedEntry, absolute};
use crate::file::{Component, Node, Options, to_json};
use crate::project::ReadError;
use crate::source::{Diagnostic, Place, Placed, Source};
use crate::trust::{AgreedFiles, Names};
use crate::variables::{expand, parse_env_file};
use crate::when::Surroundings;

/// How to start a component. Nothing in it has a variable any more.
#[derive(Clone)]
pub struct Launch {
    /// The name of the component.
    pub name: String,
    /// Where the chain names the component.
    pub place: Place,
    /// The program, or the name of a built-in component.
    pub command: Placed<String>,
    /// The arguments.
    pub args: Vec<Placed<String>>,
    /// The environment variables. They are never shown.
    pub env: Vec<(String, String)>,
    /// The working directory.
    pub cwd: Option<Placed<PathBuf>>,
    /// The options of a built-in component.
    pub options: Options,
    /// The component as it is written, with all layers merged.
    pub component: Component,
    /// The files that it names, if the file of a project defines or changes it. They must be the same whenever it starts.
    pub agreed: Option<Arc<AgreedFiles>>,
}

/// Omits the environment.
impl std::fmt::Debug for Launch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut f = f.debug_struct("Launch");
        f.field("name", &self.name).field("command", &self.command).finish_non_exhaustive()
    }
}

impl Configuration {
    /// How to start a component of a chain. Reads its env-files, unless they were read before
    /// ([`add_env_file`](Configuration::add_env_file)).
    ///
    /// # Errors
    /// A variable is not set, or an env-file cannot be used.
    pub fn launch(
        &self,
        entry: &ResolvedEntry,
        surroundings: &Surroundings,
    ) -> Result<Launch, Diagnostic> {
        let component = &entry.component;
        let Some(command) = &component.command else {
            let why = format!("the component `{}` has no `command`", entry.name);
            return Err(Diagnostic::at(&entry.place, why));
        };
        let expanded = |text: &Placed<String>| expanded(text, surroundings);
        let args = component.args.iter().flat_map(|it| &it.value).map(expanded);
        let mut env = BTreeMap::new();
        for file in component.env_file.iter().flat_map(|it| &it.0) {
            env.extend(parse_env_file(&self.env_file(file, surroundings)?)?);
        }
        for (name, value) in &component.env {
            env.insert(name.value.clone(), expanded(value)?.value);
        }
        let lookup = |name: &str| surroundings.variable(name).map(Into::into);
        let mut change = |text: &Placed<&str>| expand(text, &lookup);
        let options = component
            .options
            .iter()
            .map(|(name, node)| Ok((name.clone(), Node::try_map(node, &mut change)?)));
        Ok(Launch {
            name: entry.name.clone(),
            place: entry.place.clone(),
            command: program(expanded(command)?),
            args: args.collect::<Result<_, _>>()?,
            env: env.into_iter().collect(),
            cwd: component.cwd.as_ref().map(|it| directory(it, surroundings)).transpose()?,
            options: options.collect::<Result<_, Diagnostic>>()?,
            component: component.clone(),
            agreed: self.agreed.get(&entry.name).cloned(),
        })
    }

    fn env_file(
        &self,
        file: &Placed<String>,
        surroundings: &Surroundings,
    ) -> Result<Source, Diagnostic> {
        let path = path_of(file, surroundings)?;
        match self.env_files.get(&path) {
            Some(Some(source)) => Ok(source.clone()),
            Some(None) => {
                let why = format!("cannot read {}: {}", path.display(), ReadError::Missing);
                Err(Diagnostic::at(&file.place, why).of_kind(ErrorKind::UnreadableFile))
            }
            None => Source::read(&path).map(Source::with_only_secrets).map_err(|error| {
                // The place in the file with variables is that of its error.
                match error.place {
                    Some(_) => error,
                    None => Diagnostic::at(&file.place, error.message).of_kind(error.kind),
                }
            }),
        }
    }
}

/// The path of an env-file.
pub(super) fn path_of(
    file: &Placed<String>,
    surroundings: &Surroundings,
) -> Result<PathBuf, Diagnostic> {
    let path = expanded(file, surroundings)?;
    Ok(absolute(path.place.source.folder(), &path.value))
}

/// The texts of a component that may name files. A text whose variables are not set stays as it is: the component cannot be
/// started.
pub(super) fn names(
    name: &str,
    component: &Component,
    surroundings: &Surroundings,
    built_ins: &[BuiltIn],
    folders: &[&Path],
) -> Names {
    let text = |text: &Placed<String>| match expanded(text, surroundings) {
        Ok(text) => text.value,
        Err(_) => text.value.clone(),
    };
    let lookup = |name: &str| surroundings.variable(name).map(Into::into);
    let mut option = |node: &Placed<&str>| {
        Ok::<_, Infallible>(expand(node, &lookup).unwrap_or(node.value.to_owned()))
    };
    let args: Vec<String> = component.args.iter().flat_map(|it| &it.value).map(text).collect();
    let options = component.options.iter().map(|(name, node)| {
        let Ok(node) = Node::try_map(node, &mut option);
        (name.clone(), node)
    });
    let options: Options = options.collect();
    let env = component.env.values().map(text);
    let command = component.command.as_ref().map(|it| match expanded(it, surroundings) {
        Ok(command) => program(command).value,
        Err(_) => it.value.clone(),
    });
    let command = command.unwrap_or_default();
    let mentions = match built_in(&command, &args, built_ins) {
        Some((it, args)) => (it.mentions)(it.name, args, &to_json(&options), folders),
        None => Mentions::default(),
    };
    let in_options = options.values().flat_map(Node::texts).map(|it| it.value.to_owned());
    let directory = component.cwd.as_ref().and_then(|it| directory(it, surroundings).ok());
    Names {
        component: name.to_owned(),
        texts: args.iter().cloned().chain(in_options).chain(env).chain(mentions.texts).collect(),
        directory: directory.map(|it| it.value),
        search_path: component.env.get("PATH").map(|path| text(path).into()),
        files: mentions.files,
        runs: mentions.runs,
        command,
    }
}

/// The built-in component that a command runs, and its arguments. `conductor component NAME` runs one as a process.
fn built_in<'a>(
    command: &str,
    args: &'a [String],
    built_ins: &[BuiltIn],
) -> Option<(BuiltIn, &'a [String])> {
    let find = |name: &str| built_ins.iter().find(|it| it.name == name).copied();
    if let Some(found) = find(command.strip_prefix("builtin:").unwrap_or(command)) {
        return Some((found, args));
    }
    let is_conductor = Path::new(command).file_stem().is_some_and(|it| it == "conductor");
    match args {
        [first, name, rest @ ..] if is_conductor && first == "component" => {
            Some((find(name)?, rest))
        }
        _ => None,
    }
}

fn directory(
    cwd: &Placed<String>,
    surroundings: &Surroundings,
) -> Result<Placed<PathBuf>, Diagnostic> {
    let cwd = expanded(cwd, surroundings)?;
    let folder = cwd.place.source.folder().to_owned();
    Ok(cwd.map(|cwd| absolute(&folder, cwd)))
}

/// A program. A relative path with a slash begins at the folder of the file.
fn program(command: Placed<String>) -> Placed<String> {
    let is_path = command.contains('/') || cfg!(windows) && command.contains('\\');
    if !is_path {
        return command;
    }
    let folder = command.place.source.folder().to_owned();
    command.map(|command| absolute(&folder, command).display().to_string())
}

fn expanded(
    text: &Placed<String>,
    surroundings: &Surroundings,
) -> Result<Placed<String>, Diagnostic> {
    let lookup = |name: &str| surroundings.variable(name).map(Into::into);
    let value = expand(&Placed::new(&text.value, text.place.clone()), &lookup)?;
    Ok(Placed::new(value, text.place.clone()))
}
