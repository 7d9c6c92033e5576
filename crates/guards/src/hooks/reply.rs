//! What a hook has answered: reads its exit status and its output, and combines the answers of several hooks.

use std::time::Duration;

use acp_wire::ErrorKind;
use serde_json::Value;

use super::event::{BACKGROUND_TIME, Contract, Event};

/// How a hook ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It exited with this status.
    Status(i32),
    /// It has no result, for this reason: its program cannot start, or a signal ended it.
    Failed(String),
    /// The time limit ended it.
    TimedOut,
    /// This component could not start it, for this reason. The hook is not to blame, so that a guard must not open.
    NotStarted(String),
}

/// What a hook has left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HookOutput {
    pub(crate) ending: Ending,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl HookOutput {
    /// Nothing but this ending.
    pub(crate) fn of(ending: Ending) -> HookOutput {
        HookOutput { ending, stdout: String::new(), stderr: String::new() }
    }
}

/// A decision about a tool call or a prompt. The later one is the stricter one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Decision {
    Allow,
    Ask,
    Deny,
}

/// What one hook has answered, or several together.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Reply {
    pub(crate) decision: Option<Decision>,
    /// The reason for the decision.
    pub(crate) reason: Option<String>,
    /// The arguments that the tool is to be called with instead.
    pub(crate) updated_input: Option<Value>,
    /// The result that the agent is to see instead.
    pub(crate) updated_output: Option<Value>,
    /// Texts for the model.
    pub(crate) context: Vec<String>,
    /// Texts for the user.
    pub(crate) messages: Vec<String>,
    /// The whole turn is to stop, for this reason.
    pub(crate) stop: Option<String>,
    /// Why the hook has failed. The decision does not contain it.
    pub(crate) failure: Option<String>,
    /// The kind of the error, if the decision is a denial that no hook has made.
    pub(crate) kind: Option<ErrorKind>,
}

impl Reply {
    fn failed(why: impl Into<String>) -> Reply {
        Reply { failure: Some(why.into()), ..Reply::default() }
    }

    /// A denial that no hook has decided.
    pub(crate) fn denied(reason: &str) -> Reply {
        let (decision, reason) = (Some(Decision::Deny), Some(reason.to_owned()));
        Reply { decision, reason, ..Reply::default() }
    }

    fn decide(&mut self, decision: Decision, reason: Option<String>) {
        if self.decision.is_none_or(|it| it < decision) {
            self.decision = Some(decision);
            self.reason = reason;
        }
    }

    /// Reads what a hook has left behind.
    pub(crate) fn read(contract: Contract, event: Event, output: &HookOutput) -> Reply {
        let stderr = output.stderr.trim();
        match &output.ending {
            Ending::Failed(why) | Ending::NotStarted(why) => Reply::failed(why),
            Ending::TimedOut => Reply::failed("it did not end in time"),
            Ending::Status(0) => Reply::of_stdout(contract, event, output.stdout.trim()),
            Ending::Status(2) => match (contract, stderr) {
                (Contract::Codex, "") => {
                    Reply::failed("it exited with status 2 and wrote no reason to standard error")
                }
                _ => Reply::blocked(contract, event, stderr),
            },
            Ending::Status(status) if stderr.is_empty() => {
                Reply::failed(format!("it exited with status {status}"))
            }
            Ending::Status(status) => {
                Reply::failed(format!("it exited with status {status}: {stderr}"))
            }
        }
    }

    /// Exit status 2, or a failure that counts as such.
    pub(crate) fn blocked(contract: Contract, event: Event, reason: &str) -> Reply {
        let mut reply = Reply::default();
        let text = || (!reason.is_empty()).then(|| reason.to_owned());
        match event {
            Event::PreToolUse | Event::UserPromptSubmit | Event::Stop => {
                reply.decide(Decision::Deny, text());
            }
            Event::PermissionRequest if contract == Contract::Codex => {
                reply.decide(Decision::Deny, text());
            }
            Event::PostToolUse | Event::PostToolUseFailure => reply.context.extend(text()),
            Event::SessionStart => reply.messages.extend(text()),
            Event::PermissionRequest
            | Event::Notification
            | Event::StopFailure
            | Event::PreCompact
            | Event::PostCompact
            | Event::SessionEnd
            | Event::Interrupt => {
                let why = "it exited with status 2, which blocks nothing at this event";
                let text = if reason.is_empty() { String::new() } else { format!(": {reason}") };
                return Reply::failed(format!("{why}{text}"));
            }
        }
        reply
    }

