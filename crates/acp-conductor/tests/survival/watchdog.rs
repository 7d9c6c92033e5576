//! Components that are alive and say nothing. Line 5.
//!
//! A limit here is either over at once or never comes, and what is asserted holds however slow this
//! machine is.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::rpc::{cancel, id_of, notification, request, result};
use testkit::stage::{assert_blames, assert_gone};

use crate::play::{
    LOADS, PLAIN, Play, SetUp, assert_crash, is_greeted, pass, prompt, signal, update,
};
use crate::stage;

const CANCEL: &str = r#"{"sessionId":"s"}"#;

/// The new proxy learns nothing but its greeting, and is live.
fn greeted(play: &mut Play) {
    let proxy = &mut play.proxies[0];
    let id = is_greeted(proxy);
    proxy.line();
    proxy.send(&result(&id, PLAIN));
}

/// Line 5: a stopped agent that owes the answer to a prompt is killed, which works on stopped ones, and
/// replaced; whoever waits is told.
#[test]
fn a_stopped_agent_that_owes_a_prompt_is_replaced() {
    let setup = stage().option(&["--prompt-limit", "3", "--answer-limit", "600"]);
    let mut play = Play::begin(setup, &["agent"], LOADS);
    play.session("s");
    play.agent.mutter("thinking\n");
    play.agent.settle();
    play.prompt("1", "s");
    signal(&play.agent, libc::SIGSTOP);
    let old = play.agent.pid;
    let answer = play.stage.editor.message();
    let cause = "gave no sign of life for 3 s while it owed session/prompt";
    assert_crash(&answer, json!(1), "agent", cause, "restarted");
    assert_gone(old, "the stopped one");
    play.agent_is_back();
    let line = play.agent.line();
    play.agent.send(&result(id_of(&line), "{}"));
    play.works();
    play.wait_for_words("thinking");
}

/// Line 5: who waits for somebody else is not to blame: it is the last of them.
#[test]
fn only_the_one_that_everybody_waits_for_is_to_blame() {
    let setup = stage().option(&["--prompt-limit", "3"]);
    let mut play = Play::begin(setup, &["one", "two", "agent"], LOADS);
    play.session("s");
    play.prompt("1", "s");
    signal(&play.agent, libc::SIGSTOP);
    let answer = play.proxies[1].message();
    assert_blames(&answer, "agent", "gave no sign of life", "");
    // A new one is there.
    play.stage.enter("agent").request("initialize");
}

/// Line 5: a stopped proxy that owes an answer. It is started again at once.
#[test]
fn a_stopped_proxy_that_owes_an_answer_is_replaced() {
    let setup = stage().option(&["--answer-limit", "0.2"]);
    let mut play = Play::begin(setup, &["proxy", "agent"], PLAIN);
    play.stage.editor.send(&request("1", "_x/ask", "{}"));
    play.proxies[0].request("_x/ask");
    signal(&play.proxies[0], libc::SIGSTOP);
    let old = play.proxies[0].pid;
    let answer = play.stage.editor.message();
    let cause = "gave no sign of life for 200 ms while it owed _x/ask";
    assert_crash(&answer, json!(1), "proxy", cause, "restarted");
    assert_gone(old, "the stopped one");
    play.replaced(0);
    greeted(&mut play);
    play.stage.editor.send(&notification("_x/note", "{}"));
    pass(&mut play.proxies[0]);
    assert_eq!(play.agent.line(), notification("_x/note", "{}"));
}

