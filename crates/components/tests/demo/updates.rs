//! The demo agent shows every kind of update that the ACP schema has.

use std::collections::BTreeSet;

use acp_proxy::schemars::{self, JsonSchema};
use acp_proxy::{schema, schema_v2};
use serde_json::{Value, json};

use crate::chat::{Chat, everything};

/// The values of a string member in the variants of a type of the schema.
fn variants<T: JsonSchema>(member: &str) -> BTreeSet<String> {
    let schema = serde_json::to_value(schemars::schema_for!(T)).expect("JSON");
    let variants = schema["oneOf"].as_array().or(schema["anyOf"].as_array()).expect("variants");
    let value = |it: &Value| it["properties"][member]["const"].as_str().map(str::to_owned);
    variants.iter().filter_map(value).collect()
}

/// The values of an enumeration of the schema.
fn values<T: JsonSchema>() -> BTreeSet<String> {
    let schema = serde_json::to_value(schemars::schema_for!(T)).expect("JSON");
    let variants = schema["oneOf"].as_array().or(schema["anyOf"].as_array()).expect("variants");
    variants.iter().filter_map(|it| it["const"].as_str().map(str::to_owned)).collect()
}

/// The values of all members with this name, at any depth.
fn members<'a>(value: &'a Value, name: &str, found: &mut BTreeSet<&'a str>) {
    match value {
        Value::Object(object) => {
            found.extend(object.get(name).and_then(Value::as_str));
            object.values().for_each(|it| members(it, name, found));
        }
        Value::Array(array) => array.iter().for_each(|it| members(it, name, found)),
        _ => {}
    }
}

fn shown(version: u8) -> Value {
    let mut chat = Chat::with_client(everything(version));
    let mut shown = chat.prompt_and_answer("show all").updates;
    // The agent sends these updates at other times.
    shown.extend(chat.prompt_and_answer("updates").updates);
    shown.into()
}

#[track_caller]
fn assert_all(shown: &Value, member: &str, expected: BTreeSet<String>) {
    let mut found = BTreeSet::new();
    members(shown, member, &mut found);
    let missing: Vec<&String> = expected.iter().filter(|it| !found.contains(it.as_str())).collect();
    assert!(!expected.is_empty() && missing.is_empty(), "{member}: {missing:?} not in {found:?}");
}

#[test]
fn every_update_of_version_1_is_shown() {
    let shown = shown(1);
    for update in shown.as_array().unwrap() {
        let read = serde_json::from_value::<schema::SessionUpdate>(update.clone());
        let written = serde_json::to_value(read.expect("an update")).expect("JSON");
        assert_same(update, &written);
    }
    let kinds = variants::<schema::SessionUpdate>("sessionUpdate");
    assert!(kinds.contains("subagent_update"), "unstable updates are included: {kinds:?}");
    assert_all(&shown, "sessionUpdate", kinds);
    assert_all(&shown, "type", variants::<schema::ContentBlock>("type"));
    assert_all(&shown, "type", variants::<schema::ToolCallContent>("type"));
    assert_all(&shown, "kind", values::<schema::ToolKind>());
    assert_all(&shown, "status", values::<schema::ToolCallStatus>());
    assert_all(&shown, "severity", values::<schema::NoticeSeverity>());
}

#[test]
fn every_update_of_version_2_is_shown() {
    let shown = shown(2);
    for update in shown.as_array().unwrap() {
        let read = serde_json::from_value::<schema_v2::SessionUpdate>(update.clone());
        let read = read.unwrap_or_else(|error| panic!("{error}: {update}"));
        assert!(!matches!(read, schema_v2::SessionUpdate::Other(_)), "{update}");
        assert_same(update, &serde_json::to_value(read).expect("JSON"));
    }
    assert_all(&shown, "sessionUpdate", variants::<schema_v2::SessionUpdate>("sessionUpdate"));
    assert_all(&shown, "type", variants::<schema_v2::ContentBlock>("type"));
    assert_all(&shown, "type", variants::<schema_v2::ToolCallContent>("type"));
    assert_all(&shown, "kind", values::<schema_v2::ToolKind>());
    assert_all(&shown, "status", values::<schema_v2::ToolCallStatus>());
}

