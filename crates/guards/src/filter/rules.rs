//! Builds the detectors of each direction from the options.

use std::collections::BTreeSet;

use acp_proxy::Side;
use acp_wire::ErrorKind;

use component_base::OptionError;
use secrets::{Findings, Secrets, SecretsBuilder};

use super::Filter;
use super::options::{Action, Directions, OnAction};
use super::values::{self, NamedValue};

/// The maximum number of exact values.
const MAX_VALUES: usize = 10_000;

/// What is searched, and what happens then.
#[derive(Debug)]
pub(super) struct Rules {
    toward_agent: Direction,
    toward_editor: Direction,
    /// For commands and files of the agent.
    pub(super) actions: OnAction,
    /// The secrets that they must not have.
    pub(super) in_actions: Direction,
    /// What the user should know about the options.
    pub(super) remarks: Vec<String>,
}

/// The detectors of one direction.
#[derive(Debug)]
pub(super) struct Direction {
    pub(super) secrets: Secrets,
    /// Only the exact values, if there are any.
    pub(super) values: Option<Secrets>,
    /// The detectors that block.
    blocking: BTreeSet<String>,
}

impl Direction {
    /// Whether one of these secrets is blocked.
    pub(super) fn blocks(&self, findings: &Findings) -> bool {
        findings.iter().any(|(name, _)| self.blocking.contains(name))
    }
}

/// For which messages detectors are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum For {
    Agent,
    Editor,
    /// Files and commands of the agent. What is shown in the editor may be off, but not this.
    Actions,
}

impl Rules {
    pub(super) fn new(options: &Filter) -> Result<Rules, OptionError> {
        let both = options.without.iter().find(|it| options.detectors.contains(it));
        if let Some(super::DetectorName(name)) = both {
            let why =
                format!("`{name}` is in detectors and in without; remove it from one of them");
            return Err(misused(why));
        }
        let (mut values, mut remarks) = (Vec::new(), Vec::new());
        for name in &options.env {
            let found = values::of_variable(name).map_err(misused)?;
            if found.is_empty() {
                remarks.push(format!("no environment variable with a value fits `{name}`"));
            }
            values.extend(found);
        }
        for path in &options.values {
            let read = values::of_file(path);
            values.extend(read.map_err(|why| OptionError {
                kind: ErrorKind::UnreadableFile,
                why: format!("{}{why}", path.display()),
            })?);
        }
        values.sort_by(|left, right| left.1.cmp(&right.1));
        values.dedup_by(|left, right| left.1 == right.1);
        if values.len() > MAX_VALUES {
            let why = format!(
                "{} values are too many; name files and variables with at most {MAX_VALUES} values together",
                values.len()
            );
            return Err(misused(why));
        }
        Ok(Rules {
            toward_agent: direction(options, &values, For::Agent)?,
            toward_editor: direction(options, &values, For::Editor)?,
            in_actions: direction(options, &values, For::Actions)?,
            actions: options.actions,
            remarks,
        })
    }

    pub(super) fn toward(&self, side: Side) -> &Direction {
        match side {
            Side::Agent => &self.toward_agent,
            Side::Editor => &self.toward_editor,
        }
    }
}

fn misused(why: String) -> OptionError {
    OptionError { kind: ErrorKind::MisusedBuiltIn, why }
}

fn direction(
    options: &Filter,
    values: &[NamedValue],
    purpose: For,
) -> Result<Direction, OptionError> {
    let default = match purpose {
        For::Agent => options.toward_agent,
        For::Editor => options.toward_editor,
        For::Actions => Action::Block,
    };
    let chosen = |own: Option<&Directions>| {
        let own = own.and_then(|own| match purpose {
            For::Agent => own.toward_agent,
            For::Editor => own.toward_editor,
            For::Actions => None,
        });
        own.unwrap_or(default)
    };
    let own = |name: &str| {
        let mut all = options.detector.iter();
        chosen(all.find(|(it, _)| it.0 == name).map(|(_, own)| own))
    };
    let is_listed = |list: &[super::DetectorName], name: &str| list.iter().any(|it| it.0 == name);
    let is_on = |name: &str| {
        (options.detectors.is_empty() || is_listed(&options.detectors, name))
            && !is_listed(&options.without, name)
            && own(name) != Action::Off
    };
    let is_context_on = |name: &str| {
        let is_named =
            is_listed(&options.detectors, name) || options.detector.keys().any(|it| it.0 == name);
        (options.context || is_named)
            && !is_listed(&options.without, name)
            && own(name) != Action::Off
    };
    let mut builder: SecretsBuilder = Secrets::builder().standard(is_on).context(is_context_on);
    let mut blocking: BTreeSet<String> = Secrets::standard_names()
        .into_iter()
        .chain(Secrets::context_names())
        .filter(|name| own(name) == Action::Block)
        .map(str::to_owned)
        .collect();
    let patterns = options.pattern.iter().map(|it| (it, chosen(Some(&it.directions))));
    for (pattern, action) in patterns.filter(|(_, action)| *action != Action::Off) {
        builder = builder
            .pattern(&pattern.name, &pattern.regex, pattern.max)
            .map_err(|why| misused(format!("pattern `{}`: {why}", pattern.name)))?;
        if action == Action::Block {
            blocking.insert(pattern.name.clone());
        }
    }
    let mut only_values = Secrets::builder();
    if default != Action::Off {
        for (name, value) in values {
            let refused = |why| misused(format!("{name}: {why}"));
            builder = builder.value(name, value).map_err(refused)?;
            only_values = only_values.value(name, value).map_err(refused)?;
            if default == Action::Block {
                blocking.insert(name.clone());
            }
        }
    }
    let build = |builder: SecretsBuilder| {
        options.allow.iter().fold(builder, |builder, text| builder.allow(text)).build()
    };
    let has_values = default != Action::Off && !values.is_empty();
    let values = has_values.then(|| build(only_values));
    Ok(Direction { secrets: build(builder), values, blocking })
}
