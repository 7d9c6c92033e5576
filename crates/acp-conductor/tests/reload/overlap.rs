//! A reload while another one, or a request about options, is under way.

use super::*;

/// Starts a chain with the built-in filter. Returns the agent.
fn start_with_filter(name: &str, more: &str) -> (Reloaded, ScriptedComponent) {
    let text = format!("\n[components.filter]\ncommand = \"builtin:filter\"\n{more}");
    let mut chain = Reloaded::start(name, &["filter", "agent"], &text);
    chain.test.editor.send(
        r#"{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":1}}"#,
    );
    let mut agent = chain.test.wait_for_component("agent");
    let greeting = agent.request("initialize");
    agent.answer(&greeting, r#"{"protocolVersion":1,"agentCapabilities":{}}"#);
    assert_eq!(chain.test.editor.message()["id"], "init");
    (chain, agent)
}

fn send_config(chain: &mut Reloaded, id: u64, params: &Value) {
    let line = json!({ "jsonrpc": "2.0", "id": id, "method": "_proxy/config", "params": params });
    chain.test.editor.send(&line.to_string());
}

fn config(chain: &mut Reloaded, params: &Value) -> Value {
    send_config(chain, 99, params);
    let answer = chain.test.editor.message();
    assert_eq!(answer["id"], 99, "{answer}");
    answer["result"].clone()
}

fn values(chain: &mut Reloaded, component: &str) -> Value {
    config(chain, &json!({ "component": component, "op": "get" }))["values"].clone()
}

/// A `set` and a reload wait for the end of the same turn.
#[test]
fn options_that_are_set_while_a_reload_waits_give_way_to_those_of_the_file() {
    let block = "options = { toward_agent = \"block\" }\n";
    let (mut chain, mut agent) = start_with_filter("set", block);
    chain.test.editor.send(
        r#"{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}"#,
    );
    let prompt = agent.request("session/prompt");
    let text = format!("\n[components.filter]\ncommand = \"builtin:filter\"\n{block}");
    let text = configuration(&chain.scripted, &["filter", "agent"], &text);
    fs::write(&chain.file, text.replace("[\"filter\"]", "[\"filter\", \"sparkle\"]"))
        .expect("written");
    let (reloading, _) = chain.begin_waiting_reload();
    send_config(
        &mut chain,
        2,
        &json!({ "component": "filter", "op": "set", "values": { "toward_agent": "off" } }),
    );
    agent.answer(&prompt, r#"{"stopReason":"end_turn"}"#);
    assert_eq!(chain.test.editor.message()["id"], 1);
    let set = chain.test.editor.message();
    assert_eq!((&set["id"], &set["result"]["applied"]), (&json!(2), &json!("restarted")), "{set}");
    let told = report(reloading.wait_with_output().expect("an output"));
    let found = (&told["added"], &told["restarted"]);
    assert_eq!(found, (&json!(["sparkle"]), &json!(["filter"])), "{told}");
    assert_eq!(values(&mut chain, "filter")["toward_agent"], "block");
    let token = format!("ghp_{}", "a1B2".repeat(9));
    let prompt = json!({ "jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": {
        "sessionId": "s", "prompt": [{ "type": "text", "text": token }],
    } });
    chain.test.editor.send(&prompt.to_string());
    let answer = chain.test.editor.message();
    assert_eq!((&answer["id"], answer["error"].is_object()), (&json!(3), true), "{answer}");
}

#[test]
fn options_that_were_set_on_the_conductor_return_to_those_of_the_file() {
    let (mut chain, _agent) = start_with_filter("own", "");
    assert_eq!(values(&mut chain, "conductor")["chain"], "main");
    let set = json!({ "op": "set", "values": { "prompt-limit": 5, "notices": false } });
    assert_eq!(config(&mut chain, &set)["applied"], "now");
    assert_eq!(chain.reload()["settings"], json!(["prompt-limit", "notices"]));
    let own = values(&mut chain, "conductor");
    assert_eq!((&own["prompt-limit"], &own["notices"]), (&json!("off"), &json!(true)));
    assert_eq!(chain.reload()["settings"], json!([]));
    // The default chain has another name now.
    let text = fs::read_to_string(&chain.file).expect("text");
    let text = text.replace("\"main\"", "\"other\"").replace("[chains.main]", "[chains.other]");
    fs::write(&chain.file, text).expect("written");
    chain.reload();
    assert_eq!(values(&mut chain, "conductor")["chain"], "other");
}

/// The first change waits for the end of a request. The file is wrong meanwhile.
#[test]
fn a_wrong_file_ends_a_reload_that_waits() {
    let mut chain = Reloaded::start("dropped", &["p1", "agent"], "");
    let [mut p1, mut agent] = chain.test.initialize(&["p1", "agent"]).try_into().expect("two");
    chain.test.editor.send(r#"{"jsonrpc":"2.0","id":1,"method":"x/ping","params":{}}"#);
    let ping = p1.request("x/ping");
    chain.write(&["agent"], "");
    let (first, _) = chain.begin_waiting_reload();
    fs::write(&chain.file, "default = [\n").expect("written");
    let second = chain.reload();
    assert!(second["error"].as_str().expect("an error").contains("conductor.toml:1"), "{second}");
    assert_eq!(report(first.wait_with_output().expect("an output")), second);
    p1.answer(&ping, "{}");
    assert_eq!(chain.test.editor.message()["id"], 1);
    round_trip(&mut chain.test, &mut [&mut p1], &mut agent);
    assert_eq!(chain.names(), ["p1", "agent"]);
}

/// The component of the first reload is being started when the second reload is asked for.
#[test]
fn each_of_two_reloads_gets_its_own_report() {
    let mut chain = Reloaded::start("reports", &["agent"], "");
    let [mut agent] = chain.test.initialize(&["agent"]).try_into().expect("one");
    chain.write(&["p1", "agent"], "");
    let first = chain.begin_reload();
    let mut p1 = chain.test.wait_for_component("p1");
    chain.write(&["p1", "p2", "agent"], "");
    let (second, said) = chain.begin_waiting_reload();
    assert!(said.contains("proxy 'p1' is being restarted"), "{said}");
    join(&mut p1, 0);
    let mut p2 = chain.test.wait_for_component("p2");
    let told = report(first.wait_with_output().expect("an output"));
    assert_eq!(told["added"], json!(["p1"]), "{told}");
    join(&mut p2, 0);
    let told = report(second.wait_with_output().expect("an output"));
    assert_eq!(told["added"], json!(["p2"]), "{told}");
    round_trip(&mut chain.test, &mut [&mut p1, &mut p2], &mut agent);
}