    fn of_stdout(contract: Contract, event: Event, stdout: &str) -> Reply {
        if background_time(stdout.as_bytes()).is_some() {
            return Reply::default();
        }
        if stdout.starts_with('{') {
            return match serde_json::from_str(stdout) {
                Ok(json) => Reply::of_json(contract, event, &json),
                Err(error) => Reply::failed(format!("its output is not JSON: {error}")),
            };
        }
        let mut reply = Reply::default();
        if matches!(event, Event::UserPromptSubmit | Event::SessionStart) && !stdout.is_empty() {
            reply.context.push(stdout.to_owned());
        }
        reply
    }

    fn of_json(contract: Contract, event: Event, json: &Value) -> Reply {
        let mut reply = Reply::default();
        let is_codex_tool = contract == Contract::Codex && event == Event::PreToolUse;
        if !json["continue"].is_null() && !json["continue"].is_boolean() {
            return Reply::failed("its continue is neither true nor false");
        }
        if json["continue"] == Value::Bool(false) {
            if is_codex_tool {
                return Reply::failed("Codex does not accept continue: false at PreToolUse");
            }
            reply.stop = Some(text(json, "stopReason").unwrap_or_default());
        }
        reply.messages.extend(text(json, "systemMessage"));
        if let Err(why) = reply.read_decision(contract, event, json) {
            return Reply::failed(why);
        }
        let specific = &json["hookSpecificOutput"];
        if !specific.is_null()
            && let Err(why) = reply.read_specific(contract, event, specific)
        {
            return Reply::failed(why);
        }
        reply
    }

    /// Reads the members `decision` and `reason`.
    fn read_decision(
        &mut self,
        contract: Contract,
        event: Event,
        json: &Value,
    ) -> Result<(), String> {
        let reason = text(json, "reason");
        match (json["decision"].as_str(), event) {
            (None, _) if json["decision"].is_null() => {}
            (Some("block" | "deny"), Event::PostToolUse | Event::PostToolUseFailure) => {
                self.context.extend(reason);
            }
            (Some("block" | "deny"), _) => self.decide(Decision::Deny, reason),
            (Some("approve" | "allow"), Event::PreToolUse) if contract == Contract::Codex => {
                return Err("Codex does not accept decision: approve at PreToolUse".to_owned());
            }
            (Some("approve" | "allow"), Event::PreToolUse | Event::PermissionRequest) => {
                self.decide(Decision::Allow, reason);
            }
            (Some("approve" | "allow"), _) => {}
            (Some("ask"), Event::PreToolUse) => self.decide(Decision::Ask, reason),
            _ => return Err("its decision is neither approve nor block".to_owned()),
        }
        Ok(())
    }

    /// Reads the member `hookSpecificOutput`.
    fn read_specific(
        &mut self,
        contract: Contract,
        event: Event,
        json: &Value,
    ) -> Result<(), String> {
        match json["hookEventName"].as_str() {
            Some(name) if name == event.name() => {}
            Some(name) => {
                return Err(format!(
                    "its hookSpecificOutput is for {name}, and the event is {}",
                    event.name()
                ));
            }
            None => return Err("its hookSpecificOutput has no hookEventName".to_owned()),
        }
        self.context.extend(text(json, "additionalContext"));
        match event {
            Event::PreToolUse => self.read_tool_decision(contract, json)?,
            Event::PermissionRequest => self.read_permission(json)?,
            Event::PostToolUse => {
                let output = ["updatedToolOutput", "updatedMCPToolOutput"];
                let output = output.iter().map(|name| &json[*name]).find(|it| !it.is_null());
                self.updated_output = output.cloned();
            }
            _ => {}
        }
        Ok(())
    }

