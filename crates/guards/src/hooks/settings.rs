//! Reads hooks from settings files: those of Claude Code (JSON), and those of Codex (JSON or TOML).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use acp_wire::printable;
use acp_wire::toml_nesting::{TOO_DEEP, TOO_DEEP_HELP, too_deep};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::event::{Contract, Event, NamedEvent};
use super::matcher::{Matcher, MatcherError};
use component_base::mentions::MAX_FILE;

mod hook;
mod raw;

pub(crate) use hook::{Hook, HookAction};
use raw::{RawMembers, RawSettings, line_of, without_position};

/// Hooks by event, as an options file writes them. The names of events are checked while the file is read.
pub type HookGroups = BTreeMap<EventName, Vec<HookGroup>>;

/// The name of an event that ACP can drive.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct EventName(String);

impl JsonSchema for EventName {
    fn schema_name() -> Cow<'static, str> {
        "EventName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = Event::NAMES.to_vec();
        json_schema!({ "type": "string", "enum": names })
    }
}

impl<'de> Deserialize<'de> for EventName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<EventName, D::Error> {
        let name = String::deserialize(deserializer)?;
        match Event::named(&name) {
            NamedEvent::Driven(_) => Ok(EventName(name)),
            NamedEvent::NotDriven => Err(serde::de::Error::custom(format!(
                "no message of ACP shows the event {name}; remove its hooks"
            ))),
            NamedEvent::Unknown => Err(serde::de::Error::unknown_field(&name, &Event::NAMES)),
        }
    }
}

/// Hooks with a common matcher, in an options file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HookGroup {
    /// The tools, sources or types that the hooks are for. All, if it is absent.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "read_matcher")]
    pub matcher: Option<String>,
    /// The hooks.
    pub hooks: Vec<Handler>,
}

fn read_matcher<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let matcher = Option::<String>::deserialize(deserializer)?;
    match Matcher::parse(matcher.as_deref()) {
        Ok(_) => Ok(matcher),
        Err(MatcherError::Invalid(why) | MatcherError::Unsupported(why)) => {
            Err(serde::de::Error::custom(unusable_matcher(&why)))
        }
    }
}

fn unusable_matcher(why: &str) -> String {
    format!(
        "the matcher cannot be used: {why}; write names such as Edit|Write, or another regular expression"
    )
}

/// A hook, as all files write it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Handler {
    /// `command`, the default, or `http`.
    #[serde(
        rename = "type",
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_kind"
    )]
    pub kind: Option<String>,
    /// A command line for a shell, or a program if there are `args`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The arguments of a program that runs without a shell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// A permission rule such as `Bash(git *)`: the hook runs only for tool calls that match it.
    #[serde(rename = "if", skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// The shell: `bash` or `powershell`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    /// The time limit in seconds.
    #[serde(alias = "timeoutSec", skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    /// What happens if the hook fails: `continue` or `block`.
    #[serde(alias = "on_failure", skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<String>,
    /// The hook runs only once in a session.
    pub once: bool,
    /// The hook runs in the background and decides nothing.
    #[serde(rename = "async")]
    pub is_async: bool,
    /// In the background, like `async`. The model is not woken.
    pub async_rewake: bool,
    /// A text that Claude Code shows while the hook runs. It has no effect here.
    #[serde(alias = "status_message", skip_serializing_if = "Option::is_none")]
    pub status_message: Option<String>,
    /// The address of an `http` hook.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The headers of an `http` hook. `$NAME` and `${NAME}` stand for environment variables.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The environment variables that `headers` may use.
    #[serde(alias = "allowed_env_vars", skip_serializing_if = "Vec::is_empty")]
    pub allowed_env_vars: Vec<String>,
}

/// The members of a [`Handler`] in settings files.
const MEMBERS: [&str; 16] = [
    "type",
    "command",
    "args",
    "if",
    "shell",
    "timeout",
    "timeoutSec",
    "onFailure",
    "once",
    "async",
    "asyncRewake",
    "statusMessage",
    "url",
    "headers",
    "allowedEnvVars",
    "allowed_env_vars",
];