/// Line 5: and by policy, it is left out, or the chain stops.
#[test]
fn the_policy_is_for_those_who_hang_as_well() {
    let setup = stage().option(&["--answer-limit", "0.2", "--on-crash", "1=bypass"]);
    let mut play = Play::begin(setup, &["proxy", "agent"], PLAIN);
    play.stage.editor.send(&request("1", "_x/ask", "{}"));
    play.proxies[0].request("_x/ask");
    let answer = play.stage.editor.message();
    assert_crash(&answer, json!(1), "proxy", "gave no sign of life", "left out");
    assert_gone(play.proxies[0].pid, "the silent one");
    play.stage.editor.send(&notification("_x/note", "{}"));
    assert_eq!(play.agent.line(), notification("_x/note", "{}"));

    let options = ["--answer-limit", "0.2", "--on-crash", "1=stop", "--grace", "0.1"];
    let mut play = Play::begin(stage().option(&options), &["proxy", "agent"], PLAIN);
    play.stage.editor.send(&request("1", "_x/ask", "{}"));
    play.proxies[0].request("_x/ask");
    assert_blames(&play.stage.editor.message(), "proxy", "gave no sign of life", "");
    assert_eq!(play.stage.conductor.status(), 1);
}

/// Line 5: prompts take as long as they take, whatever the limit for other answers is, and the other
/// way round.
#[test]
fn prompts_and_other_requests_have_limits_of_their_own() {
    let answers = ["--answer-limit", "0.2", "--prompt-limit", "600"];
    let prompts = ["--answer-limit", "600", "--prompt-limit", "0.2"];
    for (options, slow, quick) in
        [(answers, "session/prompt", "_x/ask"), (prompts, "_x/ask", "session/prompt")]
    {
        let mut patient = Play::begin(stage().option(&options), &["agent"], LOADS);
        let asked = patient.ask("1", slow, &prompt("s"));
        // Asked later, and over sooner.
        let mut impatient = Play::begin(stage().option(&options), &["agent"], LOADS);
        impatient.ask("1", quick, &prompt("s"));
        assert_blames(&impatient.stage.editor.message(), "agent", "gave no sign of life", "");
        patient.agent.answer(&asked, "{}");
        assert_eq!(patient.stage.editor.line(), result("1", "{}"));
    }
}

