//! The mode `auto`: the recording answers what it has, and then the agent.

use std::path::Path;

use serde_json::{Value, json};

use crate::{Talk, cache, file, new_session, prompt, record, replay_agent, replay_edit, update};

/// Begins a conversation in the mode `auto`.
fn auto(path: &Path) -> Talk {
    let mut talk = Talk::new(cache("auto", path, &[]), true);
    talk.greet(1);
    talk
}

/// Opens a session that the agent answers.
fn live_session(talk: &mut Talk, id: &str) {
    talk.send("session/new", new_session("/w"));
    let request = talk.agent_receives("session/new");
    talk.agent_answers(&request, json!({ "sessionId": id }));
    assert_eq!(talk.editor_receives()["result"]["sessionId"], id);
}

/// Opens a session that the recording answers.
fn replayed_session(talk: &mut Talk) -> String {
    talk.send("session/new", new_session("/w"));
    talk.editor_receives()["result"]["sessionId"].as_str().expect("an id").to_owned()
}

/// A prompt in a replayed session goes to the agent. Returns the request that the agent receives.
fn goes_live(talk: &mut Talk) -> Value {
    let request = talk.agent_receives("session/new");
    talk.agent_answers(&request, json!({ "sessionId": "new-id" }));
    let request = talk.agent_receives("session/prompt");
    assert_eq!(request["params"]["sessionId"], "new-id");
    request
}

fn end_turn(talk: &mut Talk, request: &Value) {
    talk.agent_answers(request, json!({ "stopReason": "end_turn" }));
    assert_eq!(talk.editor_receives()["result"]["stopReason"], "end_turn");
}

#[test]
fn auto_replays_what_is_recorded_and_continues_with_the_agent() {
    let path = file("auto");
    record(&path, "yes");
    let mut talk = Talk::new(cache("auto", &path, &[]), true);
    talk.greet(1);
    let session = replay_edit(&mut talk, "/w");

    // The agent has not seen this session. It gets the conversation so far, and the new prompt.
    let id = talk.send("session/prompt", prompt(&session, "and now?"));
    let request = talk.agent_receives("session/new");
    assert_eq!(request["params"], new_session("/w"));
    talk.agent_sends(update("other-id", "seen by nobody"));
    talk.agent_answers(&request, json!({ "sessionId": "other-id" }));
    let request = talk.agent_receives("session/prompt");
    assert_eq!(request["params"]["sessionId"], "other-id");
    let texts = request["params"]["prompt"].as_array().expect("blocks");
    let so_far = texts[0]["text"].as_str().expect("text");
    assert!(so_far.contains("User: edit /w/a.rs") && so_far.contains("answered yes"), "{so_far}");
    assert_eq!(texts[1]["text"], "and now?");
    talk.agent_sends(update("other-id", "done"));
    assert_eq!(talk.editor_receives(), update(&session, "done"));
    talk.agent_sends(json!({ "id": 7, "method": "fs/read_text_file", "params": { "sessionId": "other-id", "path": "/w/b" } }));
    let question = talk.editor_receives();
    assert_eq!(question["params"]["sessionId"], *session);
    talk.editor_answers(&question, json!({ "content": "b" }));
    talk.conversation.receive("agent");
    talk.agent_answers(&request, json!({ "stopReason": "end_turn" }));
    assert_eq!(talk.editor_receives(), json!({ "id": id, "result": { "stopReason": "end_turn" } }));
    // From now on, the agent answers.
    talk.notify("session/cancel", json!({ "sessionId": session }));
    assert_eq!(talk.conversation.receive("agent")["params"]["sessionId"], "other-id");
    // A session that is not recorded goes to the agent from its beginning.
    talk.send("session/new", json!({ "cwd": "/w", "mcpServers": [] }));
    let request = talk.agent_receives("session/new");
    talk.agent_answers(&request, json!({ "sessionId": "third" }));
    assert_eq!(talk.editor_receives()["result"]["sessionId"], "third");
    drop(talk);

    // Now the whole conversation is recorded.
    let mut talk = Talk::new(replay_agent(&path, &[]), false);
    talk.greet(1);
    let session = replay_edit(&mut talk, "/v");
    let id = talk.send("session/prompt", prompt(&session, "and now?"));
    assert_eq!(talk.editor_receives(), update(&session, "done"));
    let question = talk.editor_receives();
    assert_eq!(question["params"]["path"], "/v/b");
    talk.editor_answers(&question, json!({ "content": "b" }));
    assert_eq!(talk.editor_receives()["id"], id);
}