fn read_kind<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let kind = Option::<String>::deserialize(deserializer)?;
    check_kind(kind.as_deref().unwrap_or("command")).map_err(serde::de::Error::custom)?;
    Ok(kind)
}

/// The types of hooks that only Claude Code can run.
const FOREIGN_KINDS: [&str; 3] = ["prompt", "agent", "mcp_tool"];

fn check_kind(kind: &str) -> Result<(), String> {
    match kind {
        "command" | "http" => Ok(()),
        _ if FOREIGN_KINDS.contains(&kind) => Err(format!(
            "a hook of type {kind} needs the model or the servers of Claude Code; write a hook of type command or http, or leave such hooks of settings files out with --skip-unsupported"
        )),
        _ => Err(format!("there is no hook of type {kind}; write command or http")),
    }
}

/// Which hooks are accepted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Acceptance<'a> {
    /// The hosts that `http` hooks may use besides loopback addresses.
    pub(crate) http_hosts: &'a [String],
    /// Hooks that cannot run are left out. Otherwise they are errors.
    pub(crate) skips_unsupported: bool,
    /// Hooks of the types that only Claude Code can run are left out.
    pub(crate) notes_foreign: bool,
    /// Whether the user has named the file, so that it must have hooks.
    pub(crate) is_named: bool,
}

/// The hooks of a file, and what the log should say about them.
#[derive(Debug, Clone, Default)]
pub(crate) struct LoadedHooks {
    pub(crate) hooks: Vec<Arc<Hook>>,
    pub(crate) notes: Vec<String>,
    /// Whether the file disables all hooks.
    pub(crate) disables: bool,
}

/// Where a handler is written.
struct Place<'a> {
    file: &'a str,
    line: usize,
}

impl Place<'_> {
    fn text(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }
}

impl LoadedHooks {
    /// Reads a settings file of Claude Code, or `hooks.json` or `config.toml` of Codex. The errors name file and line.
    pub(crate) fn read(
        path: &Path,
        contract: Contract,
        acceptance: Acceptance<'_>,
    ) -> Result<LoadedHooks, String> {
        let name = path.display().to_string();
        let bytes = read_file(path).map_err(|why| format!("{name}: {why}"))?;
        LoadedHooks::of_bytes(&bytes, path, contract, acceptance)
    }

    /// Reads the bytes of a file.
    pub(crate) fn of_bytes(
        bytes: &[u8],
        path: &Path,
        contract: Contract,
        acceptance: Acceptance<'_>,
    ) -> Result<LoadedHooks, String> {
        let (name, text) = (path.display().to_string(), String::from_utf8_lossy(bytes));
        match path.extension().is_some_and(|it| it == "toml") {
            true => LoadedHooks::of_toml(&text, &name, contract, acceptance),
            false => LoadedHooks::of_json(&text, &name, contract, acceptance),
        }
    }

