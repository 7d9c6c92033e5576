//! The component `permissions`: decides about the actions of an agent by rules.

mod claude;
mod command;
mod coverage;
mod enforcer;
mod explain;
mod grants;
mod imported;
mod judgement;
mod paths;
mod question;
mod records;
pub mod rules;
mod unasked;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use acp_proxy::{Call, Context, Json, Message, Proxy, Side};
use acp_wire::{ErrorKind, printable};
use clap::{Parser, ValueEnum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use component_base::agents::KnownAgent;
use component_base::audit::{Audit, AuditOptions, Event, OnFailure, Record};
use component_base::mentions::Mentions;
use component_base::options::Interval;
use component_base::sessions::Sessions;
use component_base::{BuiltIn, OptionError};

pub(crate) use command::may_run;
pub(crate) use paths::lexical;

use enforcer::{Enforcer, Policy};
use imported::Imported;
use records::NAME;
use rules::{AskLimit, Decision, Mode, Rules};

/// Allows, denies or asks about what the agent wants to do, by rules in a TOML file.
///
/// The rules decide about permission requests of the agent, about files and terminals that it uses through the
/// editor, and about calls of MCP tools that pass the chain. What the agent does itself without asking cannot be
/// stopped: it is recorded, and `conductor status` tells what this means for the agent.
#[derive(Debug, Clone, Default, Parser, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Permissions {
    /// The file with the rules. Required.
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,

    /// `enforce` carries the decisions out. `audit` decides nothing, and writes what would have been decided.
    /// Default: the `mode` of the rules, or `enforce`.
    #[arg(long, value_name = "MODE", hide_possible_values = true)]
    mode: Option<ModeOption>,

    /// Deny a request that the user has not answered after this time, such as 5m. Default: the `unattended` of the rules, or no limit.
    #[arg(long, value_name = "TIME")]
    unattended: Option<Interval>,

    /// The file for the audit log, with optional settings: FILE,on_failure=warn,key_file=FILE. Default: no log.
    #[arg(long, value_name = "FILE")]
    audit: Option<AuditOptions>,

    /// How the agent learns why a permission request was denied. ACP has no room for it in the answer. `user`: only
    /// the user sees the reason. `next-prompt`: the reason is also added to the next prompt.
    #[arg(long, value_name = "WAY", default_value = "user", hide_possible_values = true)]
    tell: Tell,

    /// Print the decision about a command line and the rule that makes it, and exit. Prefixes name other
    /// actions: read:FILE, write:FILE, delete:FILE, fetch:URL, tool:NAME. `-` reads one action from each line of
    /// standard input. Only for `conductor component`.
    #[arg(long, value_name = "ACTION")]
    explain: Option<String>,

    /// The working directory of the session for --explain. Default: the current directory.
    #[arg(long, value_name = "DIR", requires = "explain")]
    explain_in: Option<PathBuf>,

    /// The name of the agent for --explain.
    #[arg(long, value_name = "NAME", requires = "explain")]
    explain_agent: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum ModeOption {
    Enforce,
    Audit,
}

#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
enum Tell {
    #[default]
    User,
    NextPrompt,
}

impl BuiltIn for Permissions {
    const NAME: &'static str = NAME;
    const GUARD: bool = true;

    fn mentions(&self, folders: &[&Path]) -> Mentions {
        let mut mentions = Mentions::default();
        let rules =
            folders.iter().filter_map(|it| Rules::load(&it.join(self.rules.as_ref()?)).ok());
        if rules.into_iter().any(|it| it.imports()) {
            let files = folders.iter().flat_map(|it| claude::FILES.map(|name| it.join(name)));
            files.for_each(|path| drop(mentions.add_file(&path)));
        }
        mentions
    }

    fn check(&self) -> Result<(), OptionError> {
        if self.explain.is_some() {
            return Err(OptionError {
                kind: ErrorKind::MisusedBuiltIn,
                why: "--explain is only for `conductor component permissions`".to_owned(),
            });
        }
        let rules = self.load()?;
        if let Some(options) = self.audit_options(self.mode(&rules)) {
            let failed = |why| OptionError { kind: ErrorKind::UnreadableFile, why };
            Audit::check(&options).map_err(failed)?;
        }
        Ok(())
    }

    fn report(&self) -> Option<Result<String, OptionError>> {
        let what = self.explain.as_deref()?;
        Some(self.load().and_then(|rules| {
            let cwd = self.explain_in.clone().or_else(|| std::env::current_dir().ok());
            let agent = self.explain_agent.clone().unwrap_or_default();
            explain::report(&rules, what, &cwd.unwrap_or_default(), agent)
        }))
    }

    fn build(&self) -> acp_proxy::Component {
        let enforcer = Arc::new(self.enforcer());
        enforcer.proxy().into()
    }
}

impl Permissions {
    fn load(&self) -> Result<Rules, OptionError> {
        match &self.rules {
            Some(path) => Rules::load(path),
            None => Err(OptionError {
                kind: ErrorKind::MisusedBuiltIn,
                why: "it has no rules; name a file with --rules FILE".to_owned(),
            }),
        }
    }

    fn mode(&self, rules: &Rules) -> Mode {
        match self.mode {
            Some(ModeOption::Enforce) => Mode::Enforce,
            Some(ModeOption::Audit) => Mode::Audit,
            None => rules.mode(),
        }
    }

    /// The options of the audit log. In mode `audit`, an action is not denied because it cannot be recorded.
    fn audit_options(&self, mode: Mode) -> Option<AuditOptions> {
        let mut options = self.audit.clone()?;
        if mode == Mode::Audit {
            options.on_failure.get_or_insert(OnFailure::Warn);
        }
        Some(options)
    }

    fn enforcer(&self) -> Enforcer {
        let rules = self.load();
        let mode = match &rules {
            Ok(rules) => self.mode(rules),
            Err(_) if self.mode == Some(ModeOption::Audit) => Mode::Audit,
            Err(_) => Mode::Enforce,
        };
        let by_option = self.unattended.map(|it| AskLimit { after: it.0, then: Decision::Deny });
        let unattended = by_option.or_else(|| rules.as_ref().ok()?.unattended());
        let options = self.audit_options(mode);
        let audit = options.as_ref().map(Audit::open).transpose();
        let is_required = options.and_then(|it| it.on_failure) != Some(OnFailure::Warn);
        // The files were checked before the chain started. If they have become unreadable, everything is denied.
        let policy = match (rules, &audit) {
            (Err(error), _) => Policy::Broken(error.why),
            (Ok(_), Err(why)) if is_required => Policy::Broken(why.clone()),
            (Ok(rules), _) => Policy::Rules(rules),
        };
        let audit = audit.unwrap_or_default();
        if let Some(audit) = &audit {
            let sources = rules_of(&policy);
            let open = Record::new(Event::Open, NAME).detail("rules", sources);
            // The first decision tells if the log cannot be written.
            let _ = audit.record(open);
        }
        Enforcer {
            policy,
            imported: Imported::default(),
            mode,
            unattended,
            tells_agent: self.tell == Tell::NextPrompt,
            audit,
            agent: KnownAgent::default(),
            sessions: Sessions::default(),
            counts: Mutex::default(),
            offer: Mutex::default(),
            questions: Default::default(),
        }
    }
}

impl Enforcer {
    fn proxy(self: Arc<Self>) -> Proxy {
        let proxy = match self.mode {
            Mode::Enforce => Proxy::new(NAME).strict(),
            // It decides nothing, so it also lets pass what it cannot read.
            Mode::Audit => Proxy::new(NAME),
        };
        let proxy = self.agent.watch(proxy);
        let proxy = self.sessions.watch(proxy);
        let proxy = self.clone().watch_sessions(proxy);
        let (on_permission, on_mcp, on_report) = (self.clone(), self.clone(), self.clone());
        let (on_end, status) = (self.clone(), self.clone());
        let mut proxy = proxy
            .on_permission(async move |permission, next| {
                on_permission.permission(permission, next).await
            })
            .on_mcp_request(async move |request, next| on_mcp.mcp(request, next).await)
            .on_tool_call(move |call, context| on_report.reported(call, context))
            .on_end(async move |_| on_end.record_all_counts())
            .status(move || status.status());
        for method in ["fs/read_text_file", "fs/write_text_file", "terminal/create"] {
            let enforcer = self.clone();
            proxy = proxy.on_raw_request(Side::Agent, method, async move |call, next| {
                enforcer.call(call, next).await
            });
        }
        if self.tells_agent {
            let enforcer = self.clone();
            proxy = proxy.on_raw_request(
                Side::Editor,
                "session/prompt",
                async move |call: Call, next| next.run(enforcer.with_reasons(call)).await,
            );
        }
        proxy.observe(move |from, message| self.observe(from, message))
    }

    /// Follows the MCP servers of each session, and whether the agent repeats an earlier conversation.
    fn watch_sessions(self: Arc<Self>, proxy: Proxy) -> Proxy {
        ["session/new", "session/load", "session/resume", "session/fork"].into_iter().fold(
            proxy,
            |proxy, method| {
                let enforcer = self.clone();
                proxy.on_raw_request(Side::Editor, method, async move |call: Call, next| {
                    let params = call.params.clone().unwrap_or(Json::EMPTY_OBJECT);
                    let servers = server_names(&params);
                    let is_known = method != "session/fork";
                    let asked = text(&params, "sessionId").filter(|_| is_known);
                    let set = |id: &str, is_loading| {
                        enforcer.sessions.with(id, |it| {
                            it.state.is_loading = is_loading;
                            it.state.servers.clone_from(&servers);
                        });
                    };
                    if let Some(id) = &asked {
                        set(id, true);
                    }
                    let result = next.run(call).await;
                    let id = result.as_ref().ok().and_then(|it| text(it, "sessionId")).or(asked);
                    if let Some(id) = id {
                        set(&id, false);
                    }
                    let cwd = text(&params, "cwd").unwrap_or_default();
                    enforcer.import(Path::new(&cwd), next.context());
                    result
                })
            },
        )
    }

    /// Reads the rules of a project, logs what cannot be imported, and records a change.
    fn import(&self, project: &Path, context: &Context) {
        if let Policy::Rules(rules) = &self.policy
            && !project.as_os_str().is_empty()
        {
            let (notes, changed) = self.imported.refresh(rules, project);
            notes.iter().for_each(|note| context.log(printable::one_line(note)));
            if let Some(sources) = changed
                && let Err(why) = self.record(records::rules_changed(project, &sources))
            {
                context.log(why.to_string());
            }
        }
    }

    fn observe(&self, from: Side, message: &Message) {
        let (call, is_request) = match message {
            Message::Request { call, .. } if from == Side::Editor => (call, true),
            Message::Notification(call) if from == Side::Editor => (call, false),
            _ => return,
        };
        let Some(params) = &call.params else { return };
        if is_request && call.is("initialize") {
            let offer = coverage::EditorOffer::of(params);
            *self.offer.lock().unwrap_or_else(PoisonError::into_inner) = offer;
            // A new agent knows nothing of what was allowed.
            self.sessions.for_each(|_, it| it.state.grants.begin_turn());
            return;
        }
        let is_prompt = is_request && call.is("session/prompt");
        let is_end = is_request && (call.is("session/close") || call.is("session/delete"));
        let is_cancel = !is_request && call.is("session/cancel");
        if !is_prompt && !is_end && !is_cancel {
            return;
        }
        let Some(session) = text(params, "sessionId") else { return };
        if is_cancel {
            self.sessions.with_known(&session, |it| it.state.cancelled.notify_waiters());
            return;
        }
        self.record_counts(&session);
        self.sessions.with_known(&session, |it| {
            it.state.grants.begin_turn();
            it.state.has_prompt = is_prompt;
        });
    }

    /// The prompt, with the reasons for what was denied before it. They are where [`acp_proxy::Prompt::add_context`] puts a
    /// text. It is not used, because a strict proxy would refuse prompts with content that it does not know.
    fn with_reasons(&self, call: Call) -> Call {
        let Some(params) = &call.params else { return call };
        let session = text(params, "sessionId").unwrap_or_default();
        let reasons =
            self.sessions.with_known(&session, |it| std::mem::take(&mut it.state.reasons));
        let reasons = reasons.unwrap_or_default();
        let Some(prompt) =
            params.member("prompt").filter(|it| it.is_array() && !reasons.is_empty())
        else {
            return call;
        };
        let note = format!("A policy has denied actions of yours.\n{}", reasons.join("\n"));
        let block = Json::object([
            ("type", Some(Json::string("text"))),
            ("text", Some(Json::string(&note))),
        ]);
        let mut blocks = prompt.elements();
        let is_text = |it: &&Json| it.member("type").is_some_and(|kind| kind.equals_text("text"));
        let first = blocks.iter().find(is_text).and_then(|it| text(it, "text"));
        let is_command = first.is_some_and(|it| it.starts_with('/'));
        blocks.insert(if is_command { blocks.len() } else { 0 }, block);
        let params = params.with_at(&["prompt"], Some(&Json::array(&blocks)));
        Call { params: Some(params), ..call }
    }

    fn record_all_counts(&self) {
        let mut sessions = Vec::new();
        self.sessions.for_each(|id, _| sessions.push(id.to_owned()));
        sessions.iter().for_each(|session| self.record_counts(session));
    }

    /// Lines for `conductor status`.
    fn status(&self) -> Vec<String> {
        let counts = *self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let offer = *self.offer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lines = match (&self.policy, self.mode) {
            (Policy::Broken(why), _) => vec![format!("denies everything: {why}")],
            (Policy::Rules(_), Mode::Enforce) => vec![format!(
                "{} allowed, {} denied, {} asked ({} without an answer)",
                counts.allowed, counts.denied, counts.asked, counts.timed_out
            )],
            (Policy::Rules(_), Mode::Audit) => vec![format!(
                "mode audit: decides nothing; would have allowed {}, denied {}, asked about {}",
                counts.allowed, counts.denied, counts.asked
            )],
        };
        if counts.without_asking > 0 {
            lines.push(format!(
                "{} actions without asking, {} of them against the rules",
                counts.without_asking, counts.against_rules
            ));
        }
        lines.extend(coverage::lines(self.agent.kind(), offer));
        lines.extend(self.audit.iter().flat_map(Audit::status));
        lines
    }
}

/// The files that the rules come from, for the audit log.
fn rules_of(policy: &Policy) -> serde_json::Value {
    match policy {
        Policy::Rules(rules) => {
            let source = |it: &rules::Source| serde_json::json!({ "file": it.file.to_string_lossy(), "sha256": it.sha256 });
            rules.sources().iter().map(source).collect()
        }
        Policy::Broken(why) => serde_json::json!({ "error": why }),
    }
}

fn text(json: &Json, key: &str) -> Option<String> {
    json.member(key)?.text().map(|text| text.into_owned())
}

/// The names of the MCP servers that a session declares.
fn server_names(params: &Json) -> Vec<String> {
    const MAX_SERVERS: usize = 256;
    let servers = params.member("mcpServers").unwrap_or(Json::NULL).elements();
    servers.iter().take(MAX_SERVERS).filter_map(|it| text(it, "name")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use component_base::action::Action;
    use component_base::sessions::DEFAULT_LIMIT;

    #[test]
    fn the_memory_for_sessions_is_bounded() {
        let rules = Rules::parse(Path::new("rules.toml"), "default = \"ask\"").expect("valid");
        let mut enforcer = Permissions::default().enforcer();
        enforcer.policy = Policy::Rules(rules);
        for number in 0..DEFAULT_LIMIT + 100 {
            let session = format!("s{number}");
            let arguments = serde_json::json!({});
            let action = enforcer.with_facts(&session, |facts| {
                Action::of_mcp_call(&session, "kit", "echo", arguments, facts)
            });
            enforcer.sessions.with(&session, |it| it.state.grants.allowed(&action));
        }
        assert!(enforcer.sessions.count() <= DEFAULT_LIMIT);
    }

    #[test]
    fn the_status_tells_what_cannot_be_stopped() {
        let mut enforcer = Permissions::default().enforcer();
        assert!(enforcer.status()[0].starts_with("denies everything: "), "{:?}", enforcer.status());
        let rules = Rules::parse(Path::new("rules.toml"), "default = \"ask\"").expect("valid");
        enforcer.policy = Policy::Rules(rules);
        enforcer.count(|counts| (counts.without_asking, counts.against_rules) = (3, 1));
        assert_eq!(
            enforcer.status(),
            [
                "0 allowed, 0 denied, 0 asked (0 without an answer)",
                "3 actions without asking, 1 of them against the rules",
                "cannot stop: what this agent does without asking is not known",
            ]
        );
        enforcer.mode = Mode::Audit;
        assert!(enforcer.status()[0].starts_with("mode audit: decides nothing"));
    }
}
