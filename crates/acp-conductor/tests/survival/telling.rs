//! What people are told of a crash: in the editor, in the log, and by `conductor status`. Line 6.

use serde_json::{Value, json};
use testkit::rpc::{id_of, request, result};
use testkit::stage::{Puppet, Stage, directory, wait_until};

use crate::play::{LOADS, PLAIN, Play, SetUp, assert_crash, kill, pass, prompt, status, update};
use crate::{loud, never_back};

const KILLED: &str =
    "proxy 'proxy' crashed: it was killed by signal 9 (SIGKILL). It is being restarted.";

/// The editor must get this notice in this session.
fn hears(play: &mut Play, session: &str, text: &str) {
    let notice = play.stage.editor.message();
    let expected = json!({
        "jsonrpc": "2.0",
        "method": "session/update",
        "params": {
            "sessionId": session,
            "update": {
                "sessionUpdate": "agent_message_chunk",
                "content": { "type": "text", "text": format!("\n\n[conductor] {text}\n\n") },
                "_meta": { "conductor": { "component": "proxy" } },
            },
        },
    });
    assert_eq!(notice, expected);
}

/// Line 6: at once where somebody waits for an answer, before the error; in other sessions when they are
/// used next, once.
#[test]
fn a_notice_comes_at_once_where_somebody_waits_and_elsewhere_with_the_next_prompt() {
    let mut play = Play::begin(loud(), &["proxy", "agent"], PLAIN);
    let sessions = ["busy", "idle", "done"].map(|name| play.session(name));
    let asked = play.prompt("0", "done");
    play.answer(&asked, "{}");
    play.stage.editor.send(&request("1", "session/prompt", &prompt("busy")));
    play.proxies[0].request("session/prompt");
    play.kill(0);
    hears(&mut play, "busy", KILLED);
    assert_crash(&play.stage.editor.message(), json!(1), "proxy", "SIGKILL", "restarted");
    play.learns(0, &sessions);
    play.works();
    for session in ["idle", "done"] {
        play.stage.editor.send(&request("2", "session/prompt", &prompt(session)));
        hears(&mut play, session, KILLED);
        pass(&mut play.proxies[0]);
        let asked = play.agent.request("session/prompt");
        assert_eq!(play.answer(&asked, "{}")["id"], 2);
    }
    // Each of them once.
    for session in ["busy", "idle", "done"] {
        let asked = play.prompt("3", session);
        assert_eq!(play.answer(&asked, "{}")["id"], 3);
    }
    // A session that begins later was not there.
    play.session("new");
    let asked = play.prompt("4", "new");
    assert_eq!(play.answer(&asked, "{}")["id"], 4);
}

/// Line 6: who hangs has not crashed, and nobody says so.
#[test]
fn who_hangs_is_said_to_have_failed() {
    let options = ["--answer-limit", "0.2"];
    let mut play = Play::begin(loud().option(&options), &["proxy", "agent"], PLAIN);
    play.session("s");
    // Where somebody waits, it is told at once.
    play.prompt("1", "s");
    play.stage.editor.send(&request("2", "_x/ask", "{}"));
    let cause = "gave no sign of life for 200 ms while it owed _x/ask";
    let told = format!("proxy 'proxy' failed: it {cause}. It is being restarted.");
    hears(&mut play, "s", &told);
    let answer = play.stage.editor.message();
    assert_crash(&answer, json!(2), "proxy", cause, "it failed and is being restarted");
    assert!(!answer.to_string().contains("crashed"), "{answer}");
}

/// Line 6: also where the answer comes all the same, for it may be another than it would have been.
#[test]
fn a_notice_comes_though_the_answer_is_not_lost() {
    let mut play = Play::begin(loud(), &["proxy", "agent"], PLAIN);
    let session = play.session("s");
    let asked = play.prompt("1", "s");
    play.kill(0);
    hears(&mut play, "s", KILLED);
    play.learns(0, &[session]);
    play.agent.send(&update("s", "agent_message_chunk", "x"));
    play.agent.answer(&asked, "{}");
    pass(&mut play.proxies[0]);
    pass(&mut play.proxies[0]);
    assert_eq!(play.stage.editor.line(), update("s", "agent_message_chunk", "x"));
    assert_eq!(play.stage.editor.line(), result("1", "{}"));
}