    /// Reads the text of a JSON file.
    pub(crate) fn of_json(
        text: &str,
        file: &str,
        contract: Contract,
        acceptance: Acceptance<'_>,
    ) -> Result<LoadedHooks, String> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if text.trim().is_empty() {
            return Ok(LoadedHooks::default());
        }
        let located = |raw: &RawValue, error: &serde_json::Error| {
            let line = line_of(text, raw) + error.line().max(1) - 1;
            format!("{file}:{line}: {}; correct the file", without_position(error))
        };
        let settings: RawSettings<'_> = serde_json::from_str(text).map_err(|error| {
            let why = without_position(&error);
            format!("{file}:{}: {why}; correct the file", error.line())
        })?;
        let mut loaded = LoadedHooks::default();
        let members: BTreeMap<String, &RawValue> = serde_json::from_str(text).unwrap_or_default();
        for (name, raw) in members {
            loaded.check_outside(&name, &Place { file, line: line_of(text, raw) }, acceptance)?;
        }
        if settings.disable_all_hooks {
            loaded.notes.push(format!("{file} disables hooks with disableAllHooks"));
            loaded.disables = true;
            return Ok(loaded);
        }
        for (event, raw_groups) in settings.hooks.unwrap_or_default().0 {
            let groups: Vec<&RawValue> = serde_json::from_str(raw_groups.get())
                .map_err(|error| located(raw_groups, &error))?;
            let place = Place { file, line: line_of(text, raw_groups) };
            let Some(event) = loaded.event(&event, &place) else { continue };
            for raw_group in groups {
                let RawMembers(group) = serde_json::from_str(raw_group.get())
                    .map_err(|error| located(raw_group, &error))?;
                let place = Place { file, line: line_of(text, raw_group) };
                let hooks = *loaded.hooks_of(&group, &place)?;
                let hooks: Vec<&RawValue> =
                    serde_json::from_str(hooks.get()).map_err(|error| located(hooks, &error))?;
                let matcher: Option<String> = match group.get("matcher") {
                    Some(raw) => {
                        serde_json::from_str(raw.get()).map_err(|error| located(raw, &error))?
                    }
                    None => None,
                };
                for raw in hooks {
                    let handler: Value =
                        serde_json::from_str(raw.get()).map_err(|error| located(raw, &error))?;
                    let place = Place { file, line: line_of(text, raw) };
                    let matcher = matcher.as_deref();
                    loaded.add_lenient(event, matcher, handler, contract, &place, acceptance)?;
                }
            }
        }
        Ok(loaded)
    }

    fn of_toml(
        text: &str,
        file: &str,
        contract: Contract,
        acceptance: Acceptance<'_>,
    ) -> Result<LoadedHooks, String> {
        #[derive(Deserialize)]
        struct Settings {
            #[serde(default)]
            hooks: BTreeMap<String, toml::Spanned<toml::Value>>,
        }
        let line_at = |offset: usize| 1 + text[..offset].matches('\n').count();
        if let Some(at) = too_deep(text) {
            return Err(format!("{file}:{}: {TOO_DEEP}; {TOO_DEEP_HELP}", line_at(at)));
        }
        let settings: Settings = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| line_at(span.start));
            format!("{file}:{line}: {}; correct the file", error.message())
        })?;
        let mut loaded = LoadedHooks::default();
        for name in toml::from_str::<toml::Table>(text).unwrap_or_default().keys() {
            let place = Place { file, line: line_at(text.find(name).unwrap_or_default()) };
            loaded.check_outside(name, &place, acceptance)?;
        }
        for (event, groups) in settings.hooks {
            let place = Place { file, line: line_at(groups.span().start) };
            // Codex keeps other settings of its hooks beside the events.
            if !groups.get_ref().is_array() {
                continue;
            }
            let Some(event) = loaded.event(&event, &place) else { continue };
            let invalid = |why: &str| format!("{}: {why}; correct the file", place.text());
            let groups: Vec<BTreeMap<String, Value>> = groups
                .into_inner()
                .try_into()
                .map_err(|error: toml::de::Error| invalid(error.message()))?;
            for group in groups {
                let hooks = loaded.hooks_of(&group, &place)?;
                let hooks = hooks.as_array().ok_or_else(|| invalid("hooks is not a list"))?;
                let matcher = match group.get("matcher") {
                    Some(it) => {
                        Some(it.as_str().ok_or_else(|| invalid("the matcher is not a text"))?)
                    }
                    None => None,
                };
                for handler in hooks {
                    let handler = handler.clone();
                    loaded.add_lenient(event, matcher, handler, contract, &place, acceptance)?;
                }
            }
        }
        Ok(loaded)
    }

    /// The hooks of an options file. They were checked while it was read, but for what other options decide.
    pub(crate) fn of_options(
        groups: &HookGroups,
        acceptance: Acceptance<'_>,
    ) -> Result<LoadedHooks, String> {
        let mut loaded = LoadedHooks::default();
        for (EventName(name), groups) in groups {
            let NamedEvent::Driven(event) = Event::named(name) else { continue };
            for (index, group) in (1..).zip(groups) {
                let matcher =
                    Matcher::parse(group.matcher.as_deref().filter(|_| event.has_matcher()));
                let matcher = matcher.unwrap_or(Matcher::Nothing);
                for handler in &group.hooks {
                    let place = format!("{name} {index} of the options");
                    let hook = hook_of(
                        event,
                        matcher.clone(),
                        handler.clone(),
                        Contract::Claude,
                        &place,
                        acceptance,
                    );
                    loaded.hooks.push(Arc::new(hook.map_err(|why| format!("{place}: {why}"))?));
                }
            }
        }
        Ok(loaded)
    }

    /// The event of this name. `None` if ACP does not drive it, which is noted.
    fn event(&mut self, name: &str, place: &Place<'_>) -> Option<Event> {
        let place = place.text();
        let note = match Event::named(name) {
            NamedEvent::Driven(event) => return Some(event),
            NamedEvent::NotDriven => format!(
                "{place}: the hooks of {name} do not run, because no message of ACP shows this event"
            ),
            NamedEvent::Unknown => {
                format!("{place}: the hooks of the unknown event {name} do not run")
            }
        };
        self.notes.push(printable::one_line(&note));
        None
    }

    /// Checks a member beside `hooks`. The name of an event there is a mistake: its hooks would never run.
    fn check_outside(
        &mut self,
        name: &str,
        place: &Place<'_>,
        acceptance: Acceptance<'_>,
    ) -> Result<(), String> {
        if Event::named(name) == NamedEvent::Unknown {
            return Ok(());
        }
        let place = place.text();
        let why = format!("{place}: {name} is outside of `hooks`, so its hooks do not run");
        if acceptance.is_named {
            return Err(format!("{why}; write {{\"hooks\": {{\"{name}\": [...]}}}}"));
        }
        self.notes.push(why);
        Ok(())
    }

    /// The member `hooks` of a group. The others but `matcher` have no effect, which is noted.
    fn hooks_of<'a, T>(
        &mut self,
        group: &'a BTreeMap<String, T>,
        place: &Place<'_>,
    ) -> Result<&'a T, String> {
        let place = place.text();
        let others = group.keys().filter(|it| !matches!(it.as_str(), "hooks" | "matcher"));
        let others: Vec<String> = others.map(|it| printable::one_line(it)).collect();
        let Some(hooks) = group.get("hooks") else {
            let has = match others.is_empty() {
                true => String::new(),
                false => format!(", but {}", others.join(", ")),
            };
            return Err(format!(
                "{place}: this group has no `hooks`{has}; write {{\"matcher\": \"Bash\", \"hooks\": [...]}}"
            ));
        };
        for name in others {
            self.notes.push(format!("{place}: the member {name} of a group has no effect"));
        }
        Ok(hooks)
    }

    /// Adds a hook of a settings file, in which unknown members have no effect.
    fn add_lenient(
        &mut self,
        event: Event,
        matcher: Option<&str>,
        mut handler: Value,
        contract: Contract,
        place: &Place<'_>,
        acceptance: Acceptance<'_>,
    ) -> Result<(), String> {
        let place = place.text();
        if let Some(members) = handler.as_object_mut() {
            members.retain(|name, _| {
                let is_known = MEMBERS.contains(&name.as_str());
                if !is_known {
                    let name = printable::one_line(name);
                    self.notes.push(format!("{place}: the member {name} of a hook has no effect"));
                }
                is_known
            });
        }
        let matcher = match Matcher::parse(matcher.filter(|_| event.has_matcher())) {
            Ok(matcher) => Ok(matcher),
            Err(MatcherError::Invalid(why)) => {
                self.notes.push(format!(
                    "{place}: the matcher is not a regular expression ({why}), so the hook never runs"
                ));
                Ok(Matcher::Nothing)
            }
            Err(MatcherError::Unsupported(why)) => Err(unusable_matcher(&why)),
        };
        let kind = handler["type"].as_str();
        let is_foreign = kind.is_some_and(|it| FOREIGN_KINDS.contains(&it));
        let handler = serde_json::from_value::<Handler>(handler).map_err(|error| error.to_string());
        let hook = matcher
            .and_then(|matcher| hook_of(event, matcher, handler?, contract, &place, acceptance));
        match hook {
            Ok(hook) => self.hooks.push(Arc::new(hook)),
            Err(why) if acceptance.skips_unsupported || acceptance.notes_foreign && is_foreign => {
                self.notes.push(format!("{place}: left out: {why}"));
            }
            Err(why) => return Err(format!("{place}: {why}")),
        }
        Ok(())
    }
}

