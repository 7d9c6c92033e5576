//! Components that are alive but do not answer.
//!
//! A limit that must not be over before a step of the test is [`GENEROUS`]. The others may be over at any time.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::rpc::{cancel, id_of, notification, request, result};
use testkit::test_chain::{assert_gone, assert_reports_failure, wait_until};

use crate::chain::{
    LOADS, PLAIN, ScriptedChain, SessionRequest, assert_crash, complete_greeting, forward_next,
    prompt, signal, update,
};
use crate::new_setup;

/// A limit in seconds that healthy components meet even on a busy machine. A test that waits for its end takes so long.
const GENEROUS: &str = "5";

const CANCEL: &str = r#"{"sessionId":"s"}"#;

/// SIGKILL also works on a stopped process. The agent is replaced, and the requester gets an error.
#[test]
fn a_stopped_agent_that_owes_a_prompt_is_replaced() {
    let setup = new_setup().option(&["--prompt-limit", GENEROUS, "--answer-limit", "600"]);
    let mut chain = ScriptedChain::start(setup, &["agent"], LOADS);
    chain.new_session("s");
    chain.agent.write_stderr("thinking\n");
    chain.agent.sync();
    chain.prompt("1", "s");
    signal(&chain.agent, libc::SIGSTOP);
    let old = chain.agent.pid;
    let answer = chain.test.editor.message();
    let cause = "showed no activity for 5 s while it owed an answer to session/prompt";
    assert_crash(&answer, json!(1), "agent", cause, "restarted");
    assert_gone(old, "the stopped agent");
    chain.await_agent_restart();
    let line = chain.agent.line();
    chain.agent.send(&result(id_of(&line), "{}"));
    chain.assert_works();
    chain.test.conductor.wait_for_stderr("thinking");
}

/// A component that waits on another one is not stuck. Only the last component in the chain of waits is.
#[test]
fn only_a_component_that_waits_on_no_other_is_considered_stuck() {
    let setup = new_setup().option(&["--prompt-limit", GENEROUS]);
    let mut chain = ScriptedChain::start(setup, &["one", "two", "agent"], LOADS);
    chain.new_session("s");
    chain.prompt("1", "s");
    signal(&chain.agent, libc::SIGSTOP);
    let answer = chain.proxies[1].message();
    assert_reports_failure(&answer, "agent", "showed no activity", "");
    // A new agent has started.
    chain.test.wait_for_component("agent").request("initialize");
}

/// A stopped proxy that owes an answer is restarted at once.
#[test]
fn a_stopped_proxy_that_owes_an_answer_is_replaced() {
    let setup = new_setup().option(&["--answer-limit", "0.2"]);
    let mut chain = ScriptedChain::start(setup, &["proxy", "agent"], PLAIN);
    signal(&chain.proxies[0], libc::SIGSTOP);
    chain.test.editor.send(&request("1", "_x/ask", "{}"));
    let old = chain.proxies[0].pid;
    let answer = chain.test.editor.message();
    let cause = "showed no activity for 200 ms while it owed an answer to _x/ask";
    assert_crash(&answer, json!(1), "proxy", cause, "restarted");
    assert_gone(old, "the stopped proxy");
    chain.await_restart(0);
    complete_greeting(&mut chain.proxies[0], PLAIN);
    chain.test.editor.send(&notification("_x/note", "{}"));
    forward_next(&mut chain.proxies[0]);
    assert_eq!(chain.agent.line(), notification("_x/note", "{}"));
}