    fn read_tool_decision(&mut self, contract: Contract, json: &Value) -> Result<(), String> {
        let input = match &json["updatedInput"] {
            Value::Null => None,
            input @ Value::Object(_) => Some(input.clone()),
            _ => return Err("its updatedInput is not an object".to_owned()),
        };
        let reason = text(json, "permissionDecisionReason");
        let is_codex = contract == Contract::Codex;
        match json["permissionDecision"].as_str() {
            None if json["permissionDecision"].is_null() => {}
            Some("deny") => self.decide(Decision::Deny, reason),
            Some("ask" | "defer") if is_codex => {
                return Err("Codex does not accept permissionDecision: ask".to_owned());
            }
            Some("ask" | "defer") => self.decide(Decision::Ask, reason),
            Some("allow") if is_codex && input.is_none() => {
                let why = "Codex does not accept permissionDecision: allow without updatedInput";
                return Err(why.to_owned());
            }
            Some("allow") => self.decide(Decision::Allow, reason),
            _ => return Err("its permissionDecision is not allow, deny, ask or defer".to_owned()),
        }
        self.updated_input = input;
        Ok(())
    }

    fn read_permission(&mut self, json: &Value) -> Result<(), String> {
        let decision = &json["decision"];
        if decision.is_null() {
            return Ok(());
        }
        let message = text(decision, "message");
        match decision["behavior"].as_str() {
            Some("allow") => {
                let input = &decision["updatedInput"];
                if !input.is_null() && !input.is_object() {
                    return Err("its updatedInput is not an object".to_owned());
                }
                self.decide(Decision::Allow, message);
                self.updated_input = Some(input).filter(|it| it.is_object()).cloned();
            }
            Some("deny") => {
                if decision["interrupt"] == Value::Bool(true) {
                    self.stop = Some(message.clone().unwrap_or_default());
                }
                self.decide(Decision::Deny, message);
            }
            _ => return Err("the behavior of its decision is neither allow nor deny".to_owned()),
        }
        Ok(())
    }

    /// Combines the answers of several hooks, in the order of their configuration. The strictest decision wins, with
    /// the reasons of all hooks that have made it. Only hooks that allow the call, or leave it open, change its input.
    pub(crate) fn combine(replies: impl IntoIterator<Item = Reply>) -> Reply {
        let mut all = Reply::default();
        for reply in replies {
            match (all.decision, reply.decision) {
                (Some(old), Some(new)) if old == new => match (&mut all.reason, reply.reason) {
                    (Some(old), Some(new)) if *old != new => {
                        old.push('\n');
                        old.push_str(&new);
                    }
                    (old @ None, new) => *old = new,
                    _ => {}
                },
                (old, Some(new)) if old.is_none_or(|old| old < new) => {
                    (all.decision, all.reason) = (Some(new), reply.reason);
                }
                _ => {}
            }
            all.updated_input = reply.updated_input.or(all.updated_input);
            all.updated_output = reply.updated_output.or(all.updated_output);
            all.context.extend(reply.context);
            all.messages.extend(reply.messages);
            all.stop = match (all.stop, reply.stop) {
                (Some(old), Some(new)) if old.is_empty() => Some(new),
                (old, new) => old.or(new),
            };
            all.failure = all.failure.or(reply.failure);
            all.kind = all.kind.or(reply.kind);
        }
        all
    }
}

/// How long a hook goes on in the background, if its output begins with `{"async": true}`.
pub(crate) fn background_time(stdout: &[u8]) -> Option<Duration> {
    const MAX_LINE: usize = 4096;
    const MAX_TIME: Duration = Duration::from_secs(600);
    let stdout = stdout.trim_ascii_start();
    let line = stdout.split(|byte| *byte == b'\n').next().filter(|line| line.len() <= MAX_LINE)?;
    let json: Value = serde_json::from_slice(line).ok().filter(|_| line.starts_with(b"{"))?;
    let time = json["asyncTimeout"].as_u64().map_or(BACKGROUND_TIME, Duration::from_millis);
    (json["async"] == Value::Bool(true)).then_some(time.min(MAX_TIME))
}

fn text(json: &Value, member: &str) -> Option<String> {
    json[member].as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}
