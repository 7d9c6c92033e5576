//! The tool calls that the agent has announced.
//!
//! An agent may name only the id of a tool call when it asks for permission, and say in an earlier
//! `session/update` what the call does. So the proxy remembers what was said about each call, and
//! handlers get both together. What is not known is absent, and a handler must not take it for harmless.

use std::cell::RefCell;
use std::collections::BTreeMap;

use acp_proxy_core::{Call, Json};

use crate::strict::{check, repeats_a_member};

/// How many tool calls are remembered. The one that was not mentioned for the longest time is forgotten
/// first.
const MOST_CALLS: usize = 1024;

/// How many bytes are remembered, of all calls and of one.
const MOST_BYTES: usize = 4 * 1024 * 1024;
const MOST_OF_ONE: usize = 256 * 1024;

/// What is remembered of a tool call. The large ones are left out first.
const MEMBERS: [&str; 10] = [
    "toolCallId",
    "kind",
    "name",
    "title",
    "status",
    "locations",
    "_meta",
    "rawInput",
    "content",
    "rawOutput",
];
const SMALL_MEMBERS: usize = 6;

#[derive(Default)]
pub(crate) struct ToolCalls(RefCell<Memory>);

#[derive(Default)]
struct Memory {
    /// By session and tool call id.
    calls: BTreeMap<(String, String), Entry>,
    bytes: usize,
    /// Counts what was said, to know which call was mentioned last.
    clock: u64,
}

struct Entry {
    call: Json,
    mentioned: u64,
}

/// What is known of the tool call that a permission request is about.
pub(crate) struct Subject {
    /// The path to what the request itself says about the tool call.
    pub path: &'static [&'static str],
    /// That, together with what was said before.
    pub call: Json,
}

impl ToolCalls {
    /// The agent reports something.
    pub fn update(&self, call: &Call, null_clears: bool) {
        let Some(params) = &call.params else { return };
        let update = params.member("update").unwrap_or(Json::NULL);
        // Readers may disagree about which call it is, and what happens to it.
        if repeats_a_member(params) || repeats_a_member(&update) {
            return self.0.borrow_mut().clear();
        }
        let kind = update.member("sessionUpdate");
        let kind = kind.as_ref().and_then(Json::text);
        let announces = match kind.as_deref() {
            Some("tool_call") => true,
            Some("tool_call_update") => false,
            _ => return,
        };
        let (Some(session), Some(id)) = (text(params, "sessionId"), text(&update, "toolCallId"))
        else {
            return;
        };
        let mut memory = self.0.borrow_mut();
        let key = (session, id);
        let known = memory.take(&key).filter(|_| !announces);
        let call = merge(known.as_ref(), &update, null_clears);
        // The id of a call that is over may be used again, for another call.
        if !is_over(&call) {
            memory.put(key, call);
        }
    }

    /// What a permission request is about. Nothing if it names no tool call, or if readers may disagree.
    pub fn subject(&self, params: &Json, v2: bool) -> Option<Subject> {
        let (holder, path): (_, &[&str]) = match v2 {
            true => (params.member("subject")?, &["subject", "toolCall"]),
            false => (params.clone(), &["toolCall"]),
        };
        // Where one version has what belongs to the other, readers may take either.
        let other = if v2 { "toolCall" } else { "subject" };
        if params.member(other).is_some() || check(params).is_err() {
            self.0.borrow_mut().clear();
            return None;
        }
        let kind = holder.member("type");
        let call = match kind.as_ref().and_then(Json::text).as_deref().filter(|_| v2) {
            None | Some("tool_call") => holder.member("toolCall")?,
            // A command names the tool call that it belongs to, and is one to execute whatever that is.
            Some("command") => {
                let id = holder.member("toolCallId");
                let call = [("toolCallId", id), ("kind", Some(Json::string("execute")))];
                return Some(Subject { path, call: Json::object(call) });
            }
            Some(_) => return None,
        };
        let key = (text(params, "sessionId")?, text(&call, "toolCallId")?);
        let mut memory = self.0.borrow_mut();
        let known = memory.take(&key);
        let call = merge(known.as_ref(), &call, v2);
        memory.put(key, call.clone());
        Some(Subject { path, call })
    }

    /// A turn begins, or the session ends: ids may be used again.
    pub fn forget(&self, session: &str) {
        let mut memory = self.0.borrow_mut();
        let first = (session.to_owned(), String::new());
        let keys = memory.calls.range(first..).take_while(|((it, _), _)| it == session);
        let keys: Vec<_> = keys.map(|(key, _)| key.clone()).collect();
        keys.iter().for_each(|key| drop(memory.take(key)));
    }
}

impl Memory {
    fn clear(&mut self) {
        *self = Memory::default();
    }

    fn take(&mut self, key: &(String, String)) -> Option<Json> {
        let call = self.calls.remove(key)?.call;
        self.bytes -= size(key, &call);
        Some(call)
    }

    fn put(&mut self, key: (String, String), call: Json) {
        let call = match call.as_bytes().len() > MOST_OF_ONE {
            true => only(&call, &MEMBERS[..SMALL_MEMBERS]),
            false => call,
        };
        let size = size(&key, &call);
        if size > MOST_OF_ONE {
            return;
        }
        while self.calls.len() >= MOST_CALLS || self.bytes + size > MOST_BYTES {
            let oldest = self.calls.iter().min_by_key(|(_, it)| it.mentioned);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { break };
            self.take(&oldest);
        }
        self.clock += 1;
        self.bytes += size;
        self.calls.insert(key, Entry { call, mentioned: self.clock });
    }
}

