//! Requests other than prompts, several sessions, and ACP version 2.

use serde_json::json;

use crate::{Talk, cache, file, new_session, prompt, record, replay_agent, update};

#[test]
fn in_version_2_states_and_messages_are_replayed_as_they_came() {
    let path = file("version-2");
    let state = |session: &str, state: &str| {
        let update = json!({ "sessionUpdate": "state_update", "state": state });
        json!({ "method": "session/update", "params": { "sessionId": session, "update": update } })
    };
    let chunk = |session: &str, message: &str| {
        let update = json!({ "sessionUpdate": "agent_message_chunk", "messageId": message, "content": { "type": "text", "text": "hi" } });
        json!({ "method": "session/update", "params": { "sessionId": session, "update": update } })
    };
    let mut talk = Talk::new(cache("record", &path, &[]), true);
    talk.greet(2);
    talk.send("session/new", json!({ "cwd": "/w" }));
    let request = talk.agent_receives("session/new");
    talk.agent_answers(&request, json!({ "sessionId": "live" }));
    talk.editor_receives();
    talk.send("session/prompt", prompt("live", "hi"));
    let request = talk.agent_receives("session/prompt");
    talk.agent_answers(&request, json!({ "messageId": "user-77" }));
    assert_eq!(talk.editor_receives()["result"]["messageId"], "user-77");
    for message in [state("live", "running"), chunk("live", "m-99"), state("live", "idle")] {
        talk.agent_sends(message.clone());
        assert_eq!(talk.editor_receives(), message);
    }
    drop(talk);
    for (conversation, has_agent) in
        [(replay_agent(&path, &[]), false), (cache("replay", &path, &[]), true)]
    {
        let mut talk = Talk::new(conversation, has_agent);
        talk.greet(2);
        talk.send("session/new", json!({ "cwd": "/v" }));
        let session =
            talk.editor_receives()["result"]["sessionId"].as_str().expect("an id").to_owned();
        talk.send("session/prompt", prompt(&session, "hi"));
        assert_eq!(talk.editor_receives()["result"], json!({ "messageId": "message-1" }));
        for message in
            [state(&session, "running"), chunk(&session, "message-2"), state(&session, "idle")]
        {
            assert_eq!(talk.editor_receives(), message);
        }
    }
}

#[test]
fn several_sessions_are_replayed_at_the_same_time() {
    let path = file("sessions");
    record(&path, "yes");
    let mut talk = Talk::new(replay_agent(&path, &[]), false);
    talk.greet(1);
    let sessions: Vec<String> = ["/a", "/b"]
        .iter()
        .map(|cwd| {
            talk.send("session/new", new_session(cwd));
            let id =
                talk.editor_receives()["result"]["sessionId"].as_str().expect("an id").to_owned();
            talk.editor_receives();
            id
        })
        .collect();
    assert_ne!(sessions[0], sessions[1]);
    for (session, cwd) in sessions.iter().zip(["/a", "/b"]) {
        talk.send("session/prompt", prompt(session, &format!("edit {cwd}/a.rs")));
        let call = talk.editor_receives();
        assert_eq!(call["params"]["update"]["title"], format!("Edit {cwd}/a.rs"));
        assert_eq!(talk.editor_receives()["params"]["sessionId"], **session);
    }
}

#[test]
fn mcp_requests_of_the_agent_are_replayed_with_the_server_of_this_run() {
    let path = file("mcp");
    let new = |id: &str| json!({ "cwd": "/w", "mcpServers": [{ "type": "acp", "name": "tools", "id": id }] });
    let list = |server: &str, request: &str| json!({ "serverId": server, "requestId": request, "method": "tools/list", "params": {} });
    let mut talk = Talk::new(cache("record", &path, &[]), true);
    talk.greet(1);
    talk.send("session/new", new("first-server"));
    let request = talk.agent_receives("session/new");
    talk.agent_sends(
        json!({ "id": 5, "method": "mcp/message", "params": list("first-server", "r-9") }),
    );
    let question = talk.editor_receives();
    talk.editor_answers(&question, json!({ "result": { "tools": [] } }));
    talk.conversation.receive("agent");
    talk.agent_answers(&request, json!({ "sessionId": "s" }));
    talk.editor_receives();
    drop(talk);

    let mut talk = Talk::new(replay_agent(&path, &[]), false);
    talk.greet(1);
    talk.send("session/new", new("second-server"));
    let question = talk.editor_receives();
    assert_eq!(question["params"], list("second-server", "request-1"));
    talk.editor_answers(&question, json!({ "result": { "tools": [] } }));
    assert!(talk.editor_receives()["result"]["sessionId"].is_string());
}

