//! The rules of `permissions`: which actions are allowed, which are denied, and which the user is asked about.
//!
//! The rules decide about an [`Action`] without any effect: they read no messages and write nothing. They read the file
//! system only to resolve symbolic links and to find programs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};

use self::hours::Hours;
use self::url::UrlPattern;
use super::claude;
use super::command::pattern::RunPattern;
use super::command::words::glob;
use super::paths::PathPattern;
use component_base::OptionError;
use component_base::action::{Action, Operation, mcp_name};
use component_base::options::TomlFile;

mod decide;
mod file;
pub(super) mod hours;
pub(super) mod url;

/// What happens with an action. The order is that of strictness: of several decisions, the greatest wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Decision {
    /// The action is allowed, once.
    Allow,
    /// The user decides.
    Ask,
    /// The action is denied.
    Deny,
}

impl Decision {
    /// The decision as it is written in rules: `allow`, `ask` or `deny`.
    pub fn name(self) -> &'static str {
        match self {
            Decision::Allow => "allow",
            Decision::Ask => "ask",
            Decision::Deny => "deny",
        }
    }
}

/// Whether decisions are carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Decisions are carried out.
    #[default]
    Enforce,
    /// Decisions are recorded, and nothing is decided.
    Audit,
}

/// How long the user has to answer, and what happens then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AskLimit {
    /// How long the user has to answer.
    pub after: Duration,
    /// What happens if the user does not answer: [`Decision::Deny`] or [`Decision::Allow`].
    pub then: Decision,
}

/// The decision about an action, and its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The decision.
    pub decision: Decision,
    /// The rule that decided. `None` if no rule matched.
    pub rule: Option<RuleRef>,
    /// Why, in one sentence. It may contain text from the agent.
    pub why: String,
    /// The time limit of the rule for an answer of the user. `None` if the rule has none: then the general limit of the
    /// rules applies.
    pub ask: Option<AskLimit>,
}

/// A reference to a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleRef {
    /// The name of the rule. For an imported rule, its text.
    pub name: Option<String>,
    /// The file of the rule.
    pub file: PathBuf,
    /// The line of the rule in its file.
    pub line: usize,
    /// The message for the user and, where the protocol has room for it, for the agent.
    pub message: Option<String>,
}

/// What a decision depends on beside the action.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// The time, in the time zone of the user.
    pub now: jiff::Zoned,
    /// The names of the agent: the name that it reports, and others by which rules may call it.
    pub agents: Vec<String>,
    /// The home folder of the user.
    pub home: Option<PathBuf>,
    /// The folders in which programs are found, as in `PATH`.
    pub search_path: Vec<PathBuf>,
    /// The folder of the session. Relative paths in rules are relative to it. If it is `None`, they are relative to the
    /// working directory of the action, which an agent can choose for a terminal.
    pub project: Option<PathBuf>,
    /// Whether names of files that differ only in case are the same, as on macOS and Windows.
    pub case_blind: bool,
    /// Whether a command line is read by `cmd.exe` or PowerShell instead of a Unix shell.
    pub windows_shell: bool,
}

impl Surroundings {
    /// The surroundings of this process, now, for an agent with these names.
    pub fn of_system(agents: Vec<String>) -> Surroundings {
        let folder = |name| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
        let path = std::env::var_os("PATH").unwrap_or_default();
        Surroundings {
            now: jiff::Zoned::now(),
            agents,
            home: folder("HOME").or_else(|| folder("USERPROFILE")),
            search_path: std::env::split_paths(&path).collect(),
            project: None,
            case_blind: cfg!(any(windows, target_os = "macos")),
            windows_shell: cfg!(windows),
        }
    }
}

/// A file that rules come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The path of the file.
    pub file: PathBuf,
    /// The SHA-256 of its content, in hexadecimal digits.
    pub sha256: String,
}

impl Source {
    pub(super) fn of(file: &Path, content: &[u8]) -> Source {
        let sha256 = Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
        Source { file: file.to_owned(), sha256 }
    }
}

/// A rule.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rule {
    pub(crate) reference: RuleRef,
    pub(crate) decision: Decision,
    pub(crate) ask: Option<AskLimit>,
    pub(crate) run: Vec<RunPattern>,
    pub(crate) read: Vec<PathPattern>,
    pub(crate) write: Vec<PathPattern>,
    pub(crate) url: Vec<UrlPattern>,
    pub(crate) tool: Vec<String>,
    pub(crate) kind: Vec<String>,
    pub(crate) agent: Vec<String>,
    pub(crate) session: Vec<String>,
    pub(crate) hours: Option<Hours>,
}

impl Rule {
    /// A rule without targets and conditions.
    pub(crate) fn new(reference: RuleRef, decision: Decision) -> Rule {
        Rule {
            reference,
            decision,
            ask: None,
            run: Vec::new(),
            read: Vec::new(),
            write: Vec::new(),
            url: Vec::new(),
            tool: Vec::new(),
            kind: Vec::new(),
            agent: Vec::new(),
            session: Vec::new(),
            hours: None,
        }
    }

    /// Whether the rule names what it is about. A rule without targets is about every action that meets its conditions.
    fn has_targets(&self) -> bool {
        !(self.run.is_empty()
            && self.read.is_empty()
            && self.write.is_empty()
            && self.url.is_empty())
    }

