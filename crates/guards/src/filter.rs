//! The component `filter`: redacts or blocks secrets in all messages.
//!
//! [`Filter`] has the options, `rules` builds the detectors from them, and `values` reads the exact values. `guard` sees every
//! message and decides, `strings` finds the strings of a message, `places` knows which of them are identifiers or streams,
//! `writer` knows which sub-agent a stream belongs to, `streams` holds the state of streamed texts, and `report` counts what
//! was found.

mod guard;
mod options;
mod places;
mod report;
mod rules;
mod streams;
mod strings;
mod values;
mod writer;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use acp_proxy::Proxy;
use acp_wire::ErrorKind;
use clap::Parser;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use component_base::audit::{Audit, AuditOptions};
use component_base::{BuiltIn, OptionError};

use guard::Guard;
use options::{Action, DetectorName, Directions, OnAction, Pattern};
use report::Report;
use rules::Rules;

/// Redacts or blocks secrets, toward the agent and toward the editor.
///
/// Finds the tokens of well-known services, private keys, the values of environment variables and files that you name, and
/// your own patterns: in prompts, answers, files, terminal output, tool calls and errors, also if a secret is cut into
/// streamed chunks. A secret becomes `[redacted:NAME]`. A command or a file that the agent writes is never changed: it is
/// refused.
#[derive(Debug, Clone, Parser, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Filter {
    /// Use only these detectors of well-known secrets. Default: all. Repeatable, or separated by commas.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    detectors: Vec<DetectorName>,

    /// Do not use these detectors. Repeatable, or separated by commas.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    without: Vec<DetectorName>,

    /// Also find values after names such as `password =`, `Authorization:` and `curl -u`, and passwords in addresses. These
    /// detectors err more often.
    #[arg(long)]
    context: bool,

    /// Also find what matches a regular expression. A file can set more: `[[pattern]]` with name, regex, max,
    /// toward_agent and toward_editor. Repeatable.
    #[arg(long, value_name = "REGEX")]
    pattern: Vec<Pattern>,

    /// Also find the value of an environment variable. `*` in the name stands for any text: `*_TOKEN`. Repeatable.
    #[arg(long, value_name = "NAME")]
    env: Vec<String>,

    /// Also find the values in a file: one in each line, or NAME=VALUE, or NAME: VALUE. Repeatable.
    #[arg(long, value_name = "FILE")]
    values: Vec<PathBuf>,

    /// A text that is not secret, whatever the detectors say. Repeatable.
    #[arg(long, value_name = "TEXT")]
    allow: Vec<String>,

    /// What happens to a secret on its way to the agent: `redact` replaces it, `block` refuses the request or the answer,
    /// `off` lets it pass.
    #[arg(long, value_name = "ACTION", default_value = "redact", hide_possible_values = true)]
    toward_agent: Action,

    /// What happens to a secret on its way to the editor: `redact`, `block` or `off`. Updates cannot be refused: there,
    /// `block` redacts.
    #[arg(long, value_name = "ACTION", default_value = "redact", hide_possible_values = true)]
    toward_editor: Action,

    /// What happens if the agent writes a file, runs a command or calls an MCP tool with a secret. These are never redacted.
    /// `block` refuses the request, `warn` only reports it.
    #[arg(long, value_name = "ACTION", default_value = "block", hide_possible_values = true)]
    actions: OnAction,

    /// Tell the user in the chat, at the end of a turn, what was redacted in it.
    #[arg(long)]
    notice: bool,

    /// Record in an audit log what was redacted and blocked, without the secrets.
    #[arg(long, value_name = "FILE")]
    audit: Option<AuditOptions>,

    /// What happens to the secrets of one detector.
    #[arg(skip)]
    detector: std::collections::BTreeMap<DetectorName, Directions>,

    /// The rules and the counts, which survive a restart of the component.
    #[arg(skip)]
    #[serde(skip)]
    running: Arc<OnceLock<Running>>,
}

/// What all instances of one component share.
#[derive(Debug, Clone)]
struct Running {
    rules: Arc<Rules>,
    report: Report,
    /// Whether an instance was built before.
    was_built: Arc<AtomicBool>,
}

impl Default for Filter {
    fn default() -> Filter {
        Filter {
            detectors: Vec::new(),
            without: Vec::new(),
            context: false,
            pattern: Vec::new(),
            env: Vec::new(),
            values: Vec::new(),
            allow: Vec::new(),
            toward_agent: Action::Redact,
            toward_editor: Action::Redact,
            actions: OnAction::Block,
            notice: false,
            audit: None,
            detector: std::collections::BTreeMap::new(),
            running: Arc::default(),
        }
    }
}

impl Filter {
    fn start(&self) -> Result<Running, OptionError> {
        let rules = Rules::new(self)?;
        let audit = self.audit.as_ref().map(Audit::open).transpose();
        let audit = audit.map_err(|why| OptionError { kind: ErrorKind::UnwritableFile, why })?;
        let report = Report::new(audit, rules.remarks.clone());
        Ok(Running { rules: Arc::new(rules), report, was_built: Arc::default() })
    }
}

impl BuiltIn for Filter {
    const NAME: &'static str = "filter";
    const GUARD: bool = true;

    fn check(&self) -> Result<(), OptionError> {
        if self.running.get().is_none() {
            let _ = self.running.set(self.start()?);
        }
        Ok(())
    }

    fn build(&self) -> acp_proxy::Component {
        // The check has built the rules. Without them nothing may pass.
        let Running { rules, report, was_built } = self.running.get_or_init(|| {
            self.start().unwrap_or_else(|error| panic!("filter cannot start: {}", error.why))
        });
        let status = report.clone();
        // Conductor sets the variable for a program that it starts again.
        let is_restarted = was_built.swap(true, Ordering::Relaxed)
            || std::env::var_os("CONDUCTOR_RESTARTED").is_some();
        let guard = Guard::new(rules.clone(), report.clone(), self.notice, is_restarted);
        let guard = Mutex::new(guard);
        Proxy::new(Filter::NAME)
            .rewrite(move |from, message, ahead| {
                let mut guard = guard.lock().unwrap_or_else(PoisonError::into_inner);
                guard.on_message(from, message, ahead)
            })
            .status(move || status.lines())
            .into()
    }
}