#[test]
fn other_requests_and_loaded_sessions_are_replayed() {
    let path = file("others");
    let history = |session: &str| {
        let update = json!({ "sessionUpdate": "user_message_chunk", "content": { "type": "text", "text": "before" } });
        json!({ "method": "session/update", "params": { "sessionId": session, "update": update } })
    };
    let load = |session: &str| json!({ "sessionId": session, "cwd": "/w", "mcpServers": [] });
    let mode = |session: &str| json!({ "sessionId": session, "modeId": "plan" });
    let mut talk = Talk::new(cache("record", &path, &[]), true);
    talk.greet(1);
    talk.send("authenticate", json!({ "methodId": "key" }));
    let request = talk.agent_receives("authenticate");
    talk.agent_answers(&request, json!({}));
    talk.editor_receives();
    talk.send("session/load", load("old-session"));
    let request = talk.agent_receives("session/load");
    talk.agent_sends(history("old-session"));
    talk.editor_receives();
    talk.agent_answers(&request, json!({ "modes": { "currentModeId": "code" } }));
    talk.editor_receives();
    talk.send("session/set_mode", mode("old-session"));
    let request = talk.agent_receives("session/set_mode");
    talk.agent_sends(json!({ "id": request["id"], "error": { "code": -5, "message": "no", "data": { "x": 1 } } }));
    talk.editor_receives();
    talk.send("session/fork", load("old-session"));
    let request = talk.agent_receives("session/fork");
    talk.agent_answers(&request, json!({ "sessionId": "forked" }));
    talk.editor_receives();
    for (session, text) in [("old-session", "old"), ("forked", "new")] {
        talk.send("session/prompt", prompt(session, text));
        let request = talk.agent_receives("session/prompt");
        talk.agent_sends(update(session, text));
        talk.agent_answers(&request, json!({ "stopReason": "end_turn" }));
        talk.editor_receives();
        talk.editor_receives();
    }
    drop(talk);

    let mut talk = Talk::new(replay_agent(&path, &[]), false);
    talk.greet(1);
    talk.send("authenticate", json!({ "methodId": "key" }));
    assert_eq!(talk.editor_receives()["result"], json!({}));
    talk.send("session/load", load("mine"));
    assert_eq!(talk.editor_receives(), history("mine"));
    assert_eq!(talk.editor_receives()["result"]["modes"]["currentModeId"], "code");
    talk.send("session/set_mode", mode("mine"));
    assert_eq!(
        talk.editor_receives()["error"],
        json!({ "code": -5, "message": "no", "data": { "x": 1 } })
    );
    talk.send("session/fork", load("mine"));
    let forked = talk.editor_receives()["result"]["sessionId"].as_str().expect("an id").to_owned();
    for (session, text) in [(forked.as_str(), "new"), ("mine", "old")] {
        talk.send("session/prompt", prompt(session, text));
        assert_eq!(talk.editor_receives(), update(session, text));
        talk.editor_receives();
    }
}