/// By policy a component that hangs is bypassed, or the chain stops.
#[test]
fn the_crash_policy_applies_to_components_that_hang() {
    let setup = new_setup().option(&["--answer-limit", "0.2", "--on-crash", "1=bypass"]);
    let mut chain = ScriptedChain::start(setup, &["proxy", "agent"], PLAIN);
    chain.test.editor.send(&request("1", "_x/ask", "{}"));
    let answer = chain.test.editor.message();
    assert_crash(&answer, json!(1), "proxy", "showed no activity", "bypassed");
    assert_gone(chain.proxies[0].pid, "the silent proxy");
    chain.test.editor.send(&notification("_x/note", "{}"));
    assert_eq!(chain.agent.line(), notification("_x/note", "{}"));

    let options = ["--answer-limit", "0.2", "--on-crash", "1=stop", "--grace", "0.1"];
    let mut chain = ScriptedChain::start(new_setup().option(&options), &["proxy", "agent"], PLAIN);
    chain.test.editor.send(&request("1", "_x/ask", "{}"));
    assert_reports_failure(&chain.test.editor.message(), "proxy", "showed no activity", "");
    assert_eq!(chain.test.conductor.status(), 1);
}

/// The limit for prompts does not apply to other requests, and the other way round.
#[test]
fn prompts_and_other_requests_have_separate_limits() {
    let answers = ["--answer-limit", "0.2", "--prompt-limit", "600"];
    let prompts = ["--answer-limit", "600", "--prompt-limit", "0.2"];
    for (options, slow, quick) in
        [(answers, "session/prompt", "_x/ask"), (prompts, "_x/ask", "session/prompt")]
    {
        let mut patient = ScriptedChain::start(new_setup().option(&options), &["agent"], LOADS);
        let received = patient.request("1", slow, &prompt("s"));
        // This request is sent later, and its limit is over sooner.
        let mut impatient = ScriptedChain::start(new_setup().option(&options), &["agent"], LOADS);
        impatient.test.editor.send(&request("1", quick, &prompt("s")));
        assert_reports_failure(&impatient.test.editor.message(), "agent", "showed no activity", "");
        patient.agent.answer(&received, "{}");
        assert_eq!(patient.test.editor.line(), result("1", "{}"));
    }
}

