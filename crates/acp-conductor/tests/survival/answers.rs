//! A proxy dies after it has passed something on: what becomes of the answer. Line 2; checklist 100.

use serde_json::{Value, json};
use testkit::rpc::{cancel, notification, request, result, wrapped_request};
use testkit::stage::{Puppet, parse};

use crate::play::{PLAIN, Play, assert_crash, kill, pass, pass_on, prompt, update};
use crate::{never_back, stage};

const BARRIER: &str = "_conductor/barrier";

/// A prompt that has come to the agent, through a proxy that is replaced now.
fn prompted(play: &mut Play) -> Value {
    let session = play.session("s");
    let asked = play.prompt("1", "s");
    play.kill(0);
    play.learns(0, &[session]);
    asked
}

/// A proxy gets a barrier from the agent's side.
fn gets_barrier(proxy: &mut Puppet) -> Value {
    let asked = proxy.request("proxy/successor");
    assert_eq!(asked["params"]["method"], BARRIER, "{asked}");
    asked
}

fn chunk(n: usize) -> String {
    update("s", "agent_message_chunk", &n.to_string())
}

/// Line 2: the answer comes, once, behind what the agent said before it. The new proxy passes the
/// barrier on like any request that it does not know.
#[test]
fn the_answer_to_what_it_had_passed_on_comes_behind_the_updates() {
    let mut play = Play::pair(PLAIN);
    let asked = prompted(&mut play);
    for n in 0..20 {
        play.agent.send(&chunk(n));
    }
    play.agent.answer(&asked, r#"{"stopReason":"end_turn"}"#);
    for n in 20..25 {
        play.agent.send(&chunk(n));
    }
    for _ in 0..20 {
        pass(&mut play.proxies[0]);
    }
    let barrier = gets_barrier(&mut play.proxies[0]);
    // The editor sees what has come through, and no answer yet.
    for n in 0..20 {
        assert_eq!(play.stage.editor.line(), chunk(n));
    }
    pass_on(&mut play.proxies[0], &barrier);
    assert_eq!(play.stage.editor.line(), result("1", r#"{"stopReason":"end_turn"}"#));
    for _ in 20..25 {
        pass(&mut play.proxies[0]);
    }
    for n in 20..25 {
        assert_eq!(play.stage.editor.line(), chunk(n));
    }
    // It is answered like any request, and so it answers it itself.
    let answer = pass(&mut play.proxies[0]);
    assert_eq!(answer["result"], json!({}), "{answer}");
    play.works();
}

/// Line 2: nor does it overtake what still waits, when all of it came before the new proxy was there.
#[test]
fn nor_does_it_overtake_what_waits() {
    let mut play = Play::pair(PLAIN);
    let session = play.session("s");
    let asked = play.prompt("1", "s");
    play.kill(0);
    for n in 0..3 {
        play.agent.send(&chunk(n));
    }
    play.agent.answer(&asked, "{}");
    play.agent.send(&chunk(3));
    testkit::stage::wait_until("all of it waits", || {
        (play.status()["components"][0]["queue"]["heldMessages"] == 5).then_some(())
    });
    play.learns(0, &[session]);
    for _ in 0..3 {
        pass(&mut play.proxies[0]);
    }
    pass(&mut play.proxies[0]);
    pass(&mut play.proxies[0]);
    for n in 0..3 {
        assert_eq!(play.stage.editor.line(), chunk(n));
    }
    assert_eq!(play.stage.editor.line(), result("1", "{}"));
    assert_eq!(play.stage.editor.line(), chunk(3));
    pass(&mut play.proxies[0]);
    play.works();
}

/// Line 2: one that refuses what it does not know has shown as well that all has come through.
#[test]
fn a_proxy_may_refuse_the_barrier() {
    let mut play = Play::pair(PLAIN);
    let asked = prompted(&mut play);
    play.agent.send(&chunk(1));
    play.agent.answer(&asked, "{}");
    pass(&mut play.proxies[0]);
    let barrier = gets_barrier(&mut play.proxies[0]);
    play.proxies[0].fail(&barrier, r#"{"code":-32601,"message":"Method not found"}"#);
    assert_eq!(play.stage.editor.line(), chunk(1));
    assert_eq!(play.stage.editor.line(), result("1", "{}"));
    play.works();
}

/// Line 2: one that swallows it shows that when it passes on what came later. The answer goes first.
#[test]
fn a_proxy_that_swallows_the_barrier_holds_nobody_up() {
    let mut play = Play::pair(PLAIN);
    let asked = prompted(&mut play);
    play.agent.answer(&asked, "{}");
    let barrier = gets_barrier(&mut play.proxies[0]);
    play.agent.send(&chunk(1));
    pass(&mut play.proxies[0]);
    assert_eq!(play.stage.editor.line(), result("1", "{}"));
    assert_eq!(play.stage.editor.line(), chunk(1));
    // Should it say something after all, it is too late to matter.
    pass_on(&mut play.proxies[0], &barrier);
    let answer = pass(&mut play.proxies[0]);
    assert_eq!(answer["id"].as_str().map(|it| &it[..4]), Some("own "), "{answer}");
}

/// Line 2: a proxy that adds to a question has asked it as well.
#[test]
fn a_question_that_was_extended_is_the_same_question() {
    let added = r#"{"type":"text","text":"context"}"#;
    let hi = r#"{"type":"text","text":"hi"}"#;
    for params in [
        format!(r#"{{"sessionId":"s","prompt":[{added},{hi}]}}"#),
        format!(r#"{{"prompt":[{hi},{added}],"sessionId":"s","_meta":{{"x":1}}}}"#),
        r#"{ "sessionId" : "s", "prompt": [ {"text":"hi","type":"text","annotations":{}} ] }"#
            .into(),
    ] {
        let mut play = Play::pair(PLAIN);
        play.stage.editor.send(&request("1", "session/prompt", &prompt("s")));
        play.proxies[0].request("session/prompt");
        play.proxies[0].send(&wrapped_request("5", "session/prompt", &params));
        let asked = play.agent.request("session/prompt");
        play.kill(0);
        play.learns(0, &[]);
        play.agent.answer(&asked, r#"{"stopReason":"end_turn"}"#);
        pass(&mut play.proxies[0]);
        assert_eq!(play.stage.editor.line(), result("1", r#"{"stopReason":"end_turn"}"#));
        pass(&mut play.proxies[0]);
        play.works();
    }
}

/// Line 2: what was asked in other words only the old proxy could have translated back. Its asker gets
/// an error, and the agent is told that nobody waits.
#[test]
fn a_question_in_other_words_is_lost_and_called_off() {
    let mut play = Play::pair(PLAIN);
    let session = play.session("s");
    play.stage.editor.send(&request("1", "session/prompt", &prompt("s")));
    play.proxies[0].request("session/prompt");
    let other = r#"{"sessionId":"s","prompt":[{"type":"text","text":"ahoy"}]}"#;
    play.proxies[0].send(&wrapped_request("5", "session/prompt", other));
    let asked = play.agent.request("session/prompt");
    // Another one, which is no prompt.
    play.stage.editor.send(&request("2", "_x/ask", r#"{"n":1}"#));
    play.proxies[0].request("_x/ask");
    play.proxies[0].send(&wrapped_request("6", "_x/ask", r#"{"n":2}"#));
    let second = play.agent.request("_x/ask");
    kill(&play.proxies[0]);
    assert_crash(&play.stage.editor.message(), json!(1), "proxy", "SIGKILL", "restarted");
    assert_crash(&play.stage.editor.message(), json!(2), "proxy", "SIGKILL", "restarted");
    assert_eq!(play.agent.line(), cancel(&asked["id"].to_string()));
    assert_eq!(play.agent.line(), cancel(&second["id"].to_string()));
    assert_eq!(play.agent.line(), notification("session/cancel", r#"{"sessionId":"s"}"#));
    // It answers all the same, to nobody.
    play.agent.answer(&asked, r#"{"stopReason":"cancelled"}"#);
    play.agent.fail(&second, r#"{"code":-32800,"message":"cancelled"}"#);
    play.replaced(0);
    play.learns(0, &[session]);
    play.works();
}

/// Line 2: what was already cancelled is not cancelled twice.
#[test]
fn what_was_cancelled_before_is_cancelled_once() {
    let mut play = Play::pair(PLAIN);
    let session = play.session("s");
    let asked = play.prompt("1", "s");
    play.stage.editor.send(&cancel("1"));
    pass(&mut play.proxies[0]);
    assert_eq!(play.agent.line(), cancel(&asked["id"].to_string()));
    play.kill(0);
    play.learns(0, &[session]);
    play.agent.fail(&asked, r#"{"code":-32800,"message":"m"}"#);
    pass(&mut play.proxies[0]);
    let answer = play.stage.editor.message();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(-32800)));
    pass(&mut play.proxies[0]);
    play.works();
}

/// Line 2: a proxy may have died with the cancellation in its hands.
#[test]
fn a_cancellation_that_died_with_the_proxy_is_passed_on() {
    let mut play = Play::pair(PLAIN);
    let session = play.session("s");
    let asked = play.prompt("1", "s");
    play.stage.editor.send(&cancel("1"));
    assert_eq!(play.proxies[0].message()["method"], "$/cancel_request");
    play.kill(0);
    assert_eq!(play.agent.line(), cancel(&asked["id"].to_string()));
    play.learns(0, &[session]);
    play.agent.answer(&asked, r#"{"stopReason":"cancelled"}"#);
    pass(&mut play.proxies[0]);
    assert_eq!(play.stage.editor.line(), result("1", r#"{"stopReason":"cancelled"}"#));
}

/// Line 2: `$/cancel_request` for what was passed on finds its way while the proxy is away, and when
/// another is there; `session/cancel` goes through the new one.
#[test]
fn what_was_passed_on_can_be_cancelled_while_the_proxy_is_away() {
    let mut play = Play::pair(PLAIN);
    let session = play.session("s");
    let asked = play.prompt("1", "s");
    let other = play.ask("2", "_x/ask", "{}");
    play.kill(0);
    play.stage.editor.send(&cancel("2"));
    assert_eq!(play.agent.line(), cancel(&other["id"].to_string()));
    play.stage.editor.send(&notification("session/cancel", r#"{"sessionId":"s"}"#));
    play.learns(0, &[session]);
    pass(&mut play.proxies[0]);
    assert_eq!(play.agent.line(), notification("session/cancel", r#"{"sessionId":"s"}"#));
    play.stage.editor.send(&cancel("1"));
    assert_eq!(play.agent.line(), cancel(&asked["id"].to_string()));
    play.agent.answer(&asked, r#"{"stopReason":"cancelled"}"#);
    pass(&mut play.proxies[0]);
    assert_eq!(play.stage.editor.message()["id"], 1);
    pass(&mut play.proxies[0]);
    play.agent.answer(&other, "{}");
    pass(&mut play.proxies[0]);
    assert_eq!(play.stage.editor.message()["id"], 2);
    pass(&mut play.proxies[0]);
    play.works();
}

/// Line 2: the agent's own questions, the other way round: answered, once, behind what the editor said
/// before.
#[test]
fn the_agents_questions_are_answered_past_a_proxy_that_died() {
    let mut play = Play::pair(PLAIN);
    let session = play.session("s");
    let permission = r#"{"sessionId":"s","toolCall":{},"options":[]}"#;
    play.agent.send(&request("\"a\"", "session/request_permission", permission));
    pass(&mut play.proxies[0]);
    let asked = play.stage.editor.message();
    play.kill(0);
    play.stage.editor.send(&notification("_x/note", "{}"));
    play.stage.editor.send(&result(&asked["id"].to_string(), r#"{"outcome":"allow"}"#));
    play.learns(0, &[session]);
    pass(&mut play.proxies[0]);
    let barrier = pass(&mut play.proxies[0]);
    assert_eq!(barrier["method"], BARRIER, "{barrier}");
    assert_eq!(play.agent.line(), notification("_x/note", "{}"));
    assert_eq!(play.agent.line(), result("\"a\"", r#"{"outcome":"allow"}"#));
    pass(&mut play.proxies[0]);
    play.works();
}

/// Line 2: and what it asked in the proxy's own words is lost: the agent hears it, the editor need not
/// ask anybody any more.
#[test]
fn a_question_of_the_agent_in_other_words_is_taken_back_from_the_editor() {
    let mut play = Play::pair(PLAIN);
    play.agent.send(&request("\"a\"", "fs/read_text_file", r#"{"path":"/x"}"#));
    play.proxies[0].request("proxy/successor");
    play.proxies[0].send(&request("5", "fs/read_text_file", r#"{"path":"/y"}"#));
    let asked = play.stage.editor.message();
    // One of the proxy's own is taken back as well.
    play.proxies[0].send(&request("6", "_x/own", "{}"));
    let own = play.stage.editor.message();
    kill(&play.proxies[0]);
    assert_eq!(play.stage.editor.line(), cancel(&asked["id"].to_string()));
    assert_eq!(play.stage.editor.line(), cancel(&own["id"].to_string()));
    assert_crash(&play.agent.message(), json!("a"), "proxy", "SIGKILL", "restarted");
    play.stage.editor.send(&result(&asked["id"].to_string(), "{}"));
    play.stage.editor.send(&result(&own["id"].to_string(), "{}"));
    play.replaced(0);
    play.learns(0, &[]);
    play.works();
}

/// Line 2: the old proxy answered before it died. That is the answer; the agent's comes too late.
#[test]
fn who_has_an_answer_gets_no_second_one() {
    let mut play = Play::pair(PLAIN);
    let session = play.session("s");
    let asked = play.ask("1", "_x/ask", "{}");
    let own = json!({ "jsonrpc": "2.0", "id": "own c:0", "result": { "by": "proxy" } });
    // Under the id that the proxy was asked with: one less than that of the agent.
    let number: u64 = asked["id"].as_str().unwrap()[2..].parse().unwrap();
    let mut own = own.clone();
    own["id"] = json!(format!("c:{}", number - 1));
    play.proxies[0].send(&own.to_string());
    assert_eq!(play.stage.editor.message()["result"]["by"], "proxy");
    play.kill(0);
    assert_eq!(play.agent.line(), cancel(&asked["id"].to_string()));
    play.agent.answer(&asked, r#"{"by":"agent"}"#);
    play.learns(0, &[session]);
    play.works();
}

/// Line 2: two proxies die that have both passed a prompt on. Checklist 100.
#[test]
fn the_answer_comes_past_several_that_died() {
    for order in [[0, 1], [1, 0]] {
        let mut play = Play::begin(stage(), &["one", "two", "agent"], PLAIN);
        let session = play.session("s");
        let asked = play.prompt("1", "s");
        for at in order {
            play.kill(at);
        }
        play.agent.send(&chunk(1));
        play.agent.answer(&asked, "{}");
        for at in order {
            play.learns(at, std::slice::from_ref(&session));
        }
        // The update and the barrier go through the one, then the other.
        let proxies = &mut play.proxies;
        pass(&mut proxies[1]);
        let barrier = pass(&mut proxies[1]);
        assert_eq!(barrier["params"]["method"], BARRIER, "{barrier}");
        pass(&mut proxies[0]);
        let barrier = pass(&mut proxies[0]);
        assert_eq!(barrier["params"]["method"], BARRIER, "{barrier}");
        assert_eq!(play.stage.editor.line(), chunk(1));
        assert_eq!(play.stage.editor.line(), result("1", "{}"));
        proxies.iter_mut().for_each(|proxy| drop(pass(proxy)));
        play.works();
    }
}

/// Line 2: one that dies again, before the answer has come through the second time.
#[test]
fn a_proxy_may_die_with_the_barrier_in_its_hands() {
    let mut play = Play::pair(PLAIN);
    let asked = prompted(&mut play);
    play.agent.answer(&asked, "{}");
    gets_barrier(&mut play.proxies[0]);
    play.kill(0);
    assert_eq!(play.stage.editor.line(), result("1", "{}"));
    let session = crate::play::SetUp::new("s");
    play.learns(0, &[session]);
    play.works();
}

/// Line 2: where the proxy is left out, the answer goes straight to who asked.
#[test]
fn past_a_proxy_that_is_left_out_the_answer_goes_straight() {
    let setup = stage().option(&["--on-crash", "1=bypass"]);
    let mut play = Play::begin(setup, &["proxy", "agent"], PLAIN);
    play.session("s");
    let asked = play.prompt("1", "s");
    kill(&play.proxies[0]);
    play.wait_for_state(1, "bypassed");
    play.proxies.clear();
    play.agent.send(&chunk(1));
    play.agent.answer(&asked, "{}");
    assert_eq!(play.stage.editor.line(), chunk(1));
    assert_eq!(play.stage.editor.line(), result("1", "{}"));
    play.works();
}

/// Line 2: the editor leaves while an answer waits for a proxy that is away: it still gets it.
#[test]
fn an_answer_that_waits_is_delivered_when_the_chain_ends() {
    let setup = never_back().option(&["--grace", "0.3"]);
    let mut play = Play::begin(setup, &["proxy", "agent"], PLAIN);
    play.session("s");
    let asked = play.prompt("1", "s");
    kill(&play.proxies[0]);
    play.wait_for_state(1, "restarting");
    play.agent.answer(&asked, "{}");
    testkit::stage::wait_until("the answer waits", || {
        (play.status()["components"][0]["queue"]["heldMessages"] == 1).then_some(())
    });
    play.stage.editor.send(&request("2", "_x/ask", "{}"));
    play.stage.editor.leave();
    let mut answers = [play.stage.editor.message(), play.stage.editor.message()];
    answers.sort_by_key(|it| it["id"].as_u64());
    assert_eq!(answers[0], parse(&result("1", "{}")));
    assert_eq!((&answers[1]["id"], &answers[1]["error"]["code"]), (&json!(2), &json!(-32603)));
    assert_eq!(play.stage.conductor.status(), 0);
}
