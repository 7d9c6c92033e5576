//! The component `cache` and the agent `replay-agent`: what is recorded is replayed for the same conversation, whatever
//! ids and paths.

mod auto;
mod files;
mod order;
mod requests;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use acp_proxy::script::Conversation;
use serde_json::{Map, Value, json};

/// A file in a directory of its own.
fn file(name: &str) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("cache-{}-{name}", std::process::id()));
    drop(std::fs::remove_dir_all(&directory));
    std::fs::create_dir_all(&directory).expect("a directory");
    directory.join("recording.jsonl")
}

fn component(name: &str, words: &[&str]) -> acp_proxy::Component {
    let words: Vec<String> = words.iter().map(|&it| it.to_owned()).collect();
    let entry = components::find(name).expect("a component");
    entry.parse(&words, &Map::new()).unwrap_or_else(|why| panic!("{why}"))()
}

/// The two ways of replaying, and recording.
fn cache(mode: &str, file: &Path, more: &[&str]) -> Conversation {
    let file = file.to_str().expect("UTF-8");
    let words = [&["--mode", mode, "--file", file], more].concat();
    Conversation::new(component("cache", &words))
}

fn replay_agent(file: &Path, more: &[&str]) -> Conversation {
    let words = [&[file.to_str().expect("UTF-8")], more].concat();
    Conversation::new(component("replay-agent", &words))
}

/// An editor, and an agent that is scripted line by line.
struct Talk {
    conversation: Conversation,
    has_agent: bool,
    last: u64,
    received: VecDeque<Value>,
}

impl Talk {
    fn new(conversation: Conversation, has_agent: bool) -> Talk {
        Talk { conversation, has_agent, last: 0, received: VecDeque::new() }
    }

    fn send(&mut self, method: &str, params: Value) -> u64 {
        self.last += 1;
        let request = json!({ "id": self.last, "method": method, "params": params });
        self.conversation.send("editor", &request.to_string());
        self.last
    }

    fn notify(&mut self, method: &str, params: Value) {
        let notification = json!({ "method": method, "params": params });
        self.conversation.send("editor", &notification.to_string());
    }

    /// The agent receives a request, and gets the id to answer it.
    fn agent_receives(&mut self, method: &str) -> Value {
        let request = self.conversation.receive("agent");
        assert_eq!(request["method"], method, "{request}");
        request
    }

    fn agent_sends(&mut self, message: Value) {
        self.conversation.send("agent", &message.to_string());
    }

    fn agent_answers(&mut self, request: &Value, result: Value) {
        self.agent_sends(json!({ "id": request["id"], "result": result }));
    }

    fn editor_receives(&mut self) -> Value {
        self.received.pop_front().unwrap_or_else(|| self.conversation.receive("editor"))
    }

    fn editor_answers(&mut self, request: &Value, result: Value) {
        let answer = json!({ "id": request["id"], "result": result });
        self.conversation.send("editor", &answer.to_string());
    }

    /// `initialize`, which reaches an agent if there is one.
    fn greet(&mut self, version: u64) {
        let id = self.send("initialize", json!({ "protocolVersion": version, "clientInfo": { "name": format!("e{version}"), "version": "1" } }));
        if self.has_agent {
            let request = self.agent_receives("initialize");
            let result = match version {
                1 => json!({ "protocolVersion": 1, "agentCapabilities": { "loadSession": true } }),
                _ => json!({ "protocolVersion": 2, "info": { "name": "a" } }),
            };
            self.agent_answers(&request, result);
        }
        let answer = self.editor_receives();
        assert_eq!(
            (&answer["id"], &answer["result"]["protocolVersion"]),
            (&json!(id), &json!(version)),
            "{answer}"
        );
    }
}

fn update(session: &str, text: &str) -> Value {
    let update = json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } });
    json!({ "method": "session/update", "params": { "sessionId": session, "update": update } })
}

fn prompt(session: &str, text: &str) -> Value {
    json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] })
}

fn new_session(cwd: &str) -> Value {
    let server = json!({ "name": "s", "command": "x", "args": [], "env": [{ "name": "KEY", "value": "hidden-value" }] });
    json!({ "cwd": cwd, "mcpServers": [server] })
}

