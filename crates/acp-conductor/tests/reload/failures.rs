//! Reloads with components that do not start, or do not end.

use super::*;

/// The configuration with another command for one component.
fn with_command(chain: &Reloaded, names: &[&str], name: &str, command: &str, more: &str) -> String {
    let text = configuration(&chain.scripted, names, "");
    let own = format!("[components.{name}]\ncommand = {}\n", chain.scripted["command"]);
    assert!(text.contains(&own), "{text}");
    text.replace(&own, &format!("[components.{name}]\ncommand = {command:?}\n{more}"))
}

#[test]
fn a_component_that_does_not_start_with_its_new_configuration_keeps_the_previous_one() {
    for more in ["", "guard = true\n"] {
        let mut chain = Reloaded::start("broken", &["p1", "agent"], "");
        let [mut p1, mut agent] = chain.test.initialize(&["p1", "agent"]).try_into().expect("two");
        open_session(&mut chain.test, &mut [&mut p1], &mut agent);
        let text = with_command(&chain, &["p1", "agent"], "p1", "/nonexistent/program", more);
        fs::write(&chain.file, text).expect("written");
        let reloading = chain.begin_reload();
        let mut p1 = chain.test.wait_for_component("p1");
        join(&mut p1, 1);
        let output = reloading.wait_with_output().expect("an output");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let told = report(output);
        assert_eq!((&told["reverted"], &told["restarted"]), (&json!(["p1"]), &json!([])), "{told}");
        assert!(told["reasons"][0].as_str().expect("a reason").contains("/nonexistent/program"));
        round_trip(&mut chain.test, &mut [&mut p1], &mut agent);
        // The next reload tries it again.
        let reloading = chain.begin_reload();
        let mut p1 = chain.test.wait_for_component("p1");
        join(&mut p1, 1);
        assert_eq!(
            report(reloading.wait_with_output().expect("an output"))["reverted"],
            json!(["p1"])
        );
        round_trip(&mut chain.test, &mut [&mut p1], &mut agent);
    }
}

#[test]
fn an_agent_that_does_not_start_with_its_new_configuration_keeps_the_previous_one() {
    let mut chain = Reloaded::start("broken-agent", &["p1", "agent"], "");
    let [mut p1, _agent] = chain.test.initialize(&["p1", "agent"]).try_into().expect("two");
    let text = with_command(&chain, &["p1", "agent"], "agent", "/nonexistent/program", "");
    fs::write(&chain.file, text).expect("written");
    let reloading = chain.begin_reload();
    let mut agent = chain.test.wait_for_component("agent");
    let greeting = agent.request("initialize");
    agent.answer(&greeting, r#"{"protocolVersion":1,"agentCapabilities":{}}"#);
    let told = report(reloading.wait_with_output().expect("an output"));
    assert_eq!(told["reverted"], json!(["agent"]), "{told}");
    round_trip(&mut chain.test, &mut [&mut p1], &mut agent);
}

/// The new program answers `initialize`, but it does not know the session.
#[test]
fn another_agent_that_does_not_know_the_sessions_does_not_replace_the_agent() {
    let mut chain = Reloaded::start("other-agent", &["agent"], "");
    let hello = r#"{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}"#;
    chain.test.editor.send(
        r#"{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":1}}"#,
    );
    let mut agent = chain.test.wait_for_component("agent");
    let greeting = agent.request("initialize");
    agent.answer(&greeting, hello);
    assert_eq!(chain.test.editor.message()["id"], "init");
    open_session(&mut chain.test, &mut [], &mut agent);
    chain.write(&["agent"], "\n[components.agent.env]\nMODEL = \"other\"\n");
    let reloading = chain.begin_reload();
    let mut other = chain.test.wait_for_component("agent");
    let greeting = other.request("initialize");
    other.answer(&greeting, hello);
    let load = other.request("session/load");
    other.send(&format!(
        r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32002,"message":"no such session"}}}}"#,
        load["id"]
    ));
    let mut agent = chain.test.wait_for_component("agent");
    let greeting = agent.request("initialize");
    agent.answer(&greeting, hello);
    let load = agent.request("session/load");
    assert_eq!(load["params"]["sessionId"], "s");
    agent.answer(&load, "{}");
    let told = report(reloading.wait_with_output().expect("an output"));
    assert_eq!(told["reverted"], json!(["agent"]), "{told}");
    assert!(told["reasons"][0].as_str().expect("a reason").contains("no such session"), "{told}");
    round_trip(&mut chain.test, &mut [], &mut agent);
}

/// The component p2 never answers. A newer configuration is without it.
#[test]
fn a_component_that_hangs_when_it_joins_can_be_removed_at_once() {
    let mut chain = Reloaded::start("hanging", &["p1", "agent"], "");
    let [mut p1, mut agent] = chain.test.initialize(&["p1", "agent"]).try_into().expect("two");
    chain.write(&["p1", "p2", "agent"], "");
    let first = chain.begin_reload();
    let mut p2 = chain.test.wait_for_component("p2");
    p2.request("proxy/initialize");
    chain.write(&["p1", "agent"], "");
    let second = report(chain.begin_reload().wait_with_output().expect("an output"));
    assert_eq!(second["removed"], json!([]), "{second}");
    let first = report(first.wait_with_output().expect("an output"));
    assert_eq!((&first["failed"], &first["added"]), (&json!(["p2"]), &json!([])), "{first}");
    round_trip(&mut chain.test, &mut [&mut p1], &mut agent);
}

/// The component p1 never answers the request.
#[test]
fn a_component_that_hangs_is_removed_now() {
    let mut chain = Reloaded::start("now", &["p1", "agent"], "");
    let [mut p1, mut agent] = chain.test.initialize(&["p1", "agent"]).try_into().expect("two");
    chain.test.editor.send(r#"{"jsonrpc":"2.0","id":1,"method":"x/ping","params":{}}"#);
    p1.request("x/ping");
    chain.write(&["agent"], "");
    let (waiting, said) = chain.begin_waiting_reload();
    assert!(said.contains("proxy 'p1' has not answered x/ping"), "{said}");
    let output = chain.reload_command(&["--json", "--now"]).output().expect("an output");
    // Of the two, the second plan finds the component gone.
    assert_eq!(report(output)["error"], Value::Null);
    assert_eq!(report(waiting.wait_with_output().expect("an output"))["error"], Value::Null);
    let answer = chain.test.editor.message();
    assert_eq!((&answer["id"], answer["error"].is_object()), (&json!(1), true), "{answer}");
    assert_eq!(chain.names(), ["agent"]);
    round_trip(&mut chain.test, &mut [], &mut agent);
}