/// A login and the set-up of a session have the limit of a prompt, because they may wait for the user.
#[test]
fn a_login_and_a_session_set_up_have_the_limit_of_a_prompt() {
    let options = ["--answer-limit", "0.2"];
    let login = ("authenticate", r#"{"methodId":"m"}"#.to_owned());
    let new = SessionRequest::new("s");
    let load = SessionRequest::existing("session/load", "s");
    for (method, params) in [login, (new.method, new.params), (load.method, load.params)] {
        let mut patient =
            ScriptedChain::start(new_setup().option(&options), &["proxy", "agent"], LOADS);
        let received = patient.request("1", method, &params);
        // This request is sent later, and its limit is over sooner.
        let mut impatient = ScriptedChain::start(new_setup().option(&options), &["agent"], LOADS);
        impatient.test.editor.send(&request("1", "_x/ask", "{}"));
        assert_reports_failure(&impatient.test.editor.message(), "agent", "showed no activity", "");
        let answer = patient.answer(&received, r#"{"sessionId":"s"}"#);
        assert_eq!(answer["result"]["sessionId"], "s", "{method}: {answer}");
        assert_eq!(patient.status()["components"][1]["pid"], patient.agent.pid, "{method}");
    }
}

/// An agent that sends updates is not stuck. (If the machine stalls for longer than the limit, the test
/// shows nothing.)
#[test]
fn an_agent_that_sends_updates_is_not_considered_stuck() {
    const LIMIT: Duration = Duration::from_secs(5);
    let options = ["--prompt-limit", GENEROUS];
    let begin = || {
        let mut chain = ScriptedChain::start(new_setup().option(&options), &["agent"], LOADS);
        chain.new_session("s");
        chain
    };
    let (mut lively, mut silent) = (begin(), begin());
    let received = lively.prompt("1", "s");
    let mut last = Instant::now();
    let mut longest = Duration::ZERO;
    silent.prompt("1", "s");
    // The agent that was prompted later has been replaced. The other one has not.
    while !silent.test.has_reported("agent") {
        lively.agent.send(&update("s", "agent_message_chunk", "x"));
        let line = lively.test.editor.line();
        longest = longest.max(last.elapsed());
        last = Instant::now();
        if line != update("s", "agent_message_chunk", "x") {
            assert!(longest >= LIMIT / 2, "{line}");
            return;
        }
    }
    lively.agent.answer(&received, "{}");
    let line = lively.test.editor.line();
    assert!(line == result("1", "{}") || last.elapsed().max(longest) >= LIMIT / 2, "{line}");
}

/// Without a limit no component is ever replaced for being slow.
#[test]
fn by_default_there_is_no_limit_for_answers() {
    let mut unhurried = ScriptedChain::start(new_setup(), &["proxy", "agent"], LOADS);
    unhurried.new_session("s");
    let received = unhurried.prompt("1", "s");
    let other = unhurried.request("2", "_x/ask", "{}");
    signal(&unhurried.agent, libc::SIGSTOP);
    // In a chain with a limit the same prompt takes too long.
    let options = ["--prompt-limit", GENEROUS];
    let mut hurried = ScriptedChain::start(new_setup().option(&options), &["agent"], LOADS);
    hurried.new_session("s");
    hurried.prompt("1", "s");
    assert_reports_failure(&hurried.test.editor.message(), "agent", "showed no activity", "");
    assert_eq!(unhurried.status()["components"][1]["pid"], unhurried.agent.pid);
    signal(&unhurried.agent, libc::SIGCONT);
    assert_eq!(unhurried.answer(&received, "{}")["id"], 1);
    assert_eq!(unhurried.answer(&other, "{}")["id"], 2);
    unhurried.assert_works();
}

/// An agent that continues a cancelled turn is replaced, and the turn ends as cancelled.
#[test]
fn a_cancelled_turn_ends_even_if_the_agent_does_not_stop() {
    let setup = new_setup().option(&["--cancel-limit", "0.2"]);
    let mut chain = ScriptedChain::start(setup, &["agent"], LOADS);
    chain.new_session("s");
    chain.new_session("t");
    chain.prompt("1", "s");
    chain.prompt("2", "t");
    signal(&chain.agent, libc::SIGSTOP);
    chain.test.editor.send(&notification("session/cancel", CANCEL));
    assert_eq!(chain.test.editor.line(), result("1", r#"{"stopReason":"cancelled"}"#));
    // The other turn is lost with the agent.
    let answer = chain.test.editor.message();
    let cause = "kept running session/prompt for 200 ms after it was cancelled";
    assert_crash(&answer, json!(2), "agent", cause, "restarted");
    assert_gone(chain.agent.pid, "the agent that ignored the cancellation");
    chain.await_agent_restart();
    for _ in 0..2 {
        let line = chain.agent.line();
        chain.agent.send(&result(id_of(&line), "{}"));
    }
    chain.assert_works();
}

fn assert_cancelled(answer: &Value, id: Value) {
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&id, &json!(-32800)), "{answer}");
}

/// A request that was cancelled by its id is answered after the limit. The agent is not replaced, since it may
/// ignore `$/cancel_request`. Its late answer is dropped, and its sessions live on.
#[test]
fn a_cancelled_request_is_answered_even_if_the_agent_ignores_the_cancellation() {
    let setup = new_setup().option(&["--cancel-limit", "0.2"]);
    let mut chain = ScriptedChain::start(setup, &["agent"], PLAIN);
    chain.new_session("s");
    let prompt = chain.prompt("0", "s");
    let received = chain.request("1", "_x/ask", "{}");
    chain.test.editor.send(&cancel("1"));
    assert_eq!(chain.agent.line(), cancel(&received["id"].to_string()));
    assert_cancelled(&chain.test.editor.message(), json!(1));
    // The same holds for a prompt.
    chain.test.editor.send(&cancel("0"));
    assert_eq!(chain.agent.line(), cancel(&prompt["id"].to_string()));
    assert_cancelled(&chain.test.editor.message(), json!(0));
    chain.agent.answer(&received, "{}");
    chain.agent.answer(&prompt, r#"{"stopReason":"end_turn"}"#);
    chain.assert_works();
    let component = chain.status()["components"][0].take();
    assert_eq!((&component["restarts"], &component["queue"]["owes"]), (&json!(0), &json!(0)));
}

/// The same for a proxy that neither honours a cancellation nor passes it on, and for an agent behind a
/// proxy.
#[test]
fn a_cancelled_request_is_answered_even_if_a_proxy_ignores_the_cancellation() {
    let setup = new_setup().option(&["--cancel-limit", "0.2"]);
    let mut chain = ScriptedChain::start(setup, &["proxy", "agent"], PLAIN);
    chain.new_session("s");
    chain.test.editor.send(&request("1", "_x/ask", "{}"));
    let received = chain.proxies[0].request("_x/ask");
    chain.test.editor.send(&cancel("1"));
    chain.proxies[0].line();
    assert_cancelled(&chain.test.editor.message(), json!(1));
    chain.proxies[0].answer(&received, "{}");
    chain.assert_works();

    let received = chain.request("2", "_x/ask", "{}");
    chain.test.editor.send(&cancel("2"));
    forward_next(&mut chain.proxies[0]);
    assert_eq!(chain.agent.line(), cancel(&received["id"].to_string()));
    // The proxy receives the conductor's answer in place of the agent's, and passes it on.
    forward_next(&mut chain.proxies[0]);
    assert_cancelled(&chain.test.editor.message(), json!(2));
    chain.agent.answer(&received, "{}");
    chain.assert_works();
    let components = chain.status()["components"].take();
    assert_eq!((&components[0]["restarts"], &components[1]["restarts"]), (&json!(0), &json!(0)));
}

/// Many old proxies pass a request on, but not its cancellation. The agent never receives it.
#[test]
fn a_cancelled_request_is_answered_even_if_a_proxy_does_not_forward_the_cancellation() {
    let setup = new_setup().option(&["--cancel-limit", "0.2"]);
    let mut chain = ScriptedChain::start(setup, &["proxy", "agent"], PLAIN);
    chain.new_session("s");
    let received = chain.request("1", "_x/ask", "{}");
    chain.test.editor.send(&cancel("1"));
    chain.proxies[0].line();
    assert_cancelled(&chain.test.editor.message(), json!(1));
    chain.agent.answer(&received, "{}");
    forward_next(&mut chain.proxies[0]);
    chain.assert_works();
}

/// Answers that the proxy receives meanwhile do not extend the limit.
#[test]
fn a_cancelled_request_is_answered_even_if_the_chain_is_busy() {
    let setup = new_setup().option(&["--cancel-limit", "0.2"]);
    let mut chain = ScriptedChain::start(setup, &["proxy", "agent"], PLAIN);
    chain.new_session("s");
    chain.test.editor.send(&request("1", "_x/ask", "{}"));
    chain.proxies[0].request("_x/ask");
    chain.test.editor.send(&cancel("1"));
    chain.proxies[0].line();
    let answer = wait_until("the cancelled request is answered", || {
        let received = chain.request("2", "_x/other", "{}");
        chain.agent.answer(&received, "{}");
        forward_next(&mut chain.proxies[0]);
        Some(chain.test.editor.message()).filter(|answer| answer["id"] == 1)
    });
    assert_cancelled(&answer, json!(1));
}

/// The editor does not know a session whose set-up it cancelled, so the conductor closes it.
#[test]
fn a_session_whose_set_up_was_cancelled_is_closed() {
    let setup = new_setup().option(&["--cancel-limit", "0.2"]);
    let mut chain = ScriptedChain::start(setup, &["agent"], PLAIN);
    let received = chain.request("1", "session/new", r#"{"cwd":"/","mcpServers":[]}"#);
    chain.test.editor.send(&cancel("1"));
    chain.agent.line();
    assert_cancelled(&chain.test.editor.message(), json!(1));
    chain.agent.answer(&received, r#"{"sessionId":"late"}"#);
    let close = chain.agent.request("session/close");
    assert_eq!(close["params"]["sessionId"], "late");
    chain.agent.answer(&close, "{}");
    chain.assert_works();
}

/// A proxy that has passed the cancellation on waits on the agent. When the agent is replaced, the proxy
/// receives the answer and has time to pass it on.
#[test]
fn a_proxy_is_not_stuck_when_the_agent_ignores_a_cancellation() {
    let setup = new_setup().option(&["--cancel-limit", GENEROUS]);
    let mut chain = ScriptedChain::start(setup, &["proxy", "agent"], LOADS);
    chain.new_session("s");
    chain.prompt("1", "s");
    chain.test.editor.send(&notification("session/cancel", CANCEL));
    forward_next(&mut chain.proxies[0]);
    assert_eq!(chain.agent.line(), notification("session/cancel", CANCEL));
    let answer = forward_next(&mut chain.proxies[0]);
    assert_eq!(answer["result"], json!({ "stopReason": "cancelled" }), "{answer}");
    assert_eq!(chain.test.editor.line(), result("1", r#"{"stopReason":"cancelled"}"#));
}

/// A proxy that hangs on a cancelled prompt is found, although it also waits on a prompt of another session
/// that it has passed on.
#[test]
fn a_proxy_that_did_not_forward_a_cancelled_prompt_is_considered_stuck() {
    let setup = new_setup().option(&["--cancel-limit", "0.2"]);
    let mut chain = ScriptedChain::start(setup, &["proxy", "agent"], LOADS);
    let sessions = ["s", "t"].map(|name| chain.new_session(name));
    chain.test.editor.send(&request("1", "session/prompt", &prompt("s")));
    chain.proxies[0].request("session/prompt");
    let received = chain.prompt("2", "t");
    chain.test.editor.send(&notification("session/cancel", CANCEL));
    let old = chain.proxies[0].pid;
    assert_eq!(chain.test.editor.line(), result("1", r#"{"stopReason":"cancelled"}"#));
    assert_gone(old, "the proxy that hung");
    chain
        .test
        .conductor
        .wait_for_stderr("kept running session/prompt for 200 ms after it was cancelled");
    chain.await_restart(0);
    chain.expect_replay(0, &sessions);
    // The other turn continues. Its answer comes after a barrier.
    chain.agent.answer(&received, "{}");
    forward_next(&mut chain.proxies[0]);
    assert_eq!(chain.test.editor.line(), result("2", "{}"));
    forward_next(&mut chain.proxies[0]);
    chain.assert_works();
}

/// The default limit is two minutes, and `off` disables it.
#[test]
fn the_cancel_limit_can_be_turned_off() {
    for options in [&[][..], &["--cancel-limit", "off"]] {
        let mut patient = ScriptedChain::start(new_setup().option(options), &["agent"], LOADS);
        patient.new_session("s");
        let received = patient.prompt("1", "s");
        patient.test.editor.send(&notification("session/cancel", CANCEL));
        assert_eq!(patient.agent.line(), notification("session/cancel", CANCEL));
        let limit = new_setup().option(&["--cancel-limit", "0.2"]);
        let mut impatient = ScriptedChain::start(limit, &["agent"], LOADS);
        impatient.new_session("s");
        impatient.prompt("1", "s");
        impatient.test.editor.send(&notification("session/cancel", CANCEL));
        assert_eq!(impatient.test.editor.message()["result"]["stopReason"], "cancelled");
        let answer = patient.answer(&received, r#"{"stopReason":"end_turn"}"#);
        assert_eq!(answer["result"]["stopReason"], "end_turn");
        patient.assert_works();
    }
}

/// The cause of the failure names the request that the component did not answer, not its greeting.
#[test]
fn the_failure_of_a_component_that_is_silent_during_session_replay_names_the_request() {
    let options = ["--init-timeout", GENEROUS, "--restarts", "1/600"];
    let mut chain = ScriptedChain::start(new_setup().option(&options), &["proxy", "agent"], PLAIN);
    chain.new_session("s");
    chain.kill_proxy(0);
    complete_greeting(&mut chain.proxies[0], PLAIN);
    chain.proxies[0].request("session/new");
    let component = chain.wait_for_state(1, "bypassed");
    let cause = "showed no activity for 5 s while it owed an answer to session/new";
    assert_eq!(component["lastExit"], cause, "{component}");
    chain.test.conductor.wait_for_stderr(cause);
    chain.proxies.clear();
    chain.assert_works();
}
