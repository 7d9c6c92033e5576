//! What `conductor config check` finds in addition to the mistakes of the parser.

use std::collections::BTreeSet;

use acp_wire::ErrorKind;
use config::chain::{Configuration, ResolvedEntry, Role};
use config::file::Node;
use config::source::Diagnostic;
use config::when::Surroundings;

use super::specs;
use crate::builtin;
use crate::host::start_failure;

/// Checks the names and the types of the options of all built-in components, without anything of this machine: an option with a
/// variable is not checked.
pub fn check_options(configuration: &Configuration) -> Vec<Diagnostic> {
    let mut errors = Vec::new();
    for component in configuration.components().values() {
        let command = component.command.as_ref().map(|it| it.as_str()).unwrap_or_default();
        let Some(entry) = components::find(command.strip_prefix("builtin:").unwrap_or(command))
        else {
            continue;
        };
        for (name, node) in &component.options {
            let has_variable = Node::texts(node).iter().any(|text| text.contains('$'));
            if !has_variable {
                errors.extend(specs::check_option(entry, name, node).err());
            }
        }
    }
    errors
}

/// Checks the components of all chains as a start does, except for what depends on conditions, variables and files.
pub fn check_chains(configuration: &Configuration) -> Vec<Diagnostic> {
    let chains = configuration.chains().keys();
    // The errors of names are those of the configuration.
    let chains = chains.filter_map(|name| configuration.whole_chain(name).ok());
    let entries = chains.flat_map(|it| it.entries).filter(|it| it.role != Role::Chain);
    different(entries.filter_map(|entry| check_entry(&entry).err()))
}

fn check_entry(entry: &ResolvedEntry) -> Result<(), Diagnostic> {
    specs::check_role(entry)?;
    let command = entry.component.command.as_ref();
    let Some(command) = command.filter(|it| !it.contains('$')) else { return Ok(()) };
    match builtin::entry_of(command).map(|(built_in, _)| built_in) {
        Ok(Some(built_in)) => specs::check_place(built_in, entry),
        Ok(None) => specs::refuse_options(entry),
        Err((kind, why)) => Err(command.error(why).of_kind(kind)),
    }
}

/// Why a chain could not start on this machine, now: a program, a file or a variable is missing. Starts nothing.
pub fn missing_here(configuration: &Configuration, surroundings: &Surroundings) -> Vec<Diagnostic> {
    let chains = configuration.chains().keys();
    let chains = chains.filter_map(|name| configuration.chain(name, surroundings).ok());
    let mut problems = Vec::new();
    for chain in chains {
        for entry in chain.components() {
            let launch = configuration.launch(entry, surroundings);
            let spec = launch.and_then(|it| Ok((specs::spec(&it, entry)?, it.command.place)));
            problems.extend(match spec {
                Err(error) => Some(error),
                Ok((spec, place)) => match builtin::entry_of(&spec.program) {
                    Ok((None, _)) => start_failure::missing(&spec).map(|it| {
                        let error = Diagnostic::at(&place, it.why).help(it.remedy);
                        error.of_kind(ErrorKind::StartFailed)
                    }),
                    _ => None,
                },
            });
        }
    }
    different(problems)
}

/// Each error once. Several chains can have the same component.
fn different(errors: impl IntoIterator<Item = Diagnostic>) -> Vec<Diagnostic> {
    let mut seen = BTreeSet::new();
    errors.into_iter().filter(|it| seen.insert(it.one_line())).collect()
}