/// Line 5: who waits for people to log in, or sets a session up, takes its time as with a prompt.
#[test]
fn a_login_and_a_session_that_is_set_up_take_their_time() {
    let options = ["--answer-limit", "0.2"];
    let login = ("authenticate", r#"{"methodId":"m"}"#.to_owned());
    let new = SetUp::new("s");
    let load = SetUp::old("session/load", "s");
    for (method, params) in [login, (new.method, new.params), (load.method, load.params)] {
        let mut patient = Play::begin(stage().option(&options), &["proxy", "agent"], LOADS);
        let asked = patient.ask("1", method, &params);
        // Asked later, and over sooner.
        let mut impatient = Play::begin(stage().option(&options), &["agent"], LOADS);
        impatient.stage.editor.send(&request("1", "_x/ask", "{}"));
        assert_blames(&impatient.stage.editor.message(), "agent", "gave no sign of life", "");
        let answer = patient.answer(&asked, r#"{"sessionId":"s"}"#);
        assert_eq!(answer["result"]["sessionId"], "s", "{method}: {answer}");
        assert_eq!(patient.status()["components"][1]["pid"], patient.agent.pid, "{method}");
    }
}

/// Line 5: who works and shows it is left alone. (Should this machine stand still for so long that even a
/// lively agent seems dead, nothing is learnt.)
#[test]
fn an_agent_that_gives_signs_of_life_is_left_alone() {
    const LIMIT: Duration = Duration::from_secs(3);
    let options = ["--prompt-limit", "3"];
    let begin = || {
        let mut play = Play::begin(stage().option(&options), &["agent"], LOADS);
        play.session("s");
        play
    };
    let (mut lively, mut silent) = (begin(), begin());
    let asked = lively.prompt("1", "s");
    let mut last = Instant::now();
    let mut longest = Duration::ZERO;
    silent.prompt("1", "s");
    // Who was asked later has been replaced; who was asked before has not.
    while !silent.stage.has_entered("agent") {
        lively.agent.send(&update("s", "agent_message_chunk", "x"));
        let line = lively.stage.editor.line();
        longest = longest.max(last.elapsed());
        last = Instant::now();
        if line != update("s", "agent_message_chunk", "x") {
            assert!(longest >= LIMIT / 2, "{line}");
            return;
        }
    }
    lively.agent.answer(&asked, "{}");
    let line = lively.stage.editor.line();
    assert!(line == result("1", "{}") || last.elapsed().max(longest) >= LIMIT / 2, "{line}");
}

/// Line 5: without a limit nobody is ever too slow.
#[test]
fn by_default_nobody_is_hurried() {
    let mut unhurried = Play::begin(stage(), &["proxy", "agent"], LOADS);
    unhurried.session("s");
    let asked = unhurried.prompt("1", "s");
    let other = unhurried.ask("2", "_x/ask", "{}");
    signal(&unhurried.agent, libc::SIGSTOP);
    // Elsewhere the same takes too long.
    let options = ["--prompt-limit", "3"];
    let mut hurried = Play::begin(stage().option(&options), &["agent"], LOADS);
    hurried.session("s");
    hurried.prompt("1", "s");
    assert_blames(&hurried.stage.editor.message(), "agent", "gave no sign of life", "");
    assert_eq!(unhurried.status()["components"][1]["pid"], unhurried.agent.pid);
    signal(&unhurried.agent, libc::SIGCONT);
    assert_eq!(unhurried.answer(&asked, "{}")["id"], 1);
    assert_eq!(unhurried.answer(&other, "{}")["id"], 2);
    unhurried.works();
}

/// Line 5: who goes on with a turn that was cancelled is given up, and the turn ends as if it had
/// stopped.
#[test]
fn a_cancelled_turn_ends_though_the_agent_does_not_stop() {
    let setup = stage().option(&["--cancel-limit", "0.2"]);
    let mut play = Play::begin(setup, &["agent"], LOADS);
    play.session("s");
    play.session("t");
    play.prompt("1", "s");
    play.prompt("2", "t");
    signal(&play.agent, libc::SIGSTOP);
    play.stage.editor.send(&notification("session/cancel", CANCEL));
    assert_eq!(play.stage.editor.line(), result("1", r#"{"stopReason":"cancelled"}"#));
    // The other turn is lost with it.
    let answer = play.stage.editor.message();
    let cause = "went on with session/prompt for 200 ms after it was cancelled";
    assert_crash(&answer, json!(2), "agent", cause, "restarted");
    assert_gone(play.agent.pid, "the stubborn one");
    play.agent_is_back();
    for _ in 0..2 {
        let line = play.agent.line();
        play.agent.send(&result(id_of(&line), "{}"));
    }
    play.works();
}

fn assert_cancelled(answer: &Value, id: Value) {
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&id, &json!(-32800)), "{answer}");
}

/// Issue 11, item 19: a request that was cancelled by its id is answered after the limit. Nothing happens to
/// the agent, which may ignore that; what it answers later is dropped, and its sessions live.
#[test]
fn a_cancelled_request_is_answered_though_nobody_honours_it() {
    let setup = stage().option(&["--cancel-limit", "0.2"]);
    let mut play = Play::begin(setup, &["agent"], PLAIN);
    play.session("s");
    let prompt = play.prompt("0", "s");
    let asked = play.ask("1", "_x/ask", "{}");
    play.stage.editor.send(&cancel("1"));
    assert_eq!(play.agent.line(), cancel(&asked["id"].to_string()));
    assert_cancelled(&play.stage.editor.message(), json!(1));
    // A prompt, too.
    play.stage.editor.send(&cancel("0"));
    assert_eq!(play.agent.line(), cancel(&prompt["id"].to_string()));
    assert_cancelled(&play.stage.editor.message(), json!(0));
    play.agent.answer(&asked, "{}");
    play.agent.answer(&prompt, r#"{"stopReason":"end_turn"}"#);
    play.works();
    let component = play.status()["components"][0].take();
    assert_eq!((&component["restarts"], &component["queue"]["owes"]), (&json!(0), &json!(0)));
}

/// The same for a proxy that neither honours a cancellation nor passes it on, and for an agent behind a proxy.
#[test]
fn a_proxy_may_ignore_that_a_request_is_cancelled() {
    let setup = stage().option(&["--cancel-limit", "0.2"]);
    let mut play = Play::begin(setup, &["proxy", "agent"], PLAIN);
    play.session("s");
    play.stage.editor.send(&request("1", "_x/ask", "{}"));
    let asked = play.proxies[0].request("_x/ask");
    play.stage.editor.send(&cancel("1"));
    play.proxies[0].line();
    assert_cancelled(&play.stage.editor.message(), json!(1));
    play.proxies[0].answer(&asked, "{}");
    play.works();

    let asked = play.ask("2", "_x/ask", "{}");
    play.stage.editor.send(&cancel("2"));
    pass(&mut play.proxies[0]);
    assert_eq!(play.agent.line(), cancel(&asked["id"].to_string()));
    // The proxy gets the answer in place of the agent's, and passes it on.
    pass(&mut play.proxies[0]);
    assert_cancelled(&play.stage.editor.message(), json!(2));
    play.agent.answer(&asked, "{}");
    play.works();
    let components = play.status()["components"].take();
    assert_eq!((&components[0]["restarts"], &components[1]["restarts"]), (&json!(0), &json!(0)));
}

/// Many old proxies pass a request on, but not its cancellation. The agent then never hears of it.
#[test]
fn a_proxy_may_pass_a_request_on_and_keep_its_cancellation() {
    let setup = stage().option(&["--cancel-limit", "0.2"]);
    let mut play = Play::begin(setup, &["proxy", "agent"], PLAIN);
    play.session("s");
    let asked = play.ask("1", "_x/ask", "{}");
    play.stage.editor.send(&cancel("1"));
    play.proxies[0].line();
    assert_cancelled(&play.stage.editor.message(), json!(1));
    play.agent.answer(&asked, "{}");
    pass(&mut play.proxies[0]);
    play.works();
}

/// Answers that such a proxy gets meanwhile do not give it more and more time.
#[test]
fn a_cancelled_request_is_answered_though_the_chain_is_busy() {
    let setup = stage().option(&["--cancel-limit", "0.2"]);
    let mut play = Play::begin(setup, &["proxy", "agent"], PLAIN);
    play.session("s");
    play.stage.editor.send(&request("1", "_x/ask", "{}"));
    play.proxies[0].request("_x/ask");
    play.stage.editor.send(&cancel("1"));
    play.proxies[0].line();
    let began = Instant::now();
    loop {
        let asked = play.ask("2", "_x/other", "{}");
        play.agent.answer(&asked, "{}");
        pass(&mut play.proxies[0]);
        let answer = play.stage.editor.message();
        if answer["id"] == 1 {
            return assert_cancelled(&answer, json!(1));
        }
        assert!(began.elapsed() < Duration::from_secs(60), "nobody answers the cancelled request");
    }
}

/// A session that was set up though that was cancelled is closed: the editor does not know it.
#[test]
fn a_session_whose_set_up_was_cancelled_is_closed_when_it_comes_late() {
    let setup = stage().option(&["--cancel-limit", "0.2"]);
    let mut play = Play::begin(setup, &["agent"], PLAIN);
    let asked = play.ask("1", "session/new", r#"{"cwd":"/","mcpServers":[]}"#);
    play.stage.editor.send(&cancel("1"));
    play.agent.line();
    assert_cancelled(&play.stage.editor.message(), json!(1));
    play.agent.answer(&asked, r#"{"sessionId":"late"}"#);
    let close = play.agent.request("session/close");
    assert_eq!(close["params"]["sessionId"], "late");
    play.agent.answer(&close, "{}");
    play.works();
}

/// Line 5: a proxy that has passed the cancellation on waits like everybody. When the agent is given up,
/// it is not given up as well: it gets the answer, and has time to pass it on.
#[test]
fn a_proxy_is_not_to_blame_for_an_agent_that_does_not_stop() {
    let setup = stage().option(&["--cancel-limit", "0.2"]);
    let mut play = Play::begin(setup, &["proxy", "agent"], LOADS);
    play.session("s");
    play.prompt("1", "s");
    play.stage.editor.send(&notification("session/cancel", CANCEL));
    pass(&mut play.proxies[0]);
    assert_eq!(play.agent.line(), notification("session/cancel", CANCEL));
    let answer = pass(&mut play.proxies[0]);
    assert_eq!(answer["result"], json!({ "stopReason": "cancelled" }), "{answer}");
    assert_eq!(play.stage.editor.line(), result("1", r#"{"stopReason":"cancelled"}"#));
}

/// Line 5: one that hangs with a cancelled prompt is found, though it waits for another one, of another
/// session, that it has passed on.
#[test]
fn a_proxy_is_to_blame_for_a_cancelled_prompt_that_it_has_not_passed_on() {
    let setup = stage().option(&["--cancel-limit", "0.2"]);
    let mut play = Play::begin(setup, &["proxy", "agent"], LOADS);
    let sessions = ["s", "t"].map(|name| play.session(name));
    play.stage.editor.send(&request("1", "session/prompt", &prompt("s")));
    play.proxies[0].request("session/prompt");
    let asked = play.prompt("2", "t");
    play.stage.editor.send(&notification("session/cancel", CANCEL));
    let old = play.proxies[0].pid;
    assert_eq!(play.stage.editor.line(), result("1", r#"{"stopReason":"cancelled"}"#));
    assert_gone(old, "the one that hangs");
    play.wait_for_words("went on with session/prompt for 200 ms after it was cancelled");
    play.replaced(0);
    play.learns(0, &sessions);
    // The other turn goes on; its answer comes behind a barrier.
    play.agent.answer(&asked, "{}");
    pass(&mut play.proxies[0]);
    assert_eq!(play.stage.editor.line(), result("2", "{}"));
    pass(&mut play.proxies[0]);
    play.works();
}

/// Line 5: the default is not none, but two minutes; `off` is none.
#[test]
fn a_cancellation_may_be_ignored_if_that_is_wanted() {
    for options in [&[][..], &["--cancel-limit", "off"]] {
        let mut patient = Play::begin(stage().option(options), &["agent"], LOADS);
        patient.session("s");
        let asked = patient.prompt("1", "s");
        patient.stage.editor.send(&notification("session/cancel", CANCEL));
        assert_eq!(patient.agent.line(), notification("session/cancel", CANCEL));
        let limit = stage().option(&["--cancel-limit", "0.2"]);
        let mut impatient = Play::begin(limit, &["agent"], LOADS);
        impatient.session("s");
        impatient.prompt("1", "s");
        impatient.stage.editor.send(&notification("session/cancel", CANCEL));
        assert_eq!(impatient.stage.editor.message()["result"]["stopReason"], "cancelled");
        let answer = patient.answer(&asked, r#"{"stopReason":"end_turn"}"#);
        assert_eq!(answer["result"]["stopReason"], "end_turn");
        patient.works();
    }
}

/// Line 5, 2: one that says nothing while it is told of its sessions is blamed for what it did not answer,
/// not for its greeting.
#[test]
fn who_is_silent_while_it_learns_is_blamed_for_what_it_did_not_answer() {
    let options = ["--init-timeout", "2", "--restarts", "1/600"];
    let mut play = Play::begin(stage().option(&options), &["proxy", "agent"], PLAIN);
    play.session("s");
    play.kill(0);
    greeted(&mut play);
    play.proxies[0].request("session/new");
    let component = play.wait_for_state(1, "bypassed");
    let cause = "gave no sign of life for 2 s while it owed session/new";
    assert_eq!(component["lastExit"], cause, "{component}");
    play.wait_for_words(cause);
    play.proxies.clear();
    play.works();
}