fn size((session, id): &(String, String), call: &Json) -> usize {
    session.len() + id.len() + call.as_bytes().len()
}

/// A text, unless different texts could be read as this one: half of a surrogate pair is read as U+FFFD.
fn text(json: &Json, key: &str) -> Option<String> {
    json.member(key)?.text().filter(|it| !it.contains('\u{fffd}')).map(|text| text.into_owned())
}

fn is_over(call: &Json) -> bool {
    let status = call.member("status");
    let status = status.as_ref().and_then(Json::text);
    matches!(status.as_deref(), Some("completed" | "failed" | "cancelled"))
}

/// What is known of a call after something more was said about it. Members that were not mentioned stay.
/// In version 2 a member that is null is cleared; in version 1 null means that it was not mentioned.
fn merge(known: Option<&Json>, said: &Json, null_clears: bool) -> Json {
    let (known, said) = (known.map(Json::members).unwrap_or_default(), said.members());
    let find = |list: &[(String, Json)], name: &str| {
        list.iter().rev().find(|(it, _)| it == name).map(|(_, value)| value.clone())
    };
    Json::object(MEMBERS.map(|name| {
        let (old, new) = (find(&known, name), find(&said, name));
        let value = match new {
            Some(new) if new.is_null() => old.filter(|_| !null_clears),
            Some(new) if name == "_meta" && null_clears => Some(patched(old.as_ref(), &new)),
            Some(new) => Some(new.detached()),
            None => old,
        };
        (name, value)
    }))
}

/// In version 2, metadata is changed key by key.
fn patched(old: Option<&Json>, new: &Json) -> Json {
    let old = old.map(Json::members).unwrap_or_default();
    let mut all: BTreeMap<String, Json> = old.into_iter().collect();
    for (key, value) in new.members() {
        match value.is_null() {
            true => drop(all.remove(&key)),
            false => drop(all.insert(key, value)),
        }
    }
    Json::object(all.iter().map(|(key, value)| (key.as_str(), Some(value.clone()))))
}

fn only(call: &Json, names: &[&'static str]) -> Json {
    let members = call.members();
    let find = |name: &str| members.iter().find(|(it, _)| it == name).map(|(_, it)| it.clone());
    Json::object(names.iter().map(|name| (*name, find(name))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(calls: &ToolCalls, update: &str) {
        let params = format!(r#"{{"sessionId":"s","update":{update}}}"#);
        calls.update(&Call::new("session/update", Json::parse(params).unwrap()), false);
    }

    fn kind(calls: &ToolCalls, call: &str) -> Option<String> {
        let params = format!(r#"{{"sessionId":"s","toolCall":{call}}}"#);
        text(&calls.subject(&Json::parse(params).unwrap(), false)?.call, "kind")
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let calls = ToolCalls::default();
        for id in 0..3 * MOST_CALLS {
            update(
                &calls,
                &format!(r#"{{"sessionUpdate":"tool_call","toolCallId":"{id}","kind":"read"}}"#),
            );
        }
        assert_eq!(calls.0.borrow().calls.len(), MOST_CALLS);
        assert_eq!(kind(&calls, r#"{"toolCallId":"0"}"#), None);
        let last = 3 * MOST_CALLS - 1;
        assert_eq!(kind(&calls, &format!(r#"{{"toolCallId":"{last}"}}"#)).as_deref(), Some("read"));
        let big = "x".repeat(MOST_OF_ONE / 2);
        for id in 0..20 {
            update(
                &calls,
                &format!(
                    r#"{{"sessionUpdate":"tool_call","toolCallId":"b{id}","rawInput":"{big}"}}"#
                ),
            );
        }
        let huge = "x".repeat(MOST_OF_ONE);
        update(
            &calls,
            &format!(
                r#"{{"sessionUpdate":"tool_call","toolCallId":"h","kind":"edit","content":"{huge}"}}"#
            ),
        );
        assert!(calls.0.borrow().bytes <= MOST_BYTES);
        assert_eq!(kind(&calls, r#"{"toolCallId":"h"}"#).as_deref(), Some("edit"));
        calls.forget("s");
        assert_eq!((calls.0.borrow().bytes, calls.0.borrow().calls.len()), (0, 0));
    }

    #[test]
    fn a_command_is_one_to_execute_whatever_tool_call_it_belongs_to() {
        let calls = ToolCalls::default();
        update(&calls, r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","kind":"read"}"#);
        let ask = |kind: &str| {
            let params = format!(
                r#"{{"sessionId":"s","title":"T","subject":{{"type":"{kind}","command":"rm","toolCallId":"t"}}}}"#
            );
            calls.subject(&Json::parse(params).unwrap(), true)
        };
        assert_eq!(text(&ask("command").unwrap().call, "kind").as_deref(), Some("execute"));
        assert!(ask("_other").is_none());
    }

    #[test]
    fn null_clears_a_member_only_in_version_2() {
        let json = |text: &str| Json::parse(text.to_owned()).unwrap();
        let known = json(r#"{"toolCallId":"t","kind":"read","_meta":{"a":1,"b":2}}"#);
        let said = json(r#"{"toolCallId":"t","kind":null,"_meta":{"a":null,"c":3}}"#);
        let first = merge(Some(&known), &said, false);
        assert_eq!(first.as_str(), r#"{"toolCallId":"t","kind":"read","_meta":{"a":null,"c":3}}"#);
        let second = merge(Some(&known), &said, true);
        assert_eq!(second.as_str(), r#"{"toolCallId":"t","_meta":{"b":2,"c":3}}"#);
    }
}