/// Records a session: a turn with a permission request and a file, and a cancelled turn. The user's answer is `option`.
fn record(path: &Path, option: &str) {
    let mut talk = Talk::new(cache("record", path, &[]), true);
    talk.greet(1);
    talk.send("session/new", new_session("/project/app"));
    let request = talk.agent_receives("session/new");
    talk.agent_answers(&request, json!({ "sessionId": "live-0123456789abcdef" }));
    assert_eq!(talk.editor_receives()["result"]["sessionId"], "live-0123456789abcdef");
    let session = "live-0123456789abcdef";
    talk.agent_sends(update(session, "ready"));
    talk.editor_receives();

    talk.send("session/prompt", prompt(session, "edit /project/app/a.rs"));
    let request = talk.agent_receives("session/prompt");
    let call = json!({ "sessionUpdate": "tool_call", "toolCallId": "toolu_77", "title": "Edit /project/app/a.rs" });
    talk.agent_sends(
        json!({ "method": "session/update", "params": { "sessionId": session, "update": call } }),
    );
    talk.editor_receives();
    let ask = json!({ "sessionId": session, "toolCall": { "toolCallId": "toolu_77" },
        "options": [{ "optionId": "yes", "name": "Yes", "kind": "allow_once" }, { "optionId": "no", "name": "No", "kind": "reject_once" }] });
    talk.agent_sends(json!({ "id": 1, "method": "session/request_permission", "params": ask }));
    let question = talk.editor_receives();
    talk.editor_answers(
        &question,
        json!({ "outcome": { "outcome": "selected", "optionId": option } }),
    );
    talk.conversation.receive("agent");
    if option == "yes" {
        talk.agent_sends(json!({ "id": 2, "method": "fs/read_text_file", "params": { "sessionId": session, "path": "/project/app/a.rs" } }));
        let question = talk.editor_receives();
        talk.editor_answers(&question, json!({ "content": "fn main() {}" }));
        talk.conversation.receive("agent");
    }
    talk.agent_sends(update(session, &format!("answered {option}")));
    talk.editor_receives();
    talk.agent_answers(&request, json!({ "stopReason": "end_turn" }));
    talk.editor_receives();

    talk.send("session/prompt", prompt(session, "wait"));
    let request = talk.agent_receives("session/prompt");
    talk.agent_sends(update(session, "waiting"));
    talk.editor_receives();
    talk.notify("session/cancel", json!({ "sessionId": session }));
    talk.conversation.receive("agent");
    talk.agent_answers(&request, json!({ "stopReason": "cancelled" }));
    talk.editor_receives();
}

/// Replays the beginning of that session in a directory: the session and its first turn. Returns the id of the session.
fn replay_edit(talk: &mut Talk, directory: &str) -> String {
    talk.send("session/new", new_session(directory));
    let session = talk.editor_receives()["result"]["sessionId"].as_str().expect("an id").to_owned();
    talk.editor_receives();
    talk.send("session/prompt", prompt(&session, &format!("edit {directory}/a.rs")));
    talk.editor_receives();
    for answer in [
        json!({ "outcome": { "outcome": "selected", "optionId": "yes" } }),
        json!({ "content": "fn main() {}" }),
    ] {
        let question = talk.editor_receives();
        talk.editor_answers(&question, answer);
    }
    talk.editor_receives();
    talk.editor_receives();
    session
}