    fn has_conditions(&self) -> bool {
        let lists = [&self.tool, &self.kind, &self.agent, &self.session];
        lists.iter().any(|it| !it.is_empty()) || self.hours.is_some()
    }

    fn paths(&self, writes: bool) -> &[PathPattern] {
        if writes { &self.write } else { &self.read }
    }

    /// The rule in a sentence.
    fn label(&self) -> String {
        let place = format!("{}:{}", self.reference.file.display(), self.reference.line);
        match &self.reference.name {
            Some(name) => format!("rule `{name}` ({place})"),
            None => format!("rule in {place}"),
        }
    }

    /// Whether all conditions of the rule hold.
    fn applies(&self, action: &Action, surroundings: &Surroundings) -> bool {
        let any = |patterns: &[String], names: &[&str]| {
            let fits = |pattern: &String| {
                names.iter().any(|name| glob(&pattern.to_lowercase(), &name.to_lowercase()))
            };
            patterns.is_empty() || patterns.iter().any(fits)
        };
        let agents: Vec<&str> = surroundings.agents.iter().map(String::as_str).collect();
        let fits_session = |pattern: &String| glob(pattern, &action.session);
        any(&self.agent, &agents)
            && (self.session.is_empty() || self.session.iter().any(fits_session))
            && self.hours.is_none_or(|hours| hours.contains(&surroundings.now))
            && self.fits_tool(action)
            && self.fits_kind(action)
    }

    fn fits_tool(&self, action: &Action) -> bool {
        if self.tool.is_empty() {
            return true;
        }
        let mut names = vec![action.tool.common.clone()];
        names.extend(action.tool.native.clone());
        for operation in &action.operations {
            if let Operation::Mcp { server, tool } = operation {
                // What is called decides. How the agent names it can only make the decision stricter.
                if self.decision == Decision::Allow {
                    names.clear();
                }
                names.push(format!("mcp__{server}__{tool}"));
                names.push(mcp_name(server, tool));
            }
        }
        self.tool.iter().any(|pattern| names.iter().any(|name| glob(pattern, name)))
    }

    /// Whether the kind of the tool call fits. A rule that allows also looks at what the action does: an agent may call
    /// anything a read.
    fn fits_kind(&self, action: &Action) -> bool {
        if self.kind.is_empty() {
            return true;
        }
        let has = |kind: &str| self.kind.iter().any(|it| it == kind);
        let reported = action.kind.and_then(|kind| serde_json::to_value(kind).ok());
        let reported = reported.as_ref().and_then(serde_json::Value::as_str).is_some_and(has);
        let mut kinds = action.operations.iter().map(|operation| match operation {
            Operation::Run(_) => has("execute"),
            Operation::Read(_) => has("read") || has("search"),
            Operation::Write(_) => has("edit") || has("move"),
            Operation::Delete(_) => has("delete") || has("move"),
            Operation::Fetch(_) => has("fetch"),
            Operation::Mcp { .. } => has("other"),
        });
        match self.decision {
            Decision::Allow => reported && kinds.all(|it| it),
            _ => reported || kinds.any(|it| it),
        }
    }
}

/// The rules of a file, and those that it imports.
#[derive(Debug, Clone)]
pub struct Rules {
    mode: Mode,
    default: Decision,
    unattended: Option<AskLimit>,
    import_claude: bool,
    rules: Vec<Arc<Rule>>,
    sources: Vec<Source>,
    notes: Vec<String>,
}

impl Rules {
    /// Reads a file with rules. Imported rules are not read yet: see [`Rules::import`].
    ///
    /// # Errors
    /// The first thing that is wrong in the file, with its line and a hint.
    pub fn load(path: &Path) -> Result<Rules, OptionError> {
        file::read(&TomlFile::read(path)?)
    }

    /// Reads rules from a text.
    ///
    /// # Errors
    /// The first thing that is wrong in the text, with its line and a hint.
    pub fn parse(path: &Path, text: &str) -> Result<Rules, OptionError> {
        file::read(&TomlFile::new(path, text))
    }

    /// These rules, and the imported rules of a project behind them. Without `import` in the rules, nothing is read.
    ///
    /// # Errors
    /// A settings file of the project cannot be read or is not JSON.
    pub fn import(&self, project: &Path) -> Result<Rules, OptionError> {
        let mut rules = self.clone();
        if self.import_claude {
            let imported = claude::read(project)?;
            rules.rules.extend(imported.rules.into_iter().map(Arc::new));
            rules.sources.extend(imported.sources);
            rules.notes.extend(imported.notes);
        }
        Ok(rules)
    }

    /// Decides about an action.
    pub fn decide(&self, action: &Action, surroundings: &Surroundings) -> Verdict {
        decide::decide(self, action, surroundings)
    }

    /// Whether decisions are carried out.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The decision about actions that no rule matches.
    pub fn default_decision(&self) -> Decision {
        self.default
    }

    /// How long the user has to answer if the rule that asks does not say it, and what happens then. `None`: as long as
    /// it takes.
    pub fn unattended(&self) -> Option<AskLimit> {
        self.unattended
    }

    /// Whether rules of the project are imported.
    pub fn imports(&self) -> bool {
        self.import_claude
    }

    /// How many rules there are.
    pub fn count(&self) -> usize {
        self.rules.len()
    }

    /// The files that the rules come from.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// What could not be imported: each with file, line and reason.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}