/// What is being recorded is not replayed: the agent answers both.
#[test]
fn the_same_requests_at_the_same_time_all_reach_the_agent() {
    let path = file("auto-parallel");
    let mut talk = auto(&path);
    let ids = [(); 2].map(|()| talk.send("session/new", new_session("/w")));
    for (id, session) in ids.iter().zip(["one", "two"]) {
        let request = talk.agent_receives("session/new");
        talk.agent_answers(&request, json!({ "sessionId": session }));
        assert_eq!(talk.editor_receives(), json!({ "id": id, "result": { "sessionId": session } }));
    }
    for session in ["one", "two"] {
        talk.send("session/prompt", prompt(session, "hi"));
    }
    let requests = [(); 2].map(|()| talk.agent_receives("session/prompt"));
    requests.iter().for_each(|request| end_turn(&mut talk, request));
    drop(talk);
    let mut talk = auto(&path);
    let session = replayed_session(&mut talk);
    talk.send("session/prompt", prompt(&session, "hi"));
    assert_eq!(talk.editor_receives()["result"]["stopReason"], "end_turn");
}

/// A turn that ends with an error of the conductor, or not at all, is not recorded.
#[test]
fn a_turn_without_its_end_is_not_recorded() {
    for is_answered in [true, false] {
        let path = file(&format!("auto-unfinished-{is_answered}"));
        let mut talk = auto(&path);
        live_session(&mut talk, "one");
        let before = std::fs::read_to_string(&path).expect("a recording");
        talk.send("session/prompt", prompt("one", "hi"));
        let request = talk.agent_receives("session/prompt");
        talk.agent_sends(update("one", "begin"));
        talk.editor_receives();
        if is_answered {
            let error = json!({ "code": -32603, "message": "gone", "data": { "code": "crashed" } });
            talk.agent_sends(json!({ "id": request["id"], "error": error }));
            assert_eq!(talk.editor_receives()["error"], error);
        }
        drop(talk);
        assert_eq!(std::fs::read_to_string(&path).expect("a recording"), before);

        // The agent gets it again, and then it is recorded.
        let mut talk = auto(&path);
        let session = replayed_session(&mut talk);
        talk.send("session/prompt", prompt(&session, "hi"));
        let request = goes_live(&mut talk);
        end_turn(&mut talk, &request);
        drop(talk);
        let mut talk = auto(&path);
        let session = replayed_session(&mut talk);
        talk.send("session/prompt", prompt(&session, "hi"));
        assert_eq!(talk.editor_receives()["result"]["stopReason"], "end_turn");
    }
}

/// In a recording of an earlier version, or after a kill while the file was written, a turn may have no end.
#[test]
fn an_incomplete_turn_in_the_file_goes_to_the_agent() {
    let path = file("auto-cut");
    let mut talk = auto(&path);
    live_session(&mut talk, "one");
    talk.send("session/prompt", prompt("one", "hi"));
    let request = talk.agent_receives("session/prompt");
    talk.agent_sends(update("one", "begin"));
    talk.editor_receives();
    end_turn(&mut talk, &request);
    drop(talk);
    let text = std::fs::read_to_string(&path).expect("a recording");
    std::fs::write(&path, &text[..text.len() - 20]).expect("written");
    let mut talk = auto(&path);
    let session = replayed_session(&mut talk);
    talk.send("session/prompt", prompt(&session, "hi"));
    let request = goes_live(&mut talk);
    end_turn(&mut talk, &request);
    drop(talk);
    replay_agent(&path, &[]);
}