/// Replays that session from another directory. Returns the last message of the editor.
fn replay(mut talk: Talk, option: &str) -> Talk {
    talk.greet(1);
    talk.send("session/new", new_session("/elsewhere"));
    let answer = talk.editor_receives();
    let session =
        answer["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
    assert_eq!(talk.editor_receives(), update(&session, "ready"));
    let id = talk.send("session/prompt", prompt(&session, "edit /elsewhere/a.rs"));
    let call = talk.editor_receives();
    assert_eq!(call["params"]["update"]["title"], "Edit /elsewhere/a.rs");
    let question = talk.editor_receives();
    assert_eq!(question["method"], "session/request_permission");
    assert_eq!(
        question["params"]["toolCall"]["toolCallId"],
        call["params"]["update"]["toolCallId"]
    );
    talk.editor_answers(
        &question,
        json!({ "outcome": { "outcome": "selected", "optionId": option } }),
    );
    if option == "yes" {
        let question = talk.editor_receives();
        assert_eq!(question["params"], json!({ "sessionId": session, "path": "/elsewhere/a.rs" }));
        talk.editor_answers(&question, json!({ "content": "fn main() {}" }));
    }
    assert_eq!(talk.editor_receives(), update(&session, &format!("answered {option}")));
    assert_eq!(talk.editor_receives(), json!({ "id": id, "result": { "stopReason": "end_turn" } }));

    let id = talk.send("session/prompt", prompt(&session, "wait"));
    assert_eq!(talk.editor_receives(), update(&session, "waiting"));
    talk.notify("session/cancel", json!({ "sessionId": session }));
    assert_eq!(
        talk.editor_receives(),
        json!({ "id": id, "result": { "stopReason": "cancelled" } })
    );
    talk
}

#[test]
fn a_conversation_is_replayed_in_another_directory_with_and_without_an_agent() {
    let path = file("replay");
    record(&path, "yes");
    replay(Talk::new(replay_agent(&path, &[]), false), "yes");
    replay(Talk::new(cache("replay", &path, &[]), true), "yes");
    replay(Talk::new(replay_agent(&path, &["--pace", "1ms"]), false), "yes");
}

#[test]
fn the_file_is_readable_private_and_the_same_for_the_same_conversation() {
    let (one, two) = (file("one"), file("two"));
    record(&one, "yes");
    record(&two, "yes");
    let text = std::fs::read_to_string(&one).expect("a recording");
    assert_eq!(text, std::fs::read_to_string(&two).expect("a recording"));
    assert!(text.starts_with("{\"recording\":1}\n"), "{text}");
    assert!(text.contains("edit $CWD/a.rs") && text.contains("$session:1"), "{text}");
    assert!(!text.contains("hidden-value") && !text.contains("/project/app"), "{text}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(&one).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let directory = one.parent().expect("a directory");
    assert_eq!(
        std::fs::read_dir(directory).expect("a directory").count(),
        1,
        "nothing is left over"
    );
}

#[test]
fn another_answer_is_another_branch_and_both_can_be_recorded() {
    let path = file("branches");
    record(&path, "yes");
    // The branch is not recorded.
    let mut talk = Talk::new(replay_agent(&path, &[]), false);
    talk.greet(1);
    talk.send("session/new", new_session("/w"));
    let session = talk.editor_receives()["result"]["sessionId"].as_str().expect("an id").to_owned();
    talk.editor_receives();
    let id = talk.send("session/prompt", prompt(&session, "edit /w/a.rs"));
    talk.editor_receives();
    let question = talk.editor_receives();
    talk.editor_answers(
        &question,
        json!({ "outcome": { "outcome": "selected", "optionId": "no" } }),
    );
    let answer = talk.editor_receives();
    assert_eq!(answer["id"], id);
    let why = answer["error"]["message"].as_str().expect("an error");
    assert!(
        why.contains("session/request_permission was answered with") && why.contains("\"no\""),
        "{why}"
    );
    assert!(why.contains("[more: conductor errors not-recorded]"), "{why}");

    record(&path, "no");
    replay(Talk::new(replay_agent(&path, &[]), false), "yes");
    replay(Talk::new(replay_agent(&path, &[]), false), "no");
}

#[test]
fn a_message_that_is_not_recorded_is_a_clear_error() {
    let path = file("missing");
    record(&path, "yes");
    for (conversation, has_agent) in
        [(replay_agent(&path, &[]), false), (cache("replay", &path, &[]), true)]
    {
        let mut talk = Talk::new(conversation, has_agent);
        talk.greet(1);
        talk.send("session/new", new_session("/w"));
        let session =
            talk.editor_receives()["result"]["sessionId"].as_str().expect("an id").to_owned();
        talk.editor_receives();
        talk.send("session/prompt", prompt(&session, "edit /w/b.rs"));
        let error = &talk.editor_receives()["error"];
        let why = error["message"].as_str().expect("an error");
        for part in [
            "session/prompt is not recorded in",
            "\"edit $CWD/b.rs\" was sent after 1 recorded message",
            "differs in prompt[0].text: \"edit $CWD/a.rs\" is recorded",
            "cache --mode record --file",
        ] {
            assert!(why.contains(part), "{part}: {why}");
        }
        assert_eq!(
            (&error["code"], &error["data"]["code"]),
            (&json!(-32603), &json!("not-recorded"))
        );
        // The session is still at the same place.
        talk.send("session/set_mode", json!({ "sessionId": session, "modeId": "plan" }));
        let why = talk.editor_receives()["error"]["message"].to_string();
        assert!(why.contains("the recording has no session/set_mode at all"), "{why}");
        // A session that nobody has opened.
        talk.send("session/prompt", prompt("other", "hi"));
        assert!(
            talk.editor_receives()["error"]["message"].to_string().contains("session is not known")
        );
        talk.send("session/close", json!({ "sessionId": session }));
        assert_eq!(talk.editor_receives()["result"], json!({}));
    }
}

#[test]
fn a_wrong_recording_is_refused_before_the_chain_starts() {
    let path = file("wrong");
    std::fs::write(&path, "{\"recording\":1}\n{\"entry\":1}\n").expect("written");
    let text = path.to_str().expect("UTF-8");
    let parse = |name: &str, words: &[&str]| {
        let words: Vec<String> = words.iter().map(|&it| it.to_owned()).collect();
        components::find(name)
            .expect("a component")
            .parse(&words, &Map::new())
            .err()
            .unwrap_or_default()
    };
    for error in [
        parse("cache", &["--file", text]),
        parse("cache", &["--mode", "replay", "--file", text]),
        parse("replay-agent", &[text]),
    ] {
        assert!(error.contains("recording.jsonl:2: this is not a line of a recording"), "{error}");
    }
    let missing = parse("replay-agent", &["/nowhere/r.jsonl"]);
    assert!(
        missing.contains("there is no such file") && missing.contains("--mode record"),
        "{missing}"
    );
    let missing = parse("cache", &["--mode", "record", "--file", "/nowhere/r.jsonl"]);
    assert!(missing.contains("there is no such directory"), "{missing}");
    let wrong = parse("cache", &["--mode", "sometimes"]);
    assert!(wrong.contains("sometimes"), "{wrong}");
}

/// After a restart, the component does not know the sessions: they are not recorded, and nothing of them is replayed.
#[test]
fn after_a_restart_a_session_is_passed_on_in_record_mode_and_refused_in_replay_mode() {
    let path = file("restart");
    record(&path, "yes");
    let before = std::fs::read_to_string(&path).expect("a recording");
    let mut talk = Talk::new(cache("record", &path, &[]), true);
    talk.send("session/prompt", prompt("live-0123456789abcdef", "again"));
    let request = talk.agent_receives("session/prompt");
    talk.agent_sends(update("live-0123456789abcdef", "yes"));
    talk.editor_receives();
    talk.agent_answers(&request, json!({ "stopReason": "end_turn" }));
    assert_eq!(talk.editor_receives()["result"]["stopReason"], "end_turn");
    drop(talk);
    assert_eq!(std::fs::read_to_string(&path).expect("a recording"), before);
    let mut talk = Talk::new(cache("replay", &path, &[]), true);
    talk.send("session/prompt", prompt("live-0123456789abcdef", "again"));
    assert_eq!(talk.editor_receives()["error"]["data"]["code"], "not-recorded");
}

#[test]
fn an_absurd_version_of_the_editor_gets_the_recorded_greeting() {
    let path = file("version");
    record(&path, "yes");
    for version in [i64::MIN, i64::MAX] {
        let mut talk = Talk::new(replay_agent(&path, &[]), false);
        talk.send("initialize", json!({ "protocolVersion": version }));
        assert_eq!(talk.editor_receives()["result"]["protocolVersion"], 1);
    }
}