/// The bytes of a settings file.
pub(crate) fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let limits = component_base::file::ReadLimits { max_bytes: MAX_FILE, outside: true };
    let path = std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path));
    match component_base::file::read_bytes(Path::new("/"), &path, limits) {
        Ok((_, true)) => Err("the file is too large; settings have at most 4 MiB".to_owned()),
        Ok((bytes, false)) => Ok(bytes),
        Err(why) => Err(format!("cannot read the file: {why}; correct its path")),
    }
}

fn hook_of(
    event: Event,
    matcher: Matcher,
    handler: Handler,
    contract: Contract,
    place: &str,
    acceptance: Acceptance<'_>,
) -> Result<Hook, String> {
    let time = match handler.timeout {
        None => None,
        Some(seconds) if seconds.is_finite() && seconds > 0.0 => {
            Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
        }
        Some(seconds) => return Err(format!("the timeout {seconds} is not a time; write seconds")),
    };
    let blocks_on_failure = match handler.on_failure.as_deref() {
        None => None,
        Some("block") => Some(true),
        Some("continue") => Some(false),
        Some(other) => {
            return Err(format!("onFailure is {other}; write continue or block"));
        }
    };
    let kind = handler.kind.as_deref().unwrap_or("command");
    check_kind(kind)?;
    let action = match kind {
        "http" => HookAction::Http {
            url: super::http::parse_url(
                handler.url.as_deref().ok_or("a hook of type http has no url; add one")?,
                acceptance.http_hosts,
            )?,
            headers: handler.headers,
            allowed_env_vars: handler.allowed_env_vars,
        },
        _ => HookAction::Command {
            command: handler
                .command
                .filter(|it| !it.trim().is_empty())
                .ok_or("a hook of type command has no command; add one")?,
            args: handler.args,
            shell: match handler.shell.as_deref() {
                None | Some("bash" | "powershell") => handler.shell,
                Some(other) => {
                    return Err(format!("the shell is {other}; write bash or powershell"));
                }
            },
        },
    };
    let place = place.to_owned();
    Ok(Hook {
        event,
        matcher,
        contract,
        action,
        condition: handler.condition.filter(|_| event.is_about_tool()),
        time,
        blocks_on_failure,
        once: handler.once,
        is_async: handler.is_async || handler.async_rewake,
        place,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_of_the_users_own_file_that_only_claude_code_can_run_are_notes() {
        let text = r#"{"hooks":{"PreToolUse":[{"hooks":[
            {"type":"prompt","prompt":"Is it safe?"},
            {"type":"command","command":"x"}
        ]}]}}"#;
        let accepted = |notes_foreign| Acceptance {
            http_hosts: &[],
            skips_unsupported: false,
            notes_foreign,
            is_named: false,
        };
        let load = |text: &str, accepted| {
            LoadedHooks::of_json(text, "settings.json", Contract::Claude, accepted)
        };
        let loaded = load(text, accepted(true)).expect("hooks");
        assert_eq!(loaded.hooks.len(), 1);
        let note = "settings.json:2: left out: a hook of type prompt needs the model";
        assert!(loaded.notes.iter().any(|it| it.starts_with(note)), "{:?}", loaded.notes);
        assert!(load(text, accepted(false)).is_err());
        // A mistake is an error in every file.
        assert!(load(&text.replace("prompt\",", "prompts\","), accepted(true)).is_err());
    }
}
