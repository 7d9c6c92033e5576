//! A proxy dies and another takes its place: what it is told, and what the others notice of it, which
//! is nothing. Line 2; checklist 104.

use std::io::Write;

use serde_json::{Value, json};
use testkit::rpc::{
    cancel, id_of, notification, request, result, wrapped_notification, wrapped_request,
};
use testkit::stage::parse;

use crate::play::{
    LOADS, PLAIN, Play, RESUMES, SetUp, assert_crash, is_greeted, kill, pass, prompt, update,
};
use crate::stage;

/// Line 2: the same greeting, answered from memory with the same result, to the byte.
#[test]
fn a_new_proxy_is_greeted_as_the_old_one_was_and_nobody_else_is() {
    for names in [&["proxy", "agent"][..], &["one", "two", "three", "agent"]] {
        let mut play = Play::begin(stage(), names, PLAIN);
        for at in 0..names.len() - 1 {
            play.kill(at);
            play.learns(at, &[]);
            play.works();
        }
        // And again, all of them.
        for at in 0..names.len() - 1 {
            play.kill(at);
        }
        for at in (0..names.len() - 1).rev() {
            play.learns(at, &[]);
        }
        play.works();
        assert!(!play.stage.has_entered("agent"));
    }
}

/// Line 2: the live sessions, however they were set up, oldest first; none that was closed or refused.
#[test]
fn a_new_proxy_is_told_of_the_live_sessions() {
    let mut play = Play::begin(stage(), &["one", "two", "agent"], RESUMES);
    let new = play.session("new");
    play.session("closed");
    let loaded = SetUp::old("session/load", "loaded");
    play.set_up(&loaded);
    let resumed = SetUp::old("session/resume", "resumed");
    play.set_up(&resumed);
    let closed = play.ask("1", "session/close", r#"{"sessionId":"closed"}"#);
    play.answer(&closed, "{}");
    let refused = play.ask("2", "session/new", r#"{"cwd":"/refused","mcpServers":[]}"#);
    play.agent.fail(&refused, r#"{"code":-32000,"message":"Authentication required"}"#);
    play.proxies.iter_mut().rev().for_each(|proxy| drop(pass(proxy)));
    assert_eq!(play.stage.editor.message()["error"]["code"], -32000);
    let sessions = [new, loaded, resumed];
    for at in [0, 1, 1, 0] {
        play.kill(at);
        play.learns(at, &sessions);
        play.works();
    }
}

/// Line 2: one that changes what it passes on, and what it answers, is told what it was told, and gets
/// the answer that it got.
#[test]
fn a_proxy_that_changes_sessions_gets_its_own_part_again() {
    let mut play = Play::pair(PLAIN);
    let (theirs, ours) =
        (r#"{"cwd":"/a","mcpServers":[]}"#, r#"{"cwd":"/b","mcpServers":[],"n":1.10}"#);
    let (inner, outer) = (r#"{"sessionId":"inner","n":1e400}"#, r#"{"sessionId":"outer"}"#);
    play.stage.editor.send(&request("1", "session/new", theirs));
    let asked = play.proxies[0].request("session/new");
    play.proxies[0].send(&wrapped_request("1", "session/new", ours));
    let at_agent = play.agent.request("session/new");
    play.agent.answer(&at_agent, inner);
    assert_eq!(play.proxies[0].line(), result("1", inner));
    play.proxies[0].answer(&asked, outer);
    assert_eq!(play.stage.editor.line(), result("1", outer));

    play.kill(0);
    let proxy = &mut play.proxies[0];
    let id = is_greeted(proxy);
    proxy.line();
    proxy.send(&result(&id, PLAIN));
    let line = proxy.line();
    assert_eq!(line, request(id_of(&line), "session/new", theirs));
    proxy.send(&wrapped_request("5", "session/new", ours));
    assert_eq!(proxy.line(), result("5", inner));
    proxy.send(&result(id_of(&line), outer));
    play.works();
    // It has closed the one that the editor knows by its own name.
    play.stage.editor.send(&request("1", "session/close", r#"{"sessionId":"outer"}"#));
    let asked = play.proxies[0].request("session/close");
    play.proxies[0].answer(&asked, "{}");
    assert_eq!(play.stage.editor.line(), result("1", "{}"));
    play.kill(0);
    play.learns(0, &[]);
    play.works();
}

/// Line 2: one that keeps a session to itself, or opens one more, is not given what it did not ask for.
#[test]
fn a_session_of_the_proxys_own_is_its_own_business() {
    let mut play = Play::pair(PLAIN);
    let params = r#"{"cwd":"/a","mcpServers":[]}"#;
    play.stage.editor.send(&request("1", "session/new", params));
    let asked = play.proxies[0].request("session/new");
    play.proxies[0].answer(&asked, r#"{"sessionId":"own"}"#);
    assert_eq!(play.stage.editor.line(), result("1", r#"{"sessionId":"own"}"#));
    play.kill(0);
    let proxy = &mut play.proxies[0];
    let id = is_greeted(proxy);
    proxy.line();
    proxy.send(&result(&id, PLAIN));
    let line = proxy.line();
    assert_eq!(line, request(id_of(&line), "session/new", params));
    // This time it wants one of the agent: that is news to everybody.
    proxy.send(&wrapped_request("5", "session/new", params));
    let at_agent = play.agent.request("session/new");
    play.agent.answer(&at_agent, r#"{"sessionId":"s"}"#);
    assert_eq!(proxy.line(), result("5", r#"{"sessionId":"s"}"#));
    proxy.send(&result(id_of(&line), r#"{"sessionId":"own"}"#));
    play.works();
}

/// Line 2: a new proxy that refuses a session is no reason to do without it; that is told.
#[test]
fn a_new_proxy_may_refuse_a_session() {
    let mut play = Play::pair(PLAIN);
    let first = play.session("first");
    let second = play.session("second");
    play.kill(0);
    let proxy = &mut play.proxies[0];
    let id = is_greeted(proxy);
    proxy.line();
    proxy.send(&result(&id, PLAIN));
    let line = proxy.line();
    assert_eq!(line, request(id_of(&line), "session/new", &first.params));
    proxy.send(&testkit::rpc::error(id_of(&line), r#"{"code":-1,"message":"not again"}"#));
    let line = proxy.line();
    assert_eq!(line, request(id_of(&line), "session/new", &second.params));
    proxy.send(&result(id_of(&line), &second.result));
    play.works();
    play.wait_for_words("proxy 'proxy' could not take up session 'first' again: not again");
}

/// Line 2: while it learns, a new proxy may ask and tell both sides what it likes, and is answered;
/// what is said to it waits.
#[test]
fn a_new_proxy_may_ask_while_it_learns() {
    let mut play = Play::pair(PLAIN);
    let session = play.session("s");
    play.kill(0);
    let proxy = &mut play.proxies[0];
    let id = is_greeted(proxy);
    proxy.line();
    proxy.send(&result(&id, PLAIN));
    let line = proxy.line();
    assert_eq!(line, request(id_of(&line), "session/new", &session.params));
    play.stage.editor.send(&notification("_x/later", "{}"));
    proxy.send(&request("5", "fs/read_text_file", r#"{"path":"/x"}"#));
    let asked = play.stage.editor.message();
    assert_eq!(asked["method"], "fs/read_text_file", "{asked}");
    proxy.send(&notification("session/update", r#"{"sessionId":"s"}"#));
    assert_eq!(play.stage.editor.message()["method"], "session/update");
    proxy.send(&wrapped_request("6", "_x/ask", "{}"));
    let at_agent = play.agent.request("_x/ask");
    proxy.send(&wrapped_notification("_x/note", "{}"));
    assert_eq!(play.agent.line(), notification("_x/note", "{}"));
    play.agent.answer(&at_agent, r#"{"by":"agent"}"#);
    assert_eq!(proxy.line(), result("6", r#"{"by":"agent"}"#));
    // An answer does not overtake what its sender said before.
    play.stage.editor.send(&result(&asked["id"].to_string(), r#"{"by":"editor"}"#));
    assert_eq!(proxy.line(), notification("_x/later", "{}"));
    assert_eq!(proxy.line(), result("5", r#"{"by":"editor"}"#));
    proxy.send(&result(id_of(&line), &session.result));
    play.works();
}

/// Line 2: what waits for it does not keep away the answer that it needs, however much that is.
#[test]
fn a_new_proxy_gets_its_answer_though_very_much_waits_for_it() {
    const COUNT: usize = 64;
    let mut play = Play::pair(PLAIN);
    let session = play.session("s");
    play.kill(0);
    let text = "x".repeat(64 * 1024);
    let line = |n: &str| update("s", "agent_message_chunk", &format!("{n} {text}"));
    play.agent.order(json!({ "repeat": line("{n}"), "count": COUNT }));
    // Nobody learns yet, so the agent is made to wait.
    testkit::stage::wait_until("too much waits", || {
        let held = play.status()["components"][0]["queue"]["heldBytes"].take();
        (held.as_u64() > Some(1024 * 1024)).then_some(())
    });
    let proxy = &mut play.proxies[0];
    let id = is_greeted(proxy);
    proxy.line();
    proxy.send(&result(&id, PLAIN));
    let asked = proxy.line();
    assert_eq!(asked, request(id_of(&asked), "session/new", &session.params));
    proxy.send(&wrapped_request("6", "_x/ask", "{}"));
    let at_agent = play.agent.request("_x/ask");
    play.agent.answer(&at_agent, r#"{"by":"agent"}"#);
    // An answer does not overtake what its sender said before.
    for n in 0..COUNT {
        let message = proxy.message();
        let expected = parse(&line(&n.to_string()));
        assert!(message["params"]["params"] == expected["params"], "line {n}");
    }
    assert_eq!(proxy.line(), result("6", r#"{"by":"agent"}"#));
    proxy.send(&result(id_of(&asked), &session.result));
    play.works();
    assert!(!play.stage.has_entered("proxy"));
}

/// Line 2: one that refuses to be greeted, or says nothing, has failed like one that dies.
#[test]
fn a_new_proxy_that_is_not_fit_is_replaced_in_turn() {
    let options = ["--restarts", "2/600", "--init-timeout", "0.3"];
    let mut play = Play::begin(stage().option(&options), &["proxy", "agent"], PLAIN);
    play.kill(0);
    let line = play.proxies[0].line();
    play.proxies[0].send(&testkit::rpc::error(id_of(&line), r#"{"code":-1,"message":"not me"}"#));
    // It says nothing to the next older greeting.
    play.wait_for_words("not me");
    play.replaced(0);
    // It says nothing.
    play.proxies[0].request("proxy/initialize");
    play.wait_for_state(1, "bypassed");
    play.wait_for_words("did not answer initialize within 300 ms");
    play.proxies.clear();
    play.works();
}

// What is said meanwhile.

/// The messages that come to a proxy next, by direction.
fn sorted(proxy: &mut testkit::stage::Puppet, count: usize) -> [Vec<Value>; 2] {
    let mut sorted = [Vec::new(), Vec::new()];
    for _ in 0..count {
        let message = proxy.message();
        let (side, call) = match message["method"].as_str() {
            Some("proxy/successor") => (1, message["params"].clone()),
            _ => (0, message),
        };
        sorted[side].push(json!([call["method"], call["params"]["n"]]));
    }
    sorted
}

/// Line 2: messages for it wait, and then come in order, from both sides.
#[test]
fn what_is_said_to_it_meanwhile_waits_and_comes_in_order() {
    let mut play = Play::pair(PLAIN);
    let session = play.session("s");
    play.kill(0);
    let calls = ["_x/note", "_x/ask", "session/prompt", "session/cancel", "_x/ask", "_x/note"];
    let is_note = |method: &str| method == "_x/note" || method == "session/cancel";
    let line = |n: usize, method: &str| match is_note(method) {
        true => notification(method, &format!(r#"{{"n":{n}}}"#)),
        false => request(&n.to_string(), method, &format!(r#"{{"n":{n}}}"#)),
    };
    for (n, method) in calls.into_iter().enumerate() {
        play.stage.editor.send(&line(n, method));
        play.agent.send(&line(n, method));
    }
    let held = testkit::stage::wait_until("all of it waits", || {
        let queue = play.status()["components"][0]["queue"].take();
        (queue["heldMessages"] == 12).then_some(queue)
    });
    assert!(held["heldBytes"].as_u64().expect("a number") > 500, "{held}");
    play.learns(0, &[session]);
    let expected: Vec<Value> =
        calls.iter().enumerate().map(|(n, method)| json!([method, n])).collect();
    assert_eq!(sorted(&mut play.proxies[0], 12), [expected.clone(), expected]);
    // What comes later comes behind them.
    play.stage.editor.send(&notification("_x/later", "{}"));
    assert_eq!(play.proxies[0].line(), notification("_x/later", "{}"));
}

/// Line 2: what the neighbours of a proxy say to each other's other sides is not held up.
#[test]
fn only_who_speaks_to_it_has_to_wait() {
    let mut play = Play::begin(stage(), &["one", "two", "three", "agent"], PLAIN);
    play.kill(1);
    play.stage.editor.send(&request("1", "_x/ask", "{}"));
    let asked = play.proxies[0].request("_x/ask");
    play.proxies[0].answer(&asked, "{}");
    assert_eq!(play.stage.editor.line(), result("1", "{}"));
    play.agent.send(&notification("_x/note", "{}"));
    assert_eq!(play.proxies[2].line(), wrapped_notification("_x/note", "{}"));
    play.learns(1, &[]);
    play.works();
}

/// Line 2: a request that was inside it is answered once, with an error that tells all there is to
/// tell. Checklist 100.
#[test]
fn what_was_inside_it_is_answered_once_with_who_how_and_what_to_do() {
    let mut play = Play::pair(PLAIN);
    play.stage.editor.send(&request("1", "session/prompt", &prompt("s")));
    play.proxies[0].request("session/prompt");
    play.agent.send(&request("\"a\"", "fs/read_text_file", r#"{"path":"/x"}"#));
    play.proxies[0].request("proxy/successor");
    play.proxies[0].mutter("one\nout of luck\n");
    play.proxies[0].exit(7);
    let at_editor = play.stage.editor.message();
    assert_crash(&at_editor, json!(1), "proxy", "ended with status 7", "restarted");
    let at_agent = play.agent.message();
    assert_crash(&at_agent, json!("a"), "proxy", "ended with status 7", "restarted");
    for (answer, method) in [(at_editor, "session/prompt"), (at_agent, "fs/read_text_file")] {
        let error = &answer["error"];
        assert_eq!(error["data"]["status"], 7, "{answer}");
        assert_eq!(error["data"]["lastWords"], json!(["one", "out of luck"]), "{answer}");
        let message = error["message"].as_str().expect("words");
        assert!(message.contains("one | out of luck") && message.contains(method), "{message}");
    }
    play.replaced(0);
    play.learns(0, &[]);
    play.works();
    // A signal is told as one.
    play.stage.editor.send(&request("2", "_x/ask", "{}"));
    play.proxies[0].request("_x/ask");
    play.kill(0);
    let answer = play.stage.editor.message();
    assert_crash(&answer, json!(2), "proxy", "was killed by signal 9 (SIGKILL)", "restarted");
    assert_eq!(answer["error"]["data"]["signal"], 9);
    play.learns(0, &[]);
    play.works();
}

/// Line 2: what it said before it died is not lost, and comes before the error.
#[test]
fn its_last_messages_are_delivered() {
    let mut play = Play::pair(PLAIN);
    play.stage.editor.send(&request("1", "session/prompt", &prompt("s")));
    play.proxies[0].request("session/prompt");
    for n in 0..100 {
        play.proxies[0].send(&notification("session/update", &format!(r#"{{"n":{n}}}"#)));
    }
    play.proxies[0].exit(0);
    for n in 0..100 {
        assert_eq!(
            play.stage.editor.line(),
            notification("session/update", &format!(r#"{{"n":{n}}}"#))
        );
    }
    assert_crash(&play.stage.editor.message(), json!(1), "proxy", "status 0", "restarted");
}

/// Line 2: what waits is bounded: who says too much has to wait, and nothing is lost.
#[test]
fn who_says_much_meanwhile_has_to_wait() {
    const COUNT: usize = 400;
    let mut play = Play::pair(PLAIN);
    play.kill(0);
    let text = "x".repeat(64 * 1024);
    let line = move |n: usize| notification("_x/note", &format!(r#"{{"n":{n},"text":"{text}"}}"#));
    // Not from this thread: it is made to wait.
    let mut stdin = play.stage.editor.take_stdin();
    let lines = line.clone();
    let writer = std::thread::spawn(move || {
        for n in 0..COUNT {
            writeln!(stdin, "{}", lines(n)).expect("the conductor reads");
        }
        stdin
    });
    testkit::stage::wait_until("the editor is made to wait", || {
        (play.status()["editor"]["paused"] == true).then_some(())
    });
    let held = play.status()["components"][0]["queue"]["heldBytes"].as_u64().expect("a number");
    assert!(held < (COUNT as u64 - 100) * 64 * 1024, "{held}");
    play.learns(0, &[]);
    for n in 0..COUNT {
        assert!(play.proxies[0].line() == line(n), "line {n}");
    }
    writer.join().expect("all of it was read");
}

/// Line 2: a session that was being set up when its proxy died does not begin without it: who asked is
/// told to ask again, and the one that the agent has set up is closed.
#[test]
fn a_session_that_was_being_set_up_is_asked_for_again() {
    for answered_late in [true, false] {
        let mut play = Play::pair(PLAIN);
        let SetUp { method, params, .. } = SetUp::new("s");
        let asked = play.ask("1", method, &params);
        if !answered_late {
            play.agent.answer(&asked, r#"{"sessionId":"s"}"#);
            assert_eq!(play.proxies[0].message()["result"]["sessionId"], "s");
        }
        play.kill(0);
        assert_crash(&play.stage.editor.message(), json!(1), "proxy", "SIGKILL", "restarted");
        if answered_late {
            assert_eq!(play.agent.line(), cancel(&asked["id"].to_string()));
            play.agent.answer(&asked, r#"{"sessionId":"s"}"#);
        }
        let closed = play.agent.request("session/close");
        assert_eq!(closed["params"]["sessionId"], "s", "{closed}");
        play.agent.answer(&closed, "{}");
        play.learns(0, &[]);
        play.works();
        let again = play.session("t");
        play.kill(0);
        play.learns(0, &[again]);
        play.works();
    }
}

/// Line 2: one that is live already, and was to be loaded once more, is still the editor's: what the agent
/// says in it is shown.
#[test]
fn a_live_session_goes_on_though_its_proxy_died_over_loading_it_again() {
    for answered_late in [true, false] {
        let mut play = Play::pair(LOADS);
        let session = play.session("s");
        let SetUp { method, params, .. } = SetUp::old("session/load", "s");
        let asked = play.ask("1", method, &params);
        if !answered_late {
            play.agent.answer(&asked, "{}");
            assert!(play.proxies[0].message()["result"].is_object());
        }
        play.kill(0);
        assert_crash(&play.stage.editor.message(), json!(1), "proxy", "SIGKILL", "restarted");
        if answered_late {
            assert_eq!(play.agent.line(), cancel(&asked["id"].to_string()));
            play.agent.answer(&asked, "{}");
        }
        play.learns(0, &[session]);
        play.works();
        // Before anybody works in it, too.
        for prompted in [false, true] {
            let asked = prompted.then(|| play.prompt("2", "s"));
            play.agent.send(&update("s", "agent_message_chunk", "x"));
            pass(&mut play.proxies[0]);
            let shown = play.stage.editor.message();
            assert_eq!(shown, parse(&update("s", "agent_message_chunk", "x")));
            let permission = r#"{"sessionId":"s","options":[]}"#;
            play.agent.send(&request("\"a\"", "session/request_permission", permission));
            pass(&mut play.proxies[0]);
            let shown = play.stage.editor.message();
            assert_eq!(shown["method"], "session/request_permission", "{shown}");
            play.stage.editor.send(&result(&shown["id"].to_string(), "{}"));
            pass(&mut play.proxies[0]);
            assert_eq!(play.agent.line(), result("\"a\"", "{}"));
            if let Some(asked) = asked {
                assert_eq!(play.answer(&asked, "{}")["id"], 2);
            }
        }
    }
}

// Cancelled meanwhile.

/// Line 2: a request that waits for a proxy and is cancelled is answered at once, and nobody hears of
/// it.
#[test]
fn a_request_that_waits_can_be_cancelled() {
    let mut play = Play::pair(PLAIN);
    play.kill(0);
    play.stage.editor.send(&request("1", "_x/ask", "{}"));
    play.stage.editor.send(&cancel("1"));
    let answer = play.stage.editor.message();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(-32800)));
    play.agent.send(&request("\"a\"", "_x/ask", "{}"));
    play.agent.send(&cancel("\"a\""));
    let answer = play.agent.message();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("a"), &json!(-32800)));
    play.learns(0, &[]);
    play.works();
}

/// Line 2: `session/cancel` waits like anything else; so the prompt it is about comes first.
#[test]
fn a_turn_can_be_cancelled_while_its_prompt_waits() {
    let mut play = Play::pair(PLAIN);
    let session = play.session("s");
    play.kill(0);
    play.stage.editor.send(&request("1", "session/prompt", &prompt("s")));
    play.stage.editor.send(&notification("session/cancel", r#"{"sessionId":"s"}"#));
    play.learns(0, &[session]);
    pass(&mut play.proxies[0]);
    pass(&mut play.proxies[0]);
    let asked = play.agent.request("session/prompt");
    assert_eq!(play.agent.line(), notification("session/cancel", r#"{"sessionId":"s"}"#));
    let answer = play.answer(&asked, r#"{"stopReason":"cancelled"}"#);
    assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
}

// A guard.

/// Line 2: nothing passes while a guard is away, in either direction, and no answer past it.
#[test]
fn nothing_passes_a_guard_that_is_away() {
    let setup = stage().option(&["--guard", "proxy"]);
    let mut play = Play::begin(setup, &["proxy", "agent"], PLAIN);
    let session = play.session("s");
    let at_agent = play.prompt("1", "s");
    play.agent.send(&request("\"a\"", "_x/ask", "{}"));
    pass(&mut play.proxies[0]);
    let at_editor = play.stage.editor.message();
    kill(&play.proxies[0]);
    // Though it has passed both on as they were, nobody hears the answers.
    let answer = play.stage.editor.message();
    assert_crash(&answer, json!(1), "proxy", "SIGKILL", "restarted");
    let answer = play.stage.editor.message();
    assert_eq!(answer, parse(&cancel(&at_editor["id"].to_string())));
    let mut heard: Vec<Value> = (0..3).map(|_| play.agent.message()).collect();
    heard.sort_by_key(|it| it["method"].as_str().map(str::to_owned));
    assert_crash(&heard[0], json!("a"), "proxy", "SIGKILL", "restarted");
    assert_eq!(heard[1], parse(&cancel(&at_agent["id"].to_string())));
    assert_eq!(heard[2], parse(&notification("session/cancel", r#"{"sessionId":"s"}"#)));
    play.agent.answer(&at_agent, r#"{"stopReason":"cancelled"}"#);
    play.stage.editor.send(&result(&at_editor["id"].to_string(), "{}"));
    play.replaced(0);
    // What is said meanwhile is for its eyes first.
    play.agent.send(&notification("session/update", r#"{"sessionId":"s"}"#));
    play.stage.editor.send(&notification("_x/note", "{}"));
    testkit::stage::wait_until("both wait", || {
        (play.status()["components"][0]["queue"]["heldMessages"] == 2).then_some(())
    });
    play.learns(0, &[session]);
    let [down, up] = sorted(&mut play.proxies[0], 2);
    assert_eq!((&down[0][0], &up[0][0]), (&json!("_x/note"), &json!("session/update")));
    play.works();
}

/// Line 2: loads that cannot be taken up by others are none of the proxies' business: what an agent
/// repeats for `session/load` was said before the proxy died, and is not said again.
#[test]
fn a_loaded_session_is_not_loaded_a_second_time() {
    let mut play = Play::pair(LOADS);
    let loaded = SetUp::old("session/load", "old");
    play.stage.editor.send(&request("1", loaded.method, &loaded.params));
    pass(&mut play.proxies[0]);
    let asked = play.agent.request("session/load");
    play.agent.send(&notification("session/update", r#"{"sessionId":"old","n":1}"#));
    pass(&mut play.proxies[0]);
    assert_eq!(play.stage.editor.message()["method"], "session/update");
    play.answer(&asked, &loaded.result);
    play.kill(0);
    play.learns(0, &[loaded]);
    play.works();
}