#[test]
fn a_login_always_reaches_the_agent_and_a_refused_session_is_asked_for_again() {
    let path = file("auto-login");
    for mode in ["record", "auto"] {
        let mut talk = Talk::new(cache(mode, &path, &[]), true);
        talk.greet(1);
        if mode == "record" {
            talk.send("session/new", new_session("/w"));
            let request = talk.agent_receives("session/new");
            let error = json!({ "code": -32000, "message": "Authentication required" });
            talk.agent_sends(json!({ "id": request["id"], "error": error }));
            assert_eq!(talk.editor_receives()["error"], error);
        }
        talk.send("authenticate", json!({ "methodId": "key" }));
        let request = talk.agent_receives("authenticate");
        talk.agent_answers(&request, json!({}));
        assert_eq!(talk.editor_receives()["result"], json!({}));
        match mode {
            "record" => live_session(&mut talk, "one"),
            _ => drop(replayed_session(&mut talk)),
        }
    }
    // A replay has the login, and the session that the agent opened after it.
    let mut talk = Talk::new(replay_agent(&path, &[]), false);
    talk.greet(1);
    talk.send("authenticate", json!({ "methodId": "key" }));
    assert_eq!(talk.editor_receives()["result"], json!({}));
    replayed_session(&mut talk);
}

/// A session that is loaded after the login takes the place of the one that was refused.
#[test]
fn a_loaded_session_is_asked_for_again_after_it_was_refused() {
    let path = file("auto-load");
    let load = json!({ "sessionId": "old", "cwd": "/w", "mcpServers": [] });
    for mode in ["record", "auto"] {
        let mut talk = Talk::new(cache(mode, &path, &[]), true);
        talk.greet(1);
        if mode == "record" {
            talk.send("session/load", load.clone());
            let request = talk.agent_receives("session/load");
            let error = json!({ "code": -32000, "message": "Authentication required" });
            talk.agent_sends(json!({ "id": request["id"], "error": error }));
            assert_eq!(talk.editor_receives()["error"], error);
            talk.send("session/load", load.clone());
            let request = talk.agent_receives("session/load");
            talk.agent_answers(&request, json!({ "modes": null }));
            assert_eq!(talk.editor_receives()["result"], json!({ "modes": null }));
            continue;
        }
        talk.send("session/load", load.clone());
        assert_eq!(talk.editor_receives()["result"], json!({ "modes": null }));
    }
}

/// The agent refuses the session that takes the place of a replayed one. The replayed session goes on.
#[test]
fn a_session_goes_on_after_the_agent_has_refused_to_open_it() {
    let path = file("auto-refused");
    let mut talk = auto(&path);
    live_session(&mut talk, "one");
    drop(talk);
    let mut talk = auto(&path);
    let session = replayed_session(&mut talk);
    talk.send("session/prompt", prompt(&session, "hi"));
    let request = talk.agent_receives("session/new");
    let error = json!({ "code": -32000, "message": "Authentication required" });
    talk.agent_sends(json!({ "id": request["id"], "error": error }));
    assert_eq!(talk.editor_receives()["error"], error);
    talk.send("session/prompt", prompt(&session, "hi"));
    let request = goes_live(&mut talk);
    end_turn(&mut talk, &request);
}

/// If a turn was only recorded with its cancellation, the agent gets the prompt at once.
#[test]
fn a_turn_that_was_only_recorded_as_cancelled_goes_to_the_agent() {
    let path = file("auto-cancelled");
    record(&path, "yes");
    let mut talk = auto(&path);
    let session = replay_edit(&mut talk, "/w");
    talk.send("session/prompt", prompt(&session, "wait"));
    let request = goes_live(&mut talk);
    talk.agent_sends(update("new-id", "done"));
    assert_eq!(talk.editor_receives(), update(&session, "done"));
    end_turn(&mut talk, &request);
    drop(talk);
    let mut talk = auto(&path);
    let session = replay_edit(&mut talk, "/w");
    talk.send("session/prompt", prompt(&session, "wait"));
    assert_eq!(talk.editor_receives(), update(&session, "done"));
    assert_eq!(talk.editor_receives()["result"]["stopReason"], "end_turn");
}