/// Each session of the agent has its own history. The list of sessions is replayed with the ids of the agent.
#[test]
fn loaded_sessions_are_told_apart_by_their_ids() {
    let path = file("loads");
    let load = |session: &str| json!({ "sessionId": session, "cwd": "/w", "mcpServers": [] });
    let list = json!({ "sessions": [{ "sessionId": "alpha" }, { "sessionId": "beta" }] });
    let mut talk = Talk::new(cache("record", &path, &[]), true);
    talk.greet(1);
    talk.send("session/list", json!({}));
    let request = talk.agent_receives("session/list");
    talk.agent_answers(&request, list.clone());
    assert_eq!(talk.editor_receives()["result"], list);
    for session in ["alpha", "beta"] {
        talk.send("session/load", load(session));
        let request = talk.agent_receives("session/load");
        talk.agent_sends(update(session, &format!("history of {session}")));
        talk.agent_answers(&request, json!({}));
        talk.editor_receives();
        talk.editor_receives();
    }
    drop(talk);
    let mut talk = Talk::new(replay_agent(&path, &[]), false);
    talk.greet(1);
    talk.send("session/list", json!({}));
    assert_eq!(talk.editor_receives()["result"], list);
    for session in ["beta", "alpha"] {
        talk.send("session/load", load(session));
        assert_eq!(talk.editor_receives(), update(session, &format!("history of {session}")));
        assert_eq!(talk.editor_receives()["result"], json!({}));
    }
    talk.send("session/load", load("gamma"));
    assert_eq!(talk.editor_receives()["error"]["data"]["code"], "not-recorded");
}

/// Some editors have one server for all sessions, with one id.
#[test]
fn a_server_that_two_sessions_share_belongs_to_the_session_with_the_turn() {
    let path = file("shared-server");
    let new =
        json!({ "cwd": "/w", "mcpServers": [{ "type": "acp", "name": "tools", "id": "shared" }] });
    let call = |session: &str| json!({ "serverId": "shared", "requestId": "r", "method": "tools/call", "params": { "for": session } });
    let mut talk = Talk::new(cache("record", &path, &[]), true);
    talk.greet(1);
    for session in ["one", "two"] {
        talk.send("session/new", new.clone());
        let request = talk.agent_receives("session/new");
        talk.agent_answers(&request, json!({ "sessionId": session }));
        talk.editor_receives();
    }
    for session in ["one", "two"] {
        talk.send("session/prompt", prompt(session, session));
        let request = talk.agent_receives("session/prompt");
        talk.agent_sends(json!({ "id": 5, "method": "mcp/message", "params": call(session) }));
        let question = talk.editor_receives();
        talk.editor_answers(&question, json!({ "result": {} }));
        talk.conversation.receive("agent");
        talk.agent_answers(&request, json!({ "stopReason": "end_turn" }));
        talk.editor_receives();
    }
    drop(talk);
    let mut talk = Talk::new(replay_agent(&path, &[]), false);
    talk.greet(1);
    for name in ["one", "two"] {
        talk.send("session/new", new.clone());
        let session =
            talk.editor_receives()["result"]["sessionId"].as_str().expect("an id").to_owned();
        talk.send("session/prompt", prompt(&session, name));
        let question = talk.editor_receives();
        assert_eq!(question["params"]["params"]["for"], name);
        talk.editor_answers(&question, json!({ "result": {} }));
        assert_eq!(talk.editor_receives()["result"]["stopReason"], "end_turn");
    }
}

/// A message of the agent that names no session belongs to the turn that runs.
#[test]
fn a_message_without_a_session_is_replayed_in_its_turn() {
    let path = file("without-session");
    let status = json!({ "method": "_vendor/status", "params": { "n": 1 } });
    let mut talk = Talk::new(cache("record", &path, &[]), true);
    talk.greet(1);
    talk.send("session/new", new_session("/w"));
    let request = talk.agent_receives("session/new");
    talk.agent_answers(&request, json!({ "sessionId": "s" }));
    talk.editor_receives();
    talk.send("session/prompt", prompt("s", "hi"));
    let request = talk.agent_receives("session/prompt");
    talk.agent_sends(update("s", "a"));
    talk.editor_receives();
    talk.agent_sends(status.clone());
    talk.editor_receives();
    talk.agent_answers(&request, json!({ "stopReason": "end_turn" }));
    talk.editor_receives();
    drop(talk);
    let mut talk = Talk::new(replay_agent(&path, &[]), false);
    talk.greet(1);
    talk.send("session/new", new_session("/w"));
    let session = talk.editor_receives()["result"]["sessionId"].as_str().expect("an id").to_owned();
    talk.send("session/prompt", prompt(&session, "hi"));
    assert_eq!(talk.editor_receives(), update(&session, "a"));
    assert_eq!(talk.editor_receives(), status);
    assert_eq!(talk.editor_receives()["result"]["stopReason"], "end_turn");
}
