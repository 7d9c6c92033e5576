//! Remembers what the agent has reported about its tool calls.
//!
//! A permission request may have only the id of a tool call, because an earlier `session/update` has described
//! the call. So the proxy merges what the agent reports about each call, and handlers get the result. A detail that
//! is unknown is absent. A handler must not treat it as harmless.

use std::cell::RefCell;
use std::collections::BTreeMap;

use acp_proxy_core::{Call, Json};

use crate::strict::{check, repeats_a_member};

/// How many tool calls are remembered. The least recently mentioned call is forgotten first.
const MAX_CALLS: usize = 1024;

/// How many bytes are remembered, of all calls together and of one call.
const MAX_BYTES: usize = 4 * 1024 * 1024;
const MAX_BYTES_OF_ONE: usize = 256 * 1024;

/// The members of a tool call that are remembered. Of a call that is too large, only the first ones are.
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

/// The tool calls that are not over, by session and tool call id.
#[derive(Default)]
pub(crate) struct KnownCalls(RefCell<CallTable>);

#[derive(Default)]
struct CallTable {
    calls: BTreeMap<(String, String), Entry>,
    bytes: usize,
    /// Counts mentions, to find the least recently mentioned call.
    clock: u64,
}

struct Entry {
    /// What updates and permission requests have reported.
    call: Json,
    /// What updates have reported. `None` if there was none.
    reported: Option<Json>,
    last_mention: u64,
}

/// The tool call that a permission request is about.
pub(crate) struct PermissionSubject {
    /// The path to the tool call in the request's parameters.
    pub(crate) path: &'static [&'static str],
    /// The tool call of the request, merged with what was known before.
    pub(crate) call: Json,
    /// What updates have reported before the request.
    pub(crate) earlier: Option<Json>,
}

impl KnownCalls {
    /// Merges a `session/update` of the agent. Returns the session and the merged tool call, if the update is about
    /// one.
    pub(crate) fn update(&self, call: &Call, null_clears: bool) -> Option<(String, Json)> {
        let params = call.params.as_ref()?;
        let update = params.member("update").unwrap_or(Json::NULL);
        // Programs may disagree about which call this is, and what happens to it.
        if repeats_a_member(params) || repeats_a_member(&update) {
            self.0.borrow_mut().clear();
            return None;
        }
        let kind = update.member("sessionUpdate");
        let kind = kind.as_ref().and_then(Json::text);
        let announces = match kind.as_deref() {
            Some("tool_call") => true,
            Some("tool_call_update") => false,
            _ => return None,
        };
        let (session, id) = (text(params, "sessionId")?, text(&update, "toolCallId")?);
        let mut table = self.0.borrow_mut();
        let key = (session.clone(), id);
        let known = table.remove(&key).filter(|_| !announces);
        let (known, reported) = known.map(|it| (it.call, it.reported)).unzip();
        let reported = reported.flatten();
        let call = merge(known.as_ref(), &update, null_clears);
        // The agent may use the id of a call that is over again.
        if !is_over(&call) {
            let is_same =
                known.as_ref().map(Json::as_bytes) == reported.as_ref().map(Json::as_bytes);
            let reported = match is_same {
                true => call.clone(),
                false => merge(reported.as_ref(), &update, null_clears),
            };
            table.insert(key, call.clone(), Some(reported));
        }
        Some((session, call))
    }

    /// The tool call that a permission request is about. `None` if the request names no tool call, or if programs
    /// may read it differently.
    pub(crate) fn subject(&self, params: &Json, v2: bool) -> Option<PermissionSubject> {
        let (holder, path): (_, &[&str]) = match v2 {
            true => (params.member("subject")?, &["subject", "toolCall"]),
            false => (params.clone(), &["toolCall"]),
        };
        // A request with the members of both versions may be read as either.
        let other = if v2 { "toolCall" } else { "subject" };
        if params.member(other).is_some() || check(params).is_err() {
            self.0.borrow_mut().clear();
            return None;
        }
        let kind = holder.member("type");
        let call = match kind.as_ref().and_then(Json::text).as_deref().filter(|_| v2) {
            None | Some("tool_call") => holder.member("toolCall")?,
            // A command is of kind `execute`, whatever the kind of its tool call.
            Some("command") => {
                let id = text(&holder, "toolCallId");
                let earlier = id.and_then(|id| self.find(text(params, "sessionId")?, id));
                let id = holder.member("toolCallId");
                let call = [("toolCallId", id), ("kind", Some(Json::string("execute")))];
                return Some(PermissionSubject { path, call: Json::object(call), earlier });
            }
            Some(_) => return None,
        };
        let key = (text(params, "sessionId")?, text(&call, "toolCallId")?);
        let mut table = self.0.borrow_mut();
        let known = table.remove(&key);
        let (known, earlier) = known.map(|it| (it.call, it.reported)).unzip();
        let (call, earlier) = (merge(known.as_ref(), &call, v2), earlier.flatten());
        table.insert(key, call.clone(), earlier.clone());
        Some(PermissionSubject { path, call, earlier })
    }