/// Every member that is sent is a member that the schema knows.
#[track_caller]
fn assert_same(sent: &Value, known: &Value) {
    let (Some(sent), Some(known)) = (sent.as_object(), known.as_object()) else {
        return assert_eq!(sent, known);
    };
    for (name, value) in sent {
        // The schema leaves out a status or kind that is the default.
        let is_default = ["pending", "other"].iter().any(|it| value == it);
        match known.get(name) {
            Some(Value::Object(_)) => assert_same(value, &known[name]),
            Some(known) if known.is_array() => {
                let pairs = value.as_array().unwrap().iter().zip(known.as_array().unwrap());
                pairs.for_each(|(sent, known)| assert_same(sent, known));
            }
            Some(known) => assert_eq!(value, known, "{name}"),
            None => assert!(is_default || value.is_null(), "the schema has no {name}: {value}"),
        }
    }
}

#[test]
fn the_answers_of_version_1_and_2_fit_the_schema() {
    let mut chat = Chat::initialized(&[], everything(1));
    let greeting = chat.request("initialize", everything(1));
    let read: schema::InitializeResponse = serde_json::from_value(greeting.clone()).unwrap();
    assert!(read.agent_capabilities.load_session && !read.auth_methods.is_empty());
    assert!(read.agent_capabilities.session_capabilities.resume.is_some());
    let new = chat.open(json!([]));
    let read: schema::NewSessionResponse = serde_json::from_value(new).unwrap();
    assert_eq!(read.config_options.map(|it| it.len()), Some(3));

    let mut chat = Chat::initialized(&[], everything(2));
    let greeting = chat.request("initialize", everything(2));
    let read: schema_v2::InitializeResponse = serde_json::from_value(greeting).unwrap();
    assert!(read.capabilities.session.is_some_and(|it| it.delete.is_some()));
    assert!(matches!(read.auth_methods[0], schema_v2::AuthMethod::Agent(_)));
    let new = chat.open(json!([]));
    let read: schema_v2::NewSessionResponse = serde_json::from_value(new).unwrap();
    assert_eq!(read.config_options.len(), 3);
    chat.send_prompt("edit the file");
    chat.read_turn(crate::chat::selected("allow"));
    let question = chat.questions[0].clone();
    let read: schema_v2::RequestPermissionRequest = serde_json::from_value(question).unwrap();
    let call = serde_json::to_value(read.subject).unwrap();
    let patch = &call["toolCall"]["content"][0]["patch"];
    assert_eq!(patch["format"], "git_patch", "{call}");
    assert!(patch["text"].as_str().unwrap().ends_with("+edit the file\n"), "{patch}");
}

/// Some updates of version 1 may only be sent to a client that has announced that it accepts them.
#[test]
fn updates_that_the_client_has_not_announced_are_not_sent() {
    let mut chat = Chat::new(json!([]));
    let answer = chat.prompt_and_answer("show all");
    let kinds: BTreeSet<&str> =
        answer.updates.iter().filter_map(|it| it["sessionUpdate"].as_str()).collect();
    for kind in ["notice", "compaction_update", "plan_update", "subagent_update"] {
        assert!(!kinds.contains(kind), "{kind}");
    }
    let why = "I have not shown notice, compaction, plan_update, subagent, session_message, because the editor has not announced";
    assert!(answer.text.contains(why), "{}", answer.text);
    let one = chat.prompt_and_answer("show usage_update");
    assert_eq!((one.kinds, one.text.as_str()), (vec!["usage_update".into()], ""));
    let unknown = chat.prompt_and_answer("show nonsense").text;
    assert!(unknown.starts_with("I cannot show “nonsense”. I can show `message`"), "{unknown}");
}
