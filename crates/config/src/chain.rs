//! A named chain, with all layers merged.
//!
//! [`Configuration`] is the files of the user and of the project, merged. [`Configuration::chain`] follows the includes of a
//! chain and evaluates its conditions. [`Configuration::launch`] says how to start a component of it.

mod launch;
mod resolve;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::file::{Chain, Component, File, Named, Settings};
use crate::source::{Diagnostic, Place, Placed, Source};
use crate::trust::{AgreedFiles, Evidence, Names, ReadFile};
use crate::when::{Surroundings, Verdict};
use acp_wire::{ErrorKind, suggestion};
use serde_json::{Map, Value};

pub use launch::Launch;

/// How deeply chains can include each other.
pub const MAX_DEPTH: usize = 16;

/// The maximum number of entries of a chain, with those of the chains that it includes.
pub const MAX_ENTRIES: usize = 200;

/// A built-in component.
#[derive(Debug, Clone, Copy)]
pub struct BuiltIn {
    /// Its name.
    pub name: &'static str,
    /// Whether it is an agent.
    pub agent: bool,
    /// What its options lead to.
    pub mentions: FindMentions,
}

/// Finds out what the options of a built-in component lead to: its name, its words on a command line, its options as JSON, and the
/// folders in which relative paths may begin.
pub type FindMentions = fn(&str, &[String], &Map<String, Value>, &[&Path]) -> Mentions;

/// What the options of a built-in component lead to.
#[derive(Debug, Default)]
pub struct Mentions {
    /// The files that the component reads.
    pub files: Vec<ReadFile>,
    /// What it runs because of its options and files, for the user.
    pub runs: Vec<String>,
    /// Texts that may name further files.
    pub texts: Vec<String>,
}

/// The configuration files, merged.
#[derive(Debug, Clone, Default)]
pub struct Configuration {
    sources: Vec<Source>,
    default: Option<Placed<String>>,
    settings: Settings,
    components: Named<Component>,
    chains: Named<Chain>,
    built_ins: Vec<BuiltIn>,
    /// The env-files that were looked for already. `None`: there is no such file.
    env_files: BTreeMap<PathBuf, Option<Source>>,
    /// The files of the components that the file of a project defines or changes, to which the user has agreed.
    agreed: BTreeMap<String, Arc<AgreedFiles>>,
}

/// A chain with its includes, after its conditions were evaluated.
#[derive(Debug, Clone)]
pub struct ResolvedChain {
    /// The name of the chain.
    pub name: Placed<String>,
    /// The entries in order. The last one is the agent, if there is one. Some of them are left out.
    pub entries: Vec<ResolvedEntry>,
    /// The settings of the chain, merged with those of the files.
    pub settings: Settings,
}

/// An entry of a chain.
#[derive(Debug, Clone)]
pub struct ResolvedEntry {
    /// The name of the component. For a chain that is left out as a whole, the name of that chain.
    pub name: String,
    /// What the entry is.
    pub role: Role,
    /// Where the entry is written.
    pub place: Place,
    /// The chains through which the entry was included, without the outermost one.
    pub through: Vec<String>,
    /// The component, with all layers merged. That of a chain that is left out is empty.
    pub component: Component,
    /// The verdict on each condition of the entry: of the included chains, of the entry itself, and of its component.
    pub verdicts: Vec<Verdict>,
}

/// What an entry of a chain is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A proxy.
    Proxy,
    /// The agent.
    Agent,
    /// A chain, which is left out.
    Chain,
}

impl Configuration {
    /// Reads and merges files. The later ones win.
    ///
    /// # Errors
    /// A file is wrong.
    pub fn load(
        sources: impl IntoIterator<Item = Source>,
        built_ins: impl IntoIterator<Item = BuiltIn>,
    ) -> Result<Configuration, Diagnostic> {
        let mut configuration = Configuration {
            built_ins: built_ins.into_iter().collect(),
            ..Configuration::default()
        };
        for source in sources {
            let File { default, settings, components, chains } = File::parse(&source)?;
            configuration.default = default.or(configuration.default);
            configuration.settings.merge(settings);
            merge(&mut configuration.components, components, Component::merge);
            merge(&mut configuration.chains, chains, Chain::merge);
            configuration.sources.push(source);
        }
        Ok(configuration)
    }

    /// The files, in the order in which they were merged.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// The chain that runs if none is named.
    pub fn default_chain(&self) -> Option<&Placed<String>> {
        self.default.as_ref()
    }

    /// The settings of all chains.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The components, by name.
    pub fn components(&self) -> &Named<Component> {
        &self.components
    }

    /// The chains, by name.
    pub fn chains(&self) -> &Named<Chain> {
        &self.chains
    }

    /// Uses this file, which was read already, wherever a component names it as its env-file.
    pub fn add_env_file(&mut self, file: Source) {
        self.env_files.insert(file.path().to_owned(), Some(file.with_only_secrets()));
    }

    /// There was no file at this path when the [trust](mod@crate::trust) in it was checked. One that has come into being since then
    /// is not used.
    pub fn add_missing_env_file(&mut self, path: PathBuf) {
        self.env_files.insert(path, None);
    }

    /// The paths of the env-files that a file names, each of them once. A path with a variable that is not set is left out: the
    /// component cannot be started.
    pub fn env_files_of(&self, source: &Source, surroundings: &Surroundings) -> BTreeSet<PathBuf> {
        let files = self.components.values().filter_map(|it| it.env_file.as_ref());
        let files = files.flat_map(|it| &it.0).filter(|it| it.place.source == *source);
        files.filter_map(|file| launch::path_of(file, surroundings).ok()).collect()
    }