    fn find(&self, session: String, id: String) -> Option<Json> {
        self.0.borrow().calls.get(&(session, id))?.reported.clone()
    }

    /// Forgets the calls of a session, when a turn begins or the session ends. The agent may use their ids again.
    pub(crate) fn forget(&self, session: &str) {
        let mut table = self.0.borrow_mut();
        let first = (session.to_owned(), String::new());
        let keys = table.calls.range(first..).take_while(|((it, _), _)| it == session);
        let keys: Vec<_> = keys.map(|(key, _)| key.clone()).collect();
        keys.iter().for_each(|key| drop(table.remove(key)));
    }
}

impl CallTable {
    fn clear(&mut self) {
        *self = CallTable::default();
    }

    fn remove(&mut self, key: &(String, String)) -> Option<Entry> {
        let entry = self.calls.remove(key)?;
        self.bytes -= size(key, &entry);
        Some(entry)
    }

    fn insert(&mut self, key: (String, String), call: Json, reported: Option<Json>) {
        let bounded = |call: Json| match call.as_bytes().len() > MAX_BYTES_OF_ONE {
            true => only(&call, &MEMBERS[..SMALL_MEMBERS]),
            false => call,
        };
        self.clock += 1;
        let (call, reported) = (bounded(call), reported.map(bounded));
        let entry = Entry { call, reported, last_mention: self.clock };
        let size = size(&key, &entry);
        if size > 2 * MAX_BYTES_OF_ONE {
            return;
        }
        while self.calls.len() >= MAX_CALLS || self.bytes + size > MAX_BYTES {
            let oldest = self.calls.iter().min_by_key(|(_, it)| it.last_mention);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { break };
            self.remove(&oldest);
        }
        self.bytes += size;
        self.calls.insert(key, entry);
    }
}

fn size((session, id): &(String, String), entry: &Entry) -> usize {
    let reported = entry.reported.as_ref().map_or(0, |it| it.as_bytes().len());
    session.len() + id.len() + entry.call.as_bytes().len() + reported
}

/// The text of a member. `None` if it has U+FFFD, which different texts are read as: it replaces half a surrogate
/// pair.
fn text(json: &Json, key: &str) -> Option<String> {
    json.member(key)?.text().filter(|it| !it.contains('\u{fffd}')).map(|text| text.into_owned())
}

fn is_over(call: &Json) -> bool {
    let status = call.member("status");
    let status = status.as_ref().and_then(Json::text);
    matches!(status.as_deref(), Some("completed" | "failed" | "cancelled"))
}

/// Merges an update into what is known of a call. Members that the update does not have stay. In version 2, `null`
/// clears a member. In version 1, `null` means that the update does not have the member. Arguments are not replaced
/// by empty ones: several agents repeat a call without them. Metadata are merged key by key.
fn merge(known: Option<&Json>, update: &Json, null_clears: bool) -> Json {
    let (known, update) = (known.map(Json::members).unwrap_or_default(), update.members());
    let find = |list: &[(String, Json)], name: &str| {
        list.iter().rev().find(|(it, _)| it == name).map(|(_, value)| value.clone())
    };
    Json::object(MEMBERS.map(|name| {
        let (old, new) = (find(&known, name), find(&update, name));
        let value = match new {
            Some(new) if new.is_null() => old.filter(|_| !null_clears),
            Some(new) if name == "_meta" => Some(patch(old.as_ref(), &new, null_clears)),
            Some(new) if name == "rawInput" && is_empty(&new) => {
                old.or_else(|| Some(new.detached()))
            }
            Some(new) => Some(new.detached()),
            None => old,
        };
        (name, value)
    }))
}

fn is_empty(json: &Json) -> bool {
    let is_empty_text = || json.text().is_some_and(|text| text.is_empty());
    let is_empty_list = || json.is_array() && json.elements().is_empty();
    is_empty_text() || is_empty_list() || json.is_object() && json.members().is_empty()
}