/// Line 6: that it is left out is told as well; that it failed again while it was being restarted is
/// not.
#[test]
fn being_left_out_is_told_and_every_crash_once() {
    let setup = loud().option(&["--restarts", "2/600"]);
    let mut play = Play::begin(setup, &["proxy", "agent"], PLAIN);
    let session = play.session("s");
    let asked = play.prompt("1", "s");
    play.kill(0);
    hears(&mut play, "s", KILLED);
    // It dies before it is live.
    play.kill(0);
    play.learns(0, &[session]);
    play.stage.editor.send(&request("2", "_x/ask", "{}"));
    play.proxies[0].request("_x/ask");
    play.proxies[0].exit(3);
    hears(
        &mut play,
        "s",
        "proxy 'proxy' crashed: it ended with status 3. It is left out from now on.",
    );
    assert_crash(&play.stage.editor.message(), json!(2), "proxy", "status 3", "left out");
    play.proxies.clear();
    assert_eq!(play.answer(&asked, "{}")["id"], 1);
    play.works();
}

/// A chain of an agent alone, with an editor that offers this, and a session in which it was prompted.
fn prompted(options: &[&str], offer: &str) -> (Stage, Puppet) {
    let mut stage = loud().option(options).named(&["agent"]);
    let greeting = format!(r#"{{"protocolVersion":1,{offer}}}"#);
    stage.editor.send(&request("0", "initialize", &greeting));
    let mut agent = stage.enter("agent");
    let asked = agent.request("initialize");
    agent.answer(&asked, LOADS);
    stage.editor.line();
    stage.editor.send(&request("0", "session/new", &SetUp::new("s").params));
    let asked = agent.request("session/new");
    agent.answer(&asked, r#"{"sessionId":"s"}"#);
    stage.editor.line();
    stage.editor.send(&request("1", "session/prompt", &prompt("s")));
    agent.request("session/prompt");
    (stage, agent)
}

/// Line 6: an editor that can show notices gets one.
#[test]
fn an_editor_that_shows_notices_gets_a_notice() {
    for offer in [
        r#""clientCapabilities":{"session":{"notices":{}}}"#,
        r#""clientCapabilities":{"session":{"notices":true}}"#,
        r#""capabilities":{"session":{"notices":{}}}"#,
    ] {
        let (mut stage, agent) = prompted(&[], offer);
        kill(&agent);
        let notice = stage.editor.message();
        let update = &notice["params"]["update"];
        assert_eq!(notice["params"]["sessionId"], "s", "{notice}");
        assert_eq!(update["sessionUpdate"], "notice", "{notice}");
        assert_eq!(update["severity"], "warning", "{notice}");
        let title = update["title"].as_str().expect("a title");
        assert!(title.starts_with("agent 'agent' crashed: it was killed by signal 9"), "{title}");
        assert_eq!(update["_meta"], json!({ "conductor": { "component": "agent" } }));
        assert_crash(&stage.editor.message(), json!(1), "agent", "SIGKILL", "restarted");
    }
    for offer in [r#""clientCapabilities":{"session":{}}"#, r#""clientCapabilities":{}"#] {
        let (mut stage, agent) = prompted(&[], offer);
        kill(&agent);
        let notice = stage.editor.message();
        assert_eq!(notice["params"]["update"]["sessionUpdate"], "agent_message_chunk", "{notice}");
    }
}

/// Line 6: who does not want any gets none.
#[test]
fn there_are_no_notices_if_they_are_off() {
    let offer = r#""clientCapabilities":{"session":{"notices":{}}}"#;
    let (mut stage, agent) = prompted(&["--notices", "off"], offer);
    kill(&agent);
    assert_crash(&stage.editor.message(), json!(1), "agent", "SIGKILL", "restarted");
    let mut agent = stage.enter("agent");
    let asked = agent.request("initialize");
    agent.answer(&asked, LOADS);
    let asked = agent.request("session/load");
    agent.answer(&asked, "{}");
    stage.editor.send(&request("2", "session/prompt", &prompt("s")));
    let asked = agent.request("session/prompt");
    agent.answer(&asked, "{}");
    assert_eq!(stage.editor.message()["id"], 2);
}

/// Line 6: the log has a line for each crash, with who, how, its last words and what follows; and one
/// when it runs again. To standard error, or to the file.
#[test]
fn the_log_tells_who_crashed_how_its_last_words_and_what_follows() {
    let place = directory("survival-log");
    let file = place.join("log");
    let path = file.to_str().expect("UTF-8").to_owned();
    for options in [&[][..], &["--log-file", &path]] {
        let setup = loud().option(options).option(&["--restarts", "1/600"]);
        let mut proxy = setup.component("proxy");
        proxy["env"] = json!({ "TOKEN": "hunter2" });
        let components = [proxy.to_string(), setup.component("agent").to_string()];
        let stage = setup.run("agent", &components);
        let mut play = Play::of(stage, &["proxy", "agent"], PLAIN);
        let log = |stage: &Stage| match options {
            [] => stage.conductor.stderr(),
            _ => std::fs::read_to_string(&file).unwrap_or_default(),
        };
        let wait_for = |play: &Play, parts: &[&str]| {
            let is_it = |line: &str| parts.iter().all(|part| line.contains(part));
            wait_until(&format!("a line with {parts:?}"), || {
                log(&play.stage).lines().find(|line| is_it(line)).map(str::to_owned)
            })
        };
        play.proxies[0].mutter("one\ntwo\nthree\nno licence\n");
        play.proxies[0].exit(3);
        let line = wait_for(&play, &["proxy 'proxy'", "ended with status 3", "restarted"]);
        for part in ["WARN", "(command: ", "puppet", "last words", "two | three | no licence"] {
            assert!(line.contains(part), "{part:?} is not in {line:?}");
        }
        play.replaced(0);
        play.learns(0, &[]);
        play.works();
        wait_for(&play, &["proxy 'proxy' is running again"]);
        kill(&play.proxies[0]);
        wait_for(&play, &["proxy 'proxy'", "signal 9 (SIGKILL)", "left out from now on"]);
        // What a component itself says goes to standard error in any case.
        assert!(play.stage.conductor.stderr().contains("[proxy] no licence\n"));
        let said = format!("{}{}", log(&play.stage), play.stage.conductor.stderr());
        assert!(!said.contains("hunter2") && !said.contains("TOKEN"), "{said}");
    }
    std::fs::remove_dir_all(place).expect("the directory is ours");
}

fn queue(component: &Value) -> (&Value, &Value) {
    (&component["queue"]["heldMessages"], &component["queue"]["owes"])
}

/// Line 6: `conductor status` shows who is away, how often, why, and what waits.
#[test]
fn status_shows_who_is_away_and_what_waits() {
    let setup = loud().option(&["--restarts", "1/600", "--notices", "off"]);
    let mut play = Play::begin(setup, &["proxy", "agent"], PLAIN);
    let session = play.session("s");
    let first = play.proxies[0].pid;
    assert_eq!(play.status()["components"][0]["lastExit"], Value::Null);
    play.proxies[0].mutter("no licence\n");
    play.proxies[0].exit(3);
    play.replaced(0);
    let greeting = play.proxies[0].line();
    play.stage.editor.send(&request("1", "_x/ask", "{}"));
    let component = wait_until("the request waits", || {
        let component = play.status()["components"][0].take();
        (component["queue"]["heldMessages"] == 1).then_some(component)
    });
    assert_eq!(component["state"], "restarting", "{component}");
    assert_eq!(
        (&component["restarts"], &component["pid"]),
        (&json!(1), &json!(play.proxies[0].pid))
    );
    assert_ne!(component["pid"], first);
    assert_eq!(component["lastExit"], "ended with status 3");
    assert_eq!(component["exitWords"], json!(["no licence"]));
    assert!(component["queue"]["heldBytes"].as_u64().expect("a number") > 20, "{component}");
    assert_eq!(component["policy"], "restart,bypass");
    let status = play.status();
    assert_eq!((&status["state"], &status["sessions"]), (&json!("running"), &json!(1)));

    // It is live again.
    play.proxies[0].send(&testkit::rpc::wrapped_request("9", "initialize", "{}"));
    play.proxies[0].line();
    play.proxies[0].send(&result(id_of(&greeting), PLAIN));
    let line = play.proxies[0].line();
    assert_eq!(line, request(id_of(&line), "session/new", &session.params));
    play.proxies[0].send(&result(id_of(&line), &session.result));
    play.proxies[0].request("_x/ask");
    let component = play.wait_for_state(1, "live");
    assert_eq!(queue(&component), (&json!(0), &json!(1)));
    assert_eq!(
        (&component["restarts"], &component["lastExit"]),
        (&json!(1), &json!("ended with status 3"))
    );

    // And at last it is left out.
    kill(&play.proxies[0]);
    let component = play.wait_for_state(1, "bypassed");
    assert_eq!(component["lastExit"], "was killed by signal 9 (SIGKILL)");
    assert_eq!((&component["restarts"], &component["pid"]), (&json!(1), &Value::Null));
    assert_eq!(queue(&component), (&json!(0), &json!(0)));
    assert_eq!(play.status()["state"], "running");
}

/// Line 6: the same while it waits for its restart.
#[test]
fn status_shows_who_waits_to_be_restarted() {
    let mut play = Play::begin(never_back(), &["proxy", "agent"], PLAIN);
    kill(&play.proxies[0]);
    let component = play.wait_for_state(1, "restarting");
    assert_eq!((&component["pid"], &component["uptimeSeconds"]), (&Value::Null, &Value::Null));
    assert_eq!(component["lastExit"], "was killed by signal 9 (SIGKILL)");
    play.stage.editor.send(&request("1", "_x/ask", "{}"));
    play.agent.send(&update("s", "agent_message_chunk", "x"));
    wait_until("both wait", || {
        (status(&play.stage)["components"][0]["queue"]["heldMessages"] == 2).then_some(())
    });
    assert_eq!(play.status()["state"], "running");
}