/// Another answer of the user is another branch. The agent gets the prompt again, and the branch is recorded.
#[test]
fn another_answer_in_a_turn_goes_to_the_agent() {
    let path = file("auto-branch");
    record(&path, "yes");
    let mut talk = auto(&path);
    let session = replayed_session(&mut talk);
    talk.editor_receives();
    talk.send("session/prompt", prompt(&session, "edit /w/a.rs"));
    talk.editor_receives();
    let question = talk.editor_receives();
    let no = json!({ "outcome": { "outcome": "selected", "optionId": "no" } });
    talk.editor_answers(&question, no.clone());
    let request = goes_live(&mut talk);
    let texts = request["params"]["prompt"].to_string();
    assert_eq!(texts.matches("edit /w/a.rs").count(), 1, "{texts}");
    let mut ask = question["params"].clone();
    ask["sessionId"] = json!("new-id");
    talk.agent_sends(json!({ "id": 9, "method": "session/request_permission", "params": ask }));
    let question = talk.editor_receives();
    assert_eq!(question["params"]["sessionId"], *session);
    talk.editor_answers(&question, no.clone());
    assert_eq!(talk.conversation.receive("agent")["result"], no);
    talk.agent_sends(update("new-id", "refused"));
    assert_eq!(talk.editor_receives(), update(&session, "refused"));
    end_turn(&mut talk, &request);
    drop(talk);

    let mut talk = auto(&path);
    let session = replayed_session(&mut talk);
    talk.editor_receives();
    talk.send("session/prompt", prompt(&session, "edit /w/a.rs"));
    let question = talk.editor_receives();
    talk.editor_answers(&question, no);
    assert_eq!(talk.editor_receives(), update(&session, "refused"));
    assert_eq!(talk.editor_receives()["result"]["stopReason"], "end_turn");
}

/// The same in ACP version 2, where the prompt was accepted before: the editor sees no second answer.
#[test]
fn in_version_2_another_answer_in_a_turn_goes_to_the_agent() {
    let path = file("auto-branch-2");
    let state = |session: &str, state: &str| {
        let update = json!({ "sessionUpdate": "state_update", "state": state });
        json!({ "method": "session/update", "params": { "sessionId": session, "update": update } })
    };
    let ask = |session: &str| json!({ "id": 9, "method": "session/request_permission", "params": { "sessionId": session, "options": [] } });
    let answer = |option: &str| json!({ "outcome": { "outcome": "selected", "optionId": option } });
    for (option, is_first) in [("yes", true), ("no", false)] {
        let mut talk = Talk::new(cache("auto", &path, &[]), true);
        talk.greet(2);
        talk.send("session/new", json!({ "cwd": "/w" }));
        if is_first {
            let request = talk.agent_receives("session/new");
            talk.agent_answers(&request, json!({ "sessionId": "new-id" }));
        }
        let session = talk.editor_receives()["result"]["sessionId"].clone();
        let session = session.as_str().expect("an id");
        talk.send("session/prompt", prompt(session, "hi"));
        if !is_first {
            assert_eq!(talk.editor_receives()["result"], json!({}));
            assert_eq!(talk.editor_receives(), state(session, "running"));
            let question = talk.editor_receives();
            talk.editor_answers(&question, answer(option));
        }
        let request = match is_first {
            true => talk.agent_receives("session/prompt"),
            false => goes_live(&mut talk),
        };
        talk.agent_answers(&request, json!({}));
        if is_first {
            assert_eq!(talk.editor_receives()["result"], json!({}));
        }
        talk.agent_sends(state("new-id", "running"));
        assert_eq!(talk.editor_receives(), state(session, "running"));
        talk.agent_sends(ask("new-id"));
        let question = talk.editor_receives();
        talk.editor_answers(&question, answer(option));
        assert_eq!(talk.conversation.receive("agent")["result"], answer(option));
        talk.agent_sends(state("new-id", "idle"));
        assert_eq!(talk.editor_receives(), state(session, "idle"));
    }
    for option in ["no", "yes"] {
        let mut talk = Talk::new(replay_agent(&path, &[]), false);
        talk.greet(2);
        talk.send("session/new", json!({ "cwd": "/w" }));
        let session = talk.editor_receives()["result"]["sessionId"].clone();
        let session = session.as_str().expect("an id");
        talk.send("session/prompt", prompt(session, "hi"));
        talk.editor_receives();
        talk.editor_receives();
        let question = talk.editor_receives();
        talk.editor_answers(&question, answer(option));
        assert_eq!(talk.editor_receives(), state(session, "idle"));
    }
}