/// Changes metadata key by key. In version 2, `null` removes a key.
fn patch(old: Option<&Json>, new: &Json, null_clears: bool) -> Json {
    let old = old.map(Json::members).unwrap_or_default();
    let mut all: BTreeMap<String, Json> = old.into_iter().collect();
    for (key, value) in new.members() {
        match value.is_null() {
            true if null_clears => drop(all.remove(&key)),
            true => {}
            false => drop(all.insert(key, value.detached())),
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

    fn update(calls: &KnownCalls, update: &str) {
        let params = format!(r#"{{"sessionId":"s","update":{update}}}"#);
        let _ = calls.update(&Call::new("session/update", Json::parse(params).unwrap()), false);
    }

    fn kind(calls: &KnownCalls, call: &str) -> Option<String> {
        let params = format!(r#"{{"sessionId":"s","toolCall":{call}}}"#);
        text(&calls.subject(&Json::parse(params).unwrap(), false)?.call, "kind")
    }

    #[test]
    fn the_memory_for_tool_calls_is_bounded() {
        let calls = KnownCalls::default();
        for id in 0..3 * MAX_CALLS {
            update(
                &calls,
                &format!(r#"{{"sessionUpdate":"tool_call","toolCallId":"{id}","kind":"read"}}"#),
            );
        }
        assert_eq!(calls.0.borrow().calls.len(), MAX_CALLS);
        assert_eq!(kind(&calls, r#"{"toolCallId":"0"}"#), None);
        let last = 3 * MAX_CALLS - 1;
        assert_eq!(kind(&calls, &format!(r#"{{"toolCallId":"{last}"}}"#)).as_deref(), Some("read"));
        let big = "x".repeat(MAX_BYTES_OF_ONE / 2);
        for id in 0..20 {
            update(
                &calls,
                &format!(
                    r#"{{"sessionUpdate":"tool_call","toolCallId":"b{id}","rawInput":"{big}"}}"#
                ),
            );
        }
        let huge = "x".repeat(MAX_BYTES_OF_ONE);
        update(
            &calls,
            &format!(
                r#"{{"sessionUpdate":"tool_call","toolCallId":"h","kind":"edit","content":"{huge}"}}"#
            ),
        );
        assert!(calls.0.borrow().bytes <= MAX_BYTES);
        assert_eq!(kind(&calls, r#"{"toolCallId":"h"}"#).as_deref(), Some("edit"));
        calls.forget("s");
        assert_eq!((calls.0.borrow().bytes, calls.0.borrow().calls.len()), (0, 0));
    }

    #[test]
    fn a_command_is_of_kind_execute_whatever_the_kind_of_its_tool_call() {
        let calls = KnownCalls::default();
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
    fn empty_arguments_do_not_replace_the_ones_of_an_earlier_update() {
        let json = |text: &str| Json::parse(text.to_owned()).unwrap();
        let known = json(r#"{"toolCallId":"t","rawInput":{"command":"ls"}}"#);
        for empty in ["{}", "[]", r#""""#, "null"] {
            let update = json(&format!(r#"{{"toolCallId":"t","rawInput":{empty}}}"#));
            assert_eq!(merge(Some(&known), &update, false).as_str(), known.as_str(), "{empty}");
        }
        let update = json(r#"{"toolCallId":"t","rawInput":{"command":"pwd"}}"#);
        assert_eq!(merge(Some(&known), &update, false).as_str(), update.as_str());
    }

    #[test]
    fn a_request_has_what_updates_have_reported_before_it() {
        let calls = KnownCalls::default();
        update(&calls, r#"{"sessionUpdate":"tool_call","toolCallId":"t","content":["arguments"]}"#);
        for _ in 0..2 {
            let params = r#"{"sessionId":"s","toolCall":{"toolCallId":"t","content":["May I?"],"rawInput":{"old":1}}}"#;
            let subject = calls.subject(&Json::parse(params).unwrap(), false).unwrap();
            let content = |call: &Json| call.member("content").unwrap().as_str().to_owned();
            assert_eq!(content(&subject.call), r#"["May I?"]"#);
            let earlier = subject.earlier.unwrap();
            assert_eq!(content(&earlier), r#"["arguments"]"#);
            assert!(earlier.member("rawInput").is_none(), "{earlier}");
        }
    }

    #[test]
    fn null_clears_a_member_only_in_version_2() {
        let json = |text: &str| Json::parse(text.to_owned()).unwrap();
        let known = json(r#"{"toolCallId":"t","kind":"read","_meta":{"a":1,"b":2}}"#);
        let update = json(r#"{"toolCallId":"t","kind":null,"_meta":{"a":null,"c":3}}"#);
        let first = merge(Some(&known), &update, false);
        assert_eq!(
            first.as_str(),
            r#"{"toolCallId":"t","kind":"read","_meta":{"a":1,"b":2,"c":3}}"#
        );
        let second = merge(Some(&known), &update, true);
        assert_eq!(second.as_str(), r#"{"toolCallId":"t","_meta":{"b":2,"c":3}}"#);
    }
}