    /// What the components name that a file defines or changes. For the [trust](mod@crate::trust) in a project.
    pub fn names_of(&self, source: &Source, surroundings: &Surroundings) -> Vec<Names> {
        let start = surroundings.folder.canonicalize().unwrap_or(surroundings.folder.clone());
        let folders = [source.folder(), &start];
        let merged = self.changed_by(source);
        let merged = merged.iter().filter_map(|name| self.components.get_key_value(name));
        merged
            .map(|(name, it)| launch::names(name, it, surroundings, &self.built_ins, &folders))
            .collect()
    }

    /// Compares the files of the components that a file defines or changes with this evidence, whenever one of them starts.
    pub fn agree(&mut self, source: &Source, evidence: &Evidence) {
        let names = self.changed_by(source).into_iter();
        self.agreed =
            names.map(|it| (it.value.clone(), Arc::new(evidence.agreed_files(&it)))).collect();
    }

    /// The names of the components that a file defines or changes.
    fn changed_by(&self, source: &Source) -> Vec<Placed<String>> {
        let Ok(file) = File::parse(source) else { return Vec::new() };
        file.components.into_keys().collect()
    }

    /// Checks what does not depend on the surroundings: that every name in every chain exists, and that the default chain has an agent.
    ///
    /// # Errors
    /// The first error of each chain.
    pub fn check(&self) -> Result<(), Vec<Diagnostic>> {
        let mut errors: Vec<Diagnostic> =
            self.chains.keys().filter_map(|name| self.whole_chain(name).err()).collect();
        if let Some(default) = &self.default {
            match self.find_chain(default) {
                Err(error) => errors.push(error),
                // The error of a chain that is wrong is there already.
                Ok((name, _)) => errors.extend(
                    self.whole_chain(name).ok().filter(|it| it.agent().is_none()).map(|it| {
                        let error = it.missing_agent();
                        error.label("it is the default chain, which must have one")
                    }),
                ),
            }
        }
        let mut different: Vec<Diagnostic> = Vec::new();
        errors.retain(|it| {
            let is_new = !different.contains(it);
            different.push(it.clone());
            is_new
        });
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// A chain, by a name that is written in a file.
    fn find_chain(&self, name: &Placed<String>) -> Result<(&Placed<String>, &Chain), Diagnostic> {
        self.chains.get_key_value(name).ok_or_else(|| {
            let error = name.error(format!("there is no chain `{}`", name.value));
            error.help(self.chains_help(name))
        })
    }

    /// The error for a chain that does not exist.
    pub fn unknown_chain(&self, name: &str) -> Diagnostic {
        let error = Diagnostic::plain(format!("there is no chain `{name}`"));
        error.of_kind(ErrorKind::UnknownChain).help(self.chains_help(name))
    }

    fn chains_help(&self, name: &str) -> String {
        let names = || self.chains.keys().map(|it| it.value.as_str());
        match suggestion::closest(name, names()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None if self.chains.is_empty() => {
                format!("define it: write a table `[chains.{name}]`")
            }
            None => format!("the chains are {}", names().collect::<Vec<_>>().join(", ")),
        }
    }
}

impl ResolvedChain {
    /// The entries that are part of the chain.
    pub fn components(&self) -> impl Iterator<Item = &ResolvedEntry> {
        self.entries.iter().filter(|it| it.is_included())
    }

    /// The entries that are left out.
    pub fn left_out(&self) -> impl Iterator<Item = &ResolvedEntry> {
        self.entries.iter().filter(|it| !it.is_included())
    }

    /// The agent, unless it is left out.
    pub fn agent(&self) -> Option<&ResolvedEntry> {
        self.components().find(|it| it.role == Role::Agent)
    }

    /// The error for a chain that has no agent, and that must have one.
    pub fn missing_agent(&self) -> Diagnostic {
        let name = &self.name;
        match self.left_out().find(|it| it.role == Role::Agent) {
            Some(agent) => {
                let why = agent.reason().unwrap_or_default();
                let error = Diagnostic::at(
                    &agent.place,
                    format!(
                        "the chain `{}` has no agent: `{}` is left out",
                        name.value, agent.name
                    ),
                );
                error.help(format!("its condition does not hold: {why}"))
            }
            None => {
                let error = name.error(format!("the chain `{}` has no agent", name.value));
                error.help(format!(
                    "write `agent = \"NAME\"` into `[chains.{}]`, with the name of a component or a built-in agent",
                    name.value
                ))
            }
        }
    }
}

impl ResolvedEntry {
    /// Whether all conditions hold.
    pub fn is_included(&self) -> bool {
        self.verdicts.iter().all(|it| it.holds)
    }

    /// Why the entry is left out, or why it is included although it has conditions.
    pub fn reason(&self) -> Option<String> {
        if let Some(verdict) = self.verdicts.iter().find(|it| !it.holds) {
            return Some(verdict.reason.clone());
        }
        let reasons: Vec<&str> = self.verdicts.iter().map(|it| it.reason.as_str()).collect();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }
}

fn merge<T: Default>(map: &mut Named<T>, over: Named<T>, merge: impl Fn(&mut T, T)) {
    for (name, value) in over {
        match map.get_mut(&name) {
            Some(old) => merge(old, value),
            None => {
                map.insert(name, value);
            }
        }
    }
}

/// A relative path of a file, which begins at the folder of the file.
fn absolute(folder: &Path, path: impl AsRef<Path>) -> PathBuf {
    folder.join(path)
}
