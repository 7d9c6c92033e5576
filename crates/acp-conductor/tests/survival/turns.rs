//! Item 5: in ACP version 2 a turn goes on after its prompt was answered, until the agent reports that it is
//! idle. Limits, deaths and the status go by the turn.

use serde_json::{Value, json};
use testkit::rpc::{notification, result};
use testkit::stage::Stage;

use super::play::{Play, kill, pass, prompt, status};
use super::stage;

/// Answers for version 2. A puppet that is killed can take its sessions up again.
const SECOND: &str = r#"{"protocolVersion":2,"info":{"name":"a","version":"1"},"capabilities":{"session":{"resume":{},"mcp":{"acp":{}}}}}"#;

fn state(session: &str, state: &str) -> String {
    let params = format!(
        r#"{{"sessionId":"{session}","update":{{"sessionUpdate":"state_update","state":{state}}}}}"#
    );
    notification("session/update", &params)
}

/// A prompt is accepted, and the agent is at work.
fn begin(play: &mut Play) {
    let asked = play.prompt("1", "s");
    let accepted = play.answer(&asked, r#"{"messageId":"m"}"#);
    assert_eq!(accepted["result"]["messageId"], "m");
    play.agent.send(&state("s", r#""running""#));
    play.proxies.iter_mut().rev().for_each(|proxy| drop(pass(proxy)));
    assert_eq!(play.stage.editor.message()["params"]["update"]["state"], "running");
}

/// The end of a turn that failed, which must tell this cause.
fn assert_failed(update: &Value, cause: &str) {
    let update = &update["params"]["update"];
    assert_eq!((&update["state"], &update["stopReason"]), (&json!("idle"), &json!("error")));
    let told = update["error"]["message"].as_str().expect("a cause");
    assert!(told.contains("agent 'agent'") && told.contains(cause), "{told}");
}

/// The fresh agent takes up the session, and the chain works.
fn goes_on(play: &mut Play) {
    let name = play.agent.name.clone();
    play.agent = play.stage.enter(&name);
    let asked = play.agent.request("initialize");
    let greeted = play.greeted.clone();
    play.agent.answer(&asked, &greeted);
    let asked = play.agent.request("session/resume");
    play.agent.answer(&asked, "{}");
    play.works();
}

#[test]
fn an_agent_that_is_silent_in_a_turn_is_replaced() {
    let setup = stage().option(&["--prompt-limit", "3", "--answer-limit", "600"]);
    let mut play = Play::begin(setup, &["agent"], SECOND);
    play.session("s");
    begin(&mut play);
    assert_failed(&play.stage.editor.message(), "gave no sign of life for 3 s");
    goes_on(&mut play);
}

/// A proxy whose agent is at work is not to blame.
#[test]
fn in_a_turn_only_the_last_component_at_work_is_to_blame() {
    let setup = stage().option(&["--prompt-limit", "3"]);
    let mut play = Play::begin(setup, &["proxy", "agent"], SECOND);
    play.session("s");
    begin(&mut play);
    let told = pass(&mut play.proxies[0]);
    assert_eq!(told["params"]["params"]["update"]["state"], "idle", "{told}");
    assert_failed(&play.stage.editor.message(), "gave no sign of life for 3 s");
    goes_on(&mut play);
}

#[test]
fn an_agent_that_ignores_a_cancellation_is_replaced_and_the_turn_is_cancelled() {
    let setup = stage().option(&["--cancel-limit", "1"]);
    let mut play = Play::begin(setup, &["agent"], SECOND);
    play.session("s");
    begin(&mut play);
    play.stage.editor.send(&notification("session/cancel", r#"{"sessionId":"s"}"#));
    let end = play.stage.editor.message()["params"]["update"].take();
    assert_eq!((&end["state"], &end["stopReason"]), (&json!("idle"), &json!("cancelled")));
    goes_on(&mut play);
}

#[test]
fn an_agent_that_dies_in_a_turn_has_ended_it() {
    let mut play = Play::begin(stage(), &["proxy", "agent"], SECOND);
    play.session("s");
    begin(&mut play);
    kill(&play.agent);
    pass(&mut play.proxies[0]);
    assert_failed(&play.stage.editor.message(), "killed by signal 9");
    goes_on(&mut play);
    // A turn that is over is nobody's business any more.
    begin(&mut play);
    play.agent.send(&state("s", r#""idle""#));
    pass(&mut play.proxies[0]);
    assert_eq!(play.stage.editor.message()["params"]["update"]["state"], "idle");
    kill(&play.agent);
    goes_on(&mut play);
}

#[test]
fn the_status_tells_a_turn_that_goes_on() {
    let mut play = Play::begin(stage(), &["agent"], SECOND);
    play.session("s");
    begin(&mut play);
    let owes = |play: &Play| status(&play.stage)["components"][0]["queue"]["owes"].take();
    assert_eq!(owes(&play), 1);
    play.agent.send(&state("s", r#""idle","stopReason":"end_turn""#));
    play.stage.editor.message();
    assert_eq!(owes(&play), 0);
}

/// A handler that waits for the end of a turn gets an error when the agent dies.
#[test]
fn sparkle_does_not_wait_for_an_agent_that_has_died() {
    let setup = stage();
    let agent = setup.puppet("agent");
    let mut stage: Stage = setup.run("agent", &["sparkle".to_owned(), agent]);
    let ask = |stage: &mut Stage, id: u8, method: &str, params: &str| {
        stage.editor.send(&testkit::rpc::request(&id.to_string(), method, params));
    };
    ask(&mut stage, 1, "initialize", r#"{"protocolVersion":2}"#);
    let mut agent = stage.enter("agent");
    let asked = agent.request("initialize");
    agent.answer(&asked, SECOND);
    stage.editor.message();
    ask(&mut stage, 2, "session/new", r#"{"cwd":"/","mcpServers":[]}"#);
    let asked = agent.request("session/new");
    agent.answer(&asked, r#"{"sessionId":"s"}"#);
    stage.editor.message();
    ask(&mut stage, 3, "session/prompt", &prompt("s"));
    let asked = agent.request("session/prompt");
    agent.send(&result(&asked["id"].to_string(), r#"{"messageId":"m"}"#));
    agent.send(&state("s", r#""running""#));
    assert_eq!(stage.editor.message()["params"]["update"]["state"], "running");
    kill(&agent);
    let answer = stage.editor.message();
    assert_eq!(answer["id"], 3, "{answer}");
    let told = answer["error"]["message"].as_str().expect("a cause");
    assert!(told.contains("killed by signal 9"), "{told}");
    assert_eq!(stage.editor.message()["params"]["update"]["state"], "idle");
}

/// A proxy in an inner chain waits for a turn that goes on behind that chain.
#[test]
fn a_component_of_an_inner_chain_is_not_to_blame_for_a_turn_behind_it() {
    let setup = stage().option(&["--prompt-limit", "6"]);
    let inner = "proxy --prompt-limit 3 --restart-delay 0..0 --notices off";
    let inner = setup.nested(inner, &[setup.component("b").to_string()]);
    let components = [inner, setup.component("agent").to_string()];
    let mut play = Play::of(setup.run("agent", &components), &["b", "agent"], SECOND);
    play.session("s");
    begin(&mut play);
    let told = pass(&mut play.proxies[0]);
    assert_eq!(told["params"]["params"]["update"]["state"], "idle", "{told}");
    assert_failed(&play.stage.editor.message(), "gave no sign of life for 6 s");
    goes_on(&mut play);
}

/// The end of the turn that the conductor reports in place of a crashed proxy does not count as passed on by
/// that proxy.
#[test]
fn a_proxy_that_crashes_twice_on_the_end_of_a_turn_is_spared_it() {
    let mut play = Play::begin(stage(), &["proxy", "agent"], SECOND);
    let session = play.session("s");
    for _ in 0..2 {
        begin(&mut play);
        play.agent.send(&state("s", r#""idle""#));
        assert_eq!(play.proxies[0].message()["params"]["params"]["update"]["state"], "idle");
        play.proxies[0].exit(1);
        assert_eq!(play.stage.editor.message()["params"]["update"]["stopReason"], "error");
        play.replaced(0);
        play.learns(0, std::slice::from_ref(&session));
    }
    let asked = play.prompt("1", "s");
    play.answer(&asked, r#"{"messageId":"m"}"#);
    for word in ["running", "idle"] {
        play.agent.send(&state("s", &json!(word).to_string()));
        let barrier = play.proxies[0].message();
        play.proxies[0].answer(&barrier, "{}");
        assert_eq!(play.stage.editor.message()["params"]["update"]["state"], word);
    }
    play.works();
}
