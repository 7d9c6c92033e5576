//! The agent dies and another takes its place: how it takes its sessions up, and what becomes of what
//! was going on. Line 3; checklist 99.

use serde_json::{Value, json};
use testkit::rpc::{cancel, error, id_of, notification, request, result};

use crate::play::{
    GREETING, LOADS, PLAIN, Play, RESUMES, SetUp, assert_crash, kill, pass, prompt, update,
};
use crate::stage;

/// The agent is asked to take up a session like this. Gives the line.
fn takes_up(play: &mut Play, method: &str, session: &str, words: &[&str]) -> String {
    let line = play.agent.line();
    let asked: Value = testkit::stage::parse(&line);
    assert_eq!(asked["method"], method, "{line}");
    assert_eq!(asked["params"]["sessionId"], session, "{line}");
    for word in words {
        assert!(line.contains(word), "{word:?} is not in {line}");
    }
    line
}

fn resumed(play: &mut Play, method: &str, session: &str) {
    let line = takes_up(play, method, session, &[]);
    play.agent.send(&result(id_of(&line), "{}"));
}

/// Line 3: `session/resume` rather than `session/load`, with all that the session was set up with.
#[test]
fn a_new_agent_takes_up_every_session_with_what_it_was_set_up_with() {
    for (greeted, method) in [(RESUMES, "session/resume"), (LOADS, "session/load")] {
        let mut play = Play::pair(greeted);
        let odd = SetUp {
            method: "session/new",
            params: r#"{"cwd":"/odd","mcpServers":[{"name":"x","command":"/x","args":[],"env":[]}],"big":12345678901234567890123,"_meta":{"n":1.10}}"#.into(),
            result: r#"{"sessionId":"odd \"one\""}"#.into(),
        };
        play.set_up(&odd);
        play.set_up(&SetUp::old("session/load", "loaded"));
        play.set_up(&SetUp::old("session/resume", "resumed"));
        play.session("closed");
        let closed = play.ask("1", "session/close", r#"{"sessionId":"closed"}"#);
        play.answer(&closed, "{}");
        for _ in 0..2 {
            play.kill_agent();
            let words = [
                r#""cwd":"/odd""#,
                r#""mcpServers":[{"name":"x","command":"/x","args":[],"env":[]}]"#,
                r#""big":12345678901234567890123"#,
                r#""_meta":{"n":1.10}"#,
            ];
            let line = takes_up(&mut play, method, r#"odd "one""#, &words);
            play.agent.send(&result(id_of(&line), "{}"));
            for session in ["loaded", "resumed"] {
                let line =
                    takes_up(&mut play, method, session, &[r#""cwd":"/old""#, r#""x":1.10"#]);
                play.agent.send(&result(id_of(&line), "null"));
            }
            play.works();
        }
        // They can be used.
        let asked = play.prompt("2", "loaded");
        let answer = play.answer(&asked, r#"{"stopReason":"end_turn"}"#);
        assert_eq!(answer["result"]["stopReason"], "end_turn");
    }
}

/// Line 3: what an agent repeats for `session/load` has been said; what is the state now has not.
#[test]
fn the_history_of_a_loaded_session_is_not_shown_again() {
    let mut play = Play::pair(LOADS);
    play.session("s");
    play.session("other");
    play.kill_agent();
    let line = takes_up(&mut play, "session/load", "s", &[]);
    let history = [
        "user_message_chunk",
        "agent_message_chunk",
        "agent_thought_chunk",
        "tool_call",
        "tool_call_update",
        "plan",
    ];
    let state = ["available_commands_update", "current_mode_update", "config_option_update"];
    for kind in history.iter().chain(&state).chain(&history) {
        play.agent.send(&update("s", kind, "again"));
    }
    // Of another session, that is news.
    play.agent.send(&update("other", "agent_message_chunk", "news"));
    play.agent.send(&result(id_of(&line), "{}"));
    resumed(&mut play, "session/load", "other");
    play.agent.send(&update("s", "agent_message_chunk", "news"));
    for (session, kind, what) in [
        ("s", state[0], "again"),
        ("s", state[1], "again"),
        ("s", state[2], "again"),
        ("other", "agent_message_chunk", "news"),
        ("s", "agent_message_chunk", "news"),
    ] {
        pass(&mut play.proxies[0]);
        assert_eq!(play.stage.editor.line(), update(session, kind, what));
    }
    play.works();
    // A load that the editor asks for repeats the history, as it should.
    let asked = play.ask("1", "session/load", &SetUp::old("session/load", "s").params);
    play.agent.send(&update("s", "user_message_chunk", "hi"));
    pass(&mut play.proxies[0]);
    assert_eq!(play.stage.editor.line(), update("s", "user_message_chunk", "hi"));
    play.answer(&asked, "{}");
}

/// Line 3: an open prompt is answered once, with an error, wherever it was asked; and so is everything
/// else that the agent owed.
#[test]
fn what_the_agent_owed_is_answered_once_with_an_error() {
    for names in [&["agent"][..], &["one", "two", "agent"]] {
        let mut play = Play::begin(stage(), names, LOADS);
        play.session("s");
        play.prompt("1", "s");
        play.ask("2", "_x/ask", "{}");
        play.agent.mutter("out of memory\n");
        play.agent.exit(7);
        for id in [1, 2] {
            play.proxies.iter_mut().rev().for_each(|proxy| drop(pass(proxy)));
            let answer = play.stage.editor.message();
            assert_crash(&answer, json!(id), "agent", "ended with status 7", "restarted");
            assert_eq!(answer["error"]["data"]["lastWords"], json!(["out of memory"]));
        }
        play.agent_is_back();
        resumed(&mut play, "session/load", "s");
        play.works();
        let asked = play.prompt("3", "s");
        assert_eq!(play.answer(&asked, "{}")["id"], 3);
    }
}

/// Line 3: what the old agent wanted to know, nobody wants to know any more. Who answers it all the
/// same does no harm.
#[test]
fn a_question_of_the_dead_agent_is_taken_back() {
    for names in [&["agent"][..], &["proxy", "agent"]] {
        let mut play = Play::begin(stage(), names, LOADS);
        play.session("s");
        let permission = r#"{"sessionId":"s","toolCall":{},"options":[]}"#;
        play.agent.send(&request("1", "session/request_permission", permission));
        play.proxies.iter_mut().for_each(|proxy| drop(pass(proxy)));
        let asked = play.stage.editor.message();
        assert_eq!(asked["method"], "session/request_permission");
        play.kill_agent();
        play.proxies.iter_mut().for_each(|proxy| drop(pass(proxy)));
        assert_eq!(play.stage.editor.line(), cancel(&asked["id"].to_string()));
        let answer = r#"{"outcome":{"outcome":"cancelled"}}"#;
        play.stage.editor.send(&result(&asked["id"].to_string(), answer));
        play.proxies.iter_mut().for_each(|proxy| drop(pass(proxy)));
        resumed(&mut play, "session/load", "s");
        play.works();
    }
}

/// Line 3: a session that the new agent cannot take up is told to whoever uses it. All others go on,
/// new ones begin, and it may be taken up later.
#[test]
fn a_session_that_is_lost_is_told_to_who_uses_it() {
    let mut play = Play::pair(LOADS);
    play.session("lost");
    play.session("kept");
    play.kill_agent();
    let line = takes_up(&mut play, "session/load", "lost", &[]);
    play.agent.send(&error(id_of(&line), r#"{"code":-32002,"message":"never saved"}"#));
    resumed(&mut play, "session/load", "kept");
    play.wait_for_words("agent 'agent' could not take up session 'lost' again: never saved");
    for (id, method) in [(1, "session/prompt"), (2, "session/prompt"), (3, "session/set_mode")] {
        play.stage.editor.send(&request(&id.to_string(), method, &prompt("lost")));
        pass(&mut play.proxies[0]);
        pass(&mut play.proxies[0]);
        let answer = play.stage.editor.message();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(id), &json!(-32002)));
        let message = answer["error"]["message"].as_str().expect("words");
        for word in ["agent 'agent'", "SIGKILL", "session 'lost'", "never saved", "new session"] {
            assert!(message.contains(word), "{word:?} is not in {message:?}");
        }
    }
    // What needs no answer gets none.
    play.stage.editor.send(&notification("session/cancel", r#"{"sessionId":"lost"}"#));
    pass(&mut play.proxies[0]);
    play.works();
    let asked = play.prompt("4", "kept");
    assert_eq!(play.answer(&asked, "{}")["id"], 4);
    play.session("new");
    let asked = play.prompt("5", "new");
    assert_eq!(play.answer(&asked, "{}")["id"], 5);
    // Somebody tries, and it works.
    play.set_up(&SetUp::old("session/load", "lost"));
    let asked = play.prompt("6", "lost");
    assert_eq!(play.answer(&asked, "{}")["id"], 6);
    // The next one takes up what is live now, in that order.
    play.kill_agent();
    for session in ["kept", "new", "lost"] {
        resumed(&mut play, "session/load", session);
    }
    play.works();
}

/// Line 3: what is said to the agent meanwhile waits, and is answered.
#[test]
fn requests_wait_for_the_new_agent() {
    let mut play = Play::pair(LOADS);
    play.session("s");
    kill(&play.agent);
    play.agent = play.stage.enter("agent");
    let greeting = play.agent.line();
    assert_eq!(greeting, request(id_of(&greeting), "initialize", GREETING));
    // Before it has answered its greeting, and while it takes up its sessions.
    play.stage.editor.send(&request("1", "session/prompt", &prompt("s")));
    pass(&mut play.proxies[0]);
    play.stage.editor.send(&notification("session/cancel", r#"{"sessionId":"s"}"#));
    pass(&mut play.proxies[0]);
    play.agent.send(&result(id_of(&greeting), LOADS));
    let line = takes_up(&mut play, "session/load", "s", &[]);
    play.stage.editor.send(&request("2", "session/new", &SetUp::new("t").params));
    pass(&mut play.proxies[0]);
    testkit::stage::wait_until("all of it waits", || {
        (play.status()["components"][1]["queue"]["heldMessages"] == 3).then_some(())
    });
    play.agent.send(&result(id_of(&line), "{}"));
    let asked = play.agent.request("session/prompt");
    assert_eq!(play.agent.line(), notification("session/cancel", r#"{"sessionId":"s"}"#));
    let new = play.agent.request("session/new");
    let answer = play.answer(&asked, r#"{"stopReason":"cancelled"}"#);
    assert_eq!((&answer["id"], &answer["result"]["stopReason"]), (&json!(1), &json!("cancelled")));
    let answer = play.answer(&new, r#"{"sessionId":"t"}"#);
    assert_eq!((&answer["id"], &answer["result"]["sessionId"]), (&json!(2), &json!("t")));
    play.works();
}

/// Line 3: an agent may ask the editor something before it has taken up a session, and is answered.
#[test]
fn a_new_agent_may_ask_while_it_takes_up_a_session() {
    let mut play = Play::pair(LOADS);
    play.session("s");
    play.kill_agent();
    let line = takes_up(&mut play, "session/load", "s", &[]);
    play.agent.send(&request("5", "fs/read_text_file", r#"{"path":"/x"}"#));
    pass(&mut play.proxies[0]);
    let asked = play.stage.editor.message();
    play.stage.editor.send(&result(&asked["id"].to_string(), r#"{"content":"x"}"#));
    pass(&mut play.proxies[0]);
    assert_eq!(play.agent.line(), result("5", r#"{"content":"x"}"#));
    play.agent.send(&result(id_of(&line), "{}"));
    play.works();
}

/// Line 3: who had logged in is logged in again, before anything else; not who had failed to.
#[test]
fn a_login_is_repeated() {
    for greeted in [LOADS, RESUMES, PLAIN] {
        let mut play = Play::pair(greeted);
        let failed = play.ask("1", "authenticate", r#"{"methodId":"wrong"}"#);
        play.agent.fail(&failed, r#"{"code":-32000,"message":"no"}"#);
        pass(&mut play.proxies[0]);
        play.stage.editor.message();
        let login = r#"{"methodId":"right","_meta":{"n":1.5}}"#;
        let asked = play.ask("2", "authenticate", login);
        play.answer(&asked, "{}");
        let failed = play.ask("3", "authenticate", r#"{"methodId":"wrong"}"#);
        play.agent.fail(&failed, r#"{"code":-32000,"message":"no"}"#);
        pass(&mut play.proxies[0]);
        play.stage.editor.message();
        if greeted != PLAIN {
            play.session("s");
        }
        play.kill_agent();
        let line = play.agent.line();
        assert_eq!(line, request(id_of(&line), "authenticate", login));
        play.agent.send(&result(id_of(&line), "{}"));
        match greeted {
            LOADS => resumed(&mut play, "session/load", "s"),
            RESUMES => resumed(&mut play, "session/resume", "s"),
            _ => {}
        }
        play.works();
    }
}

/// Line 3: who has logged out stays so.
#[test]
fn a_login_that_is_over_is_not_repeated() {
    let mut play = Play::pair(LOADS);
    let asked = play.ask("1", "authenticate", r#"{"methodId":"right"}"#);
    play.answer(&asked, "{}");
    // One that fails changes nothing.
    let failed = play.ask("2", "logout", "{}");
    play.agent.fail(&failed, r#"{"code":-32603,"message":"no"}"#);
    pass(&mut play.proxies[0]);
    play.stage.editor.message();
    play.kill_agent();
    let asked = play.agent.request("authenticate");
    play.agent.answer(&asked, "{}");
    play.works();
    let asked = play.ask("3", "logout", "{}");
    play.answer(&asked, "{}");
    play.kill_agent();
    play.works();
}

/// Line 3: in ACP v2 a session is taken up with as much of its history as is asked for. Whoever has the
/// session has that.
#[test]
fn the_history_is_not_asked_for_again() {
    let mut play = Play::pair(RESUMES);
    let old = SetUp {
        method: "session/resume",
        params: r#"{"sessionId":"old","cwd":"/","replayFrom":{"type":"start"},"x":1.10}"#.into(),
        result: "{}".into(),
    };
    play.set_up(&old);
    play.kill_agent();
    let line = takes_up(&mut play, "session/resume", "old", &[r#""cwd":"/""#, r#""x":1.10"#]);
    assert!(!line.contains("replayFrom"), "{line}");
    play.agent.send(&result(id_of(&line), "{}"));
    play.works();
}

/// Line 3: a session that the agent was setting up when it died is asked for again.
#[test]
fn a_session_that_the_agent_was_setting_up_is_asked_for_again() {
    let mut play = Play::pair(LOADS);
    play.session("s");
    play.ask("1", "session/new", &SetUp::new("t").params);
    play.kill_agent();
    pass(&mut play.proxies[0]);
    assert_crash(&play.stage.editor.message(), json!(1), "agent", "SIGKILL", "restarted");
    resumed(&mut play, "session/load", "s");
    play.session("t");
    play.kill_agent();
    resumed(&mut play, "session/load", "s");
    resumed(&mut play, "session/load", "t");
    play.works();
}

/// Line 3: an agent that dies while it takes up its sessions is replaced in turn; its sessions are not
/// lost by that.
#[test]
fn an_agent_that_dies_while_it_learns_is_replaced() {
    let mut play = Play::pair(LOADS);
    play.session("s");
    play.kill_agent();
    takes_up(&mut play, "session/load", "s", &[]);
    play.kill_agent();
    resumed(&mut play, "session/load", "s");
    play.works();
}

/// Line 3: a proxy and the agent die at once.
#[test]
fn a_proxy_and_the_agent_may_die_together() {
    let mut play = Play::pair(LOADS);
    let session = play.session("s");
    play.prompt("1", "s");
    kill(&play.proxies[0]);
    kill(&play.agent);
    let answer = play.stage.editor.message();
    assert_eq!(answer["id"], 1, "{answer}");
    assert!(answer["error"]["message"].as_str().expect("words").contains("send again"));
    play.replaced(0);
    play.agent_is_back();
    resumed(&mut play, "session/load", "s");
    play.learns(0, &[session]);
    play.works();
    let asked = play.prompt("2", "s");
    assert_eq!(play.answer(&asked, "{}")["id"], 2);
}
