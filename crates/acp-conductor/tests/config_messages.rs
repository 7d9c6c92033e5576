//! Requests about the options of components, `_proxy/config`, with real processes.

use std::path::PathBuf;
use std::sync::OnceLock;

use engine::journal::replay;
use serde_json::{Value, json};
use testkit::test_chain::{
    ScriptedComponent, TestChain, TestChainBuilder, all_is_built, directory, signal,
};

const SIGKILL: i32 = 9;

fn new_setup() -> TestChainBuilder {
    TestChain::builder(env!("CARGO_BIN_EXE_conductor")).option(&["--restart-delay", "0..0"])
}

/// The program `example-changeable`, built on first use.
fn changeable() -> String {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    let path = PATH.get_or_init(|| {
        let conductor = PathBuf::from(env!("CARGO_BIN_EXE_conductor"));
        let folder = conductor.parent().expect("a folder");
        let target = folder.parent().expect("the target folder");
        if all_is_built() {
            return folder.join("example-changeable");
        }
        let mut cargo = std::process::Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--package", "examples", "--bin", "example-changeable"]);
        if folder.ends_with("release") {
            cargo.arg("--release");
        }
        cargo.arg("--target-dir").arg(target).current_dir(env!("CARGO_MANIFEST_DIR"));
        assert!(cargo.status().expect("cargo").success(), "the example cannot be built");
        folder.join("example-changeable")
    });
    format!("{} Be brief.", path.display())
}

/// Starts a chain of these components and a scripted agent, with a session.
fn start(setup: TestChainBuilder, components: &[&str]) -> (TestChain, ScriptedComponent) {
    let mut words: Vec<String> = components.iter().map(|&it| it.to_owned()).collect();
    words.push(setup.scripted_json("agent").to_string());
    let mut chain = setup.run("agent", &words);
    let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": { "protocolVersion": 1 } });
    chain.editor.send(&hello.to_string());
    let mut agent = chain.wait_for_component("agent");
    let greeting = agent.request("initialize");
    agent.answer(&greeting, r#"{"protocolVersion":1}"#);
    assert_eq!(chain.editor.message()["result"]["protocolVersion"], 1);
    let new = json!({ "jsonrpc": "2.0", "id": 1, "method": "session/new", "params": { "cwd": "/", "mcpServers": [] } });
    chain.editor.send(&new.to_string());
    let new = agent.request("session/new");
    agent.answer(&new, r#"{"sessionId":"S1"}"#);
    assert_eq!(chain.editor.message()["result"]["sessionId"], "S1");
    (chain, agent)
}

fn send_config(chain: &mut TestChain, id: u64, params: &Value) {
    let line = json!({ "jsonrpc": "2.0", "id": id, "method": "_proxy/config", "params": params });
    chain.editor.send(&line.to_string());
}

/// Sends a request about options, and returns the answer.
fn config(chain: &mut TestChain, params: &Value) -> Value {
    send_config(chain, 7, params);
    let answer = chain.editor.message();
    assert_eq!(answer["id"], 7, "{answer}");
    answer
}

fn get(chain: &mut TestChain, component: &str) -> Value {
    let answer = config(chain, &json!({ "component": component, "op": "get" }));
    assert!(answer["result"]["values"].is_object(), "{answer}");
    answer["result"]["values"].clone()
}

fn set(chain: &mut TestChain, component: &str, values: &Value) -> Value {
    config(chain, &json!({ "component": component, "op": "set", "values": values }))
}

/// The message of an error with the code for invalid params.
fn error(answer: &Value) -> String {
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    answer["error"]["message"].as_str().expect("a message").to_owned()
}

fn send_prompt(chain: &mut TestChain, id: u64, text: &str) {
    let params = json!({ "sessionId": "S1", "prompt": [{ "type": "text", "text": text }] });
    let prompt =
        json!({ "jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": params });
    chain.editor.send(&prompt.to_string());
}

/// What the agent gets for a prompt of the editor: its texts, joined.
fn prompted(chain: &mut TestChain, agent: &mut ScriptedComponent, text: &str) -> String {
    send_prompt(chain, 5, text);
    let received = agent.request("session/prompt");
    agent.answer(&received, r#"{"stopReason":"end_turn"}"#);
    let answer = chain.editor.message();
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    let blocks = received["params"]["prompt"].as_array().expect("a prompt").clone();
    blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_filter_pattern_acts_on_the_next_prompt() {
    let folder = directory("config-messages");
    let journal = folder.join("journal.jsonl");
    let log = format!("log --file {}", folder.join("log.jsonl").display());
    let proxies = ["rate-limit --prompts-at-once 3", "filter", &log];
    let setup = new_setup().option(&["--journal", &journal.to_string_lossy()]);
    let (mut chain, mut agent) = start(setup, &proxies);
    assert_eq!(prompted(&mut chain, &mut agent, "code bluebird"), "code bluebird");
    assert_eq!(get(&mut chain, "filter")["pattern"], json!([]));
    let answer = set(&mut chain, "filter", &json!({ "pattern": ["blue[a-z]+"] }));
    assert_eq!(answer["result"]["applied"], "restarted", "{answer}");
    assert_eq!(answer["result"]["values"]["pattern"][0]["regex"], "blue[a-z]+", "{answer}");
    let text = prompted(&mut chain, &mut agent, "code bluebird");
    assert!(text.starts_with("code [redacted"), "{text}");
    // The same once more changes nothing.
    let answer = set(&mut chain, "filter", &json!({ "pattern": ["blue[a-z]+"] }));
    assert_eq!(answer["result"]["applied"], "now", "{answer}");
    // The values of the command line are options like others.
    assert_eq!(get(&mut chain, "rate-limit")["prompts_at_once"], 3);
    let answer = set(&mut chain, "rate-limit", &json!({ "prompts_at_once": 2 }));
    assert_eq!(answer["result"]["applied"], "restarted", "{answer}");
    assert_eq!(get(&mut chain, "rate-limit")["prompts_at_once"], 2);
    let answer = set(&mut chain, "filter", &json!({ "pattern": null }));
    assert_eq!(answer["result"]["values"]["pattern"], json!([]), "{answer}");
    assert_eq!(prompted(&mut chain, &mut agent, "code bluebird"), "code bluebird");
    let schema = config(&mut chain, &json!({ "component": "filter", "op": "schema" }));
    let pattern = &schema["result"]["schema"]["properties"]["pattern"];
    assert_eq!(pattern["type"], "array", "{schema}");
    let log = chain.end([&mut agent]);
    assert!(!log.contains("WARN"), "a planned restart is not a failure: {log}");
    // The journal of all this replays.
    let text = std::fs::read_to_string(&journal).expect("a journal");
    assert_eq!(text.matches(r#"{"ApplyOptions":"#).count(), 3, "{text}");
    let report = replay(text.split_inclusive('\n')).unwrap_or_else(|why| panic!("{why}"));
    assert!(!report.cut_off);
}

#[test]
fn options_change_after_the_turn_and_nothing_is_lost() {
    let (mut chain, mut agent) = start(new_setup(), &["filter", "context --text hello"]);
    send_prompt(&mut chain, 5, "one bluebird");
    let prompt = agent.request("session/prompt");
    send_config(
        &mut chain,
        7,
        &json!({ "component": "filter", "op": "set", "values": { "pattern": ["blue[a-z]+"] } }),
    );
    // The turn continues. Another request is answered meanwhile.
    assert_eq!(config_with_id(&mut chain, 8)["result"]["values"]["notices"], true);
    let update = json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": "S1", "update": {
        "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "a" },
    }}});
    for _ in 0..3 {
        agent.send(&update.to_string());
        assert_eq!(chain.editor.message()["params"]["update"], update["params"]["update"]);
    }
    agent.answer(&prompt, r#"{"stopReason":"end_turn"}"#);
    // The editor sends more while the filter is restarted.
    let texts: Vec<String> = (0..50).map(|number| format!("n{number}")).collect();
    for text in &texts {
        let note = json!({ "jsonrpc": "2.0", "method": "_note", "params": { "text": text } });
        chain.editor.send(&note.to_string());
    }
    let mut answers = vec![chain.editor.message(), chain.editor.message()];
    answers.sort_by_key(|answer| answer["id"].as_u64());
    assert_eq!(answers[0]["result"]["stopReason"], "end_turn");
    assert_eq!(answers[1]["result"]["applied"], "restarted", "{answers:?}");
    for text in &texts {
        assert_eq!(agent.message()["params"]["text"], *text);
    }
    let text = prompted(&mut chain, &mut agent, "two bluebird");
    assert!(text.starts_with("two [redacted"), "{text}");
}

fn config_with_id(chain: &mut TestChain, id: u64) -> Value {
    send_config(chain, id, &json!({ "op": "get" }));
    let answer = chain.editor.message();
    assert_eq!(answer["id"], id, "{answer}");
    answer
}

#[test]
fn wrong_values_change_nothing_and_the_error_names_the_option() {
    let token = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
    let setup = new_setup();
    let filter = format!("filter --allow {token}");
    let proxies = [&filter, "rate-limit --prompts-at-once 3", &changeable()];
    let (mut chain, mut agent) = start(setup, &proxies);
    let before = get(&mut chain, "filter");
    let hidden = config(&mut chain, &json!({ "component": "filter", "op": "get" }));
    assert!(!hidden.to_string().contains(&token), "{hidden}");
    assert_eq!(hidden["result"]["hidden"], json!(["allow"]));
    for (component, values, expected) in [
        ("filter", json!({ "patern": ["x"] }), "did you mean `pattern`?"),
        ("filter", json!({ "notice": true, "toward_agent": "redakt" }), "option `toward_agent`"),
        ("filter", json!({ "pattern": ["("] }), "`pattern`"),
        ("filter", json!({ "pattern": 7 }), "option `pattern`"),
        ("rate-limit", json!({ "prompts_at_once": -1 }), "option `prompts_at_once`"),
        ("example-changeable", json!({ "prefiks": "x" }), "did you mean `prefix`?"),
        ("example-changeable", json!({ "prefix": 7 }), "option `prefix`: invalid type"),
        ("example-changeable", json!({ "prefix": "x".repeat(1001) }), "longer than 1000 bytes"),
        ("filtr", json!({}), "did you mean `filter`?"),
        ("agent", json!({}), "agent 'agent'"),
        ("conductor", json!({ "restarts": "5/60" }), "cannot be changed by a message"),
    ] {
        if component == "agent" {
            let params = json!({ "component": component, "op": "set", "values": values });
            send_config(&mut chain, 7, &params);
            let request = agent.request("_proxy/config");
            assert_eq!(request["params"]["here"], true);
            agent.send(&json!({ "jsonrpc": "2.0", "id": request["id"], "error": { "code": -32601, "message": "no" } }).to_string());
            assert!(error(&chain.editor.message()).contains(expected));
            continue;
        }
        let why = error(&set(&mut chain, component, &values));
        assert!(why.contains(expected), "{why}");
    }
    assert_eq!(get(&mut chain, "filter"), before);
    assert_eq!(get(&mut chain, "example-changeable"), json!({ "prefix": "Be brief." }));
    let answer = set(&mut chain, "example-changeable", &json!({ "prefix": "Be kind." }));
    assert_eq!(answer["result"]["applied"], "now", "{answer}");
    assert_eq!(prompted(&mut chain, &mut agent, "hi"), "Be kind. hi");
    let own = get(&mut chain, "conductor");
    assert_eq!(own["version"], env!("CARGO_PKG_VERSION"));
    let known: Vec<(&str, Option<bool>)> = own["components"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|it| (it["name"].as_str().expect("a name"), it["options"].as_bool()))
        .collect();
    assert_eq!(
        known,
        [
            ("filter", Some(true)),
            ("rate-limit", Some(true)),
            ("example-changeable", Some(true)),
            ("agent", Some(false)),
        ]
    );
}

#[test]
fn a_thousand_changes_are_all_applied() {
    let (mut chain, mut agent) = start(new_setup(), &["filter", &changeable()]);
    for number in 0..1000 {
        let (component, values) = match number % 4 {
            0 => ("filter", json!({ "pattern": [format!("secret{number}x")] })),
            _ => ("example-changeable", json!({ "prefix": number.to_string() })),
        };
        // Some of them come together.
        send_config(
            &mut chain,
            10_000 + number,
            &json!({ "component": component, "op": "set", "values": values }),
        );
        if number % 8 == 7 {
            let mut ids: Vec<u64> = (0..8)
                .map(|_| {
                    let answer = chain.editor.message();
                    assert!(answer["result"]["applied"].is_string(), "{answer}");
                    answer["id"].as_u64().expect("an id")
                })
                .collect();
            ids.sort_unstable();
            assert_eq!(ids, (10_000 + number - 7..=10_000 + number).collect::<Vec<_>>());
        }
    }
    let text = prompted(&mut chain, &mut agent, "secret996x");
    assert_eq!(text, "999 [redacted:pattern]");
}

/// The chain `old-proxy filter nested(inner rate-limit) agent`. The first proxy has an old generation.
#[test]
fn requests_pass_old_proxies_and_reach_components_of_nested_chains() {
    let setup = new_setup().option(&["--dialect", "1=P3"]);
    let (inner, changeable) = ("rate-limit --prompts-at-once 3", changeable());
    let nested = json!({
        "name": "nested",
        "command": env!("CARGO_BIN_EXE_conductor"),
        "args": ["proxy", inner, changeable],
    });
    let components = [
        setup.scripted_json("old").to_string(),
        "filter".to_owned(),
        nested.to_string(),
        setup.scripted_json("agent").to_string(),
    ];
    let mut chain = setup.run("agent", &components);
    let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": { "protocolVersion": 1 } });
    chain.editor.send(&hello.to_string());
    let mut old = chain.wait_for_component("old");
    let greeting = old.message();
    assert_eq!(greeting["method"], "initialize", "{greeting}");
    let wrapped = |id: &str, method: &str, params: &Value| {
        let params = json!({ "method": method, "params": params });
        json!({ "jsonrpc": "2.0", "id": id, "method": "_proxy/successor/request", "params": params }).to_string()
    };
    old.send(&wrapped("i", "initialize", &greeting["params"]));
    let mut agent = chain.wait_for_component("agent");
    let request = agent.request("initialize");
    agent.answer(&request, r#"{"protocolVersion":1}"#);
    let mut answer = old.message();
    answer["result"]["agentCapabilities"]["_meta"]["symposium"] =
        json!({ "version": "1.0", "proxy": true });
    old.answer(&greeting, &answer["result"].to_string());
    assert_eq!(chain.editor.message()["result"]["protocolVersion"], 1);
    // The old proxy passes unknown requests on, and their answers back.
    let mut ask = |params: Value| {
        send_config(&mut chain, 7, &params);
        let request = old.message();
        assert_eq!(request["method"], "_proxy/config");
        assert_eq!(request["params"].get("here"), None);
        old.send(&wrapped("x", "_proxy/config", &request["params"]));
        let answer = old.message();
        let key = if answer.get("error").is_some() { "error" } else { "result" };
        old.send(&json!({ "jsonrpc": "2.0", "id": request["id"], key: answer[key] }).to_string());
        chain.editor.message()
    };
    let answer = ask(
        json!({ "component": "nested/rate-limit", "op": "set", "values": { "prompts_at_once": 4 } }),
    );
    assert_eq!(answer["result"]["applied"], "restarted", "{answer}");
    let answer = ask(json!({ "component": "nested/example-changeable", "op": "get" }));
    assert_eq!(answer["result"]["values"]["prefix"], "Be brief.", "{answer}");
    let answer = ask(json!({ "component": "nested", "op": "get" }));
    let names = answer["result"]["values"]["components"].as_array().expect("a list").clone();
    assert_eq!(names[0]["name"], "rate-limit", "{answer}");
    let answer = ask(json!({ "component": "nested/nothing", "op": "get" }));
    assert!(
        error(&answer).contains("The components are rate-limit, example-changeable, conductor")
    );
    let answer = ask(json!({ "component": "filter/x", "op": "get" }));
    assert!(error(&answer).contains("does not know a component"), "{answer}");
    let answer = ask(json!({ "component": "filter", "op": "set", "values": { "notice": true } }));
    assert_eq!(answer["result"]["applied"], "restarted", "{answer}");
}

#[test]
fn a_component_that_is_killed_while_it_is_asked_owes_no_answer() {
    let setup = new_setup();
    let components =
        [setup.scripted_json("first").to_string(), setup.scripted_json("agent").to_string()];
    let mut chain = setup.run("agent", &components);
    let mut scripted = chain.initialize(&["first", "agent"]);
    let [first, _] = &mut scripted[..] else { panic!("two components") };
    send_config(&mut chain, 7, &json!({ "component": "first", "op": "set", "values": {} }));
    let request = first.message();
    assert_eq!(request["params"]["here"], true);
    signal(first.pid, SIGKILL);
    let answer = chain.editor.message();
    assert_eq!(answer["id"], 7);
    assert!(answer["error"]["message"].as_str().is_some_and(|it| it.contains("first")), "{answer}");
}

#[test]
fn a_hostile_component_cannot_set_options_or_answer_for_others() {
    let setup = new_setup();
    let components = [
        setup.scripted_json("evil").to_string(),
        "filter".to_owned(),
        changeable(),
        setup.scripted_json("agent").to_string(),
    ];
    let mut chain = setup.run("agent", &components);
    let mut scripted = chain.initialize(&["evil", "agent"]);
    let [evil, _] = &mut scripted[..] else { panic!("two components") };
    let mut number = 100;
    let mut send = |evil: &mut ScriptedComponent, params: &Value| {
        number += 1;
        let params = json!({ "method": "_proxy/config", "params": params });
        evil.send(&json!({ "jsonrpc": "2.0", "id": number, "method": "proxy/successor", "params": params }).to_string());
        let answer = evil.message();
        assert_eq!(answer["id"], number, "{answer}");
        answer
    };
    // It may read.
    let answer = send(evil, &json!({ "component": "example-changeable", "op": "get" }));
    assert_eq!(answer["result"]["values"]["prefix"], "Be brief.");
    // It may not set, whatever it pretends.
    for params in [
        json!({ "component": "example-changeable", "op": "set", "values": { "prefix": "evil" } }),
        json!({ "op": "set", "values": { "prefix": "evil" }, "here": true }),
        json!({ "op": "set", "values": { "notices": false } }),
        json!({ "op": "set", "values": { "prefix": "evil" }, "here": true, "route": "1.1" }),
        json!({ "component": "filter", "op": "set", "values": { "toward_agent": "off" } }),
    ] {
        let answer = send(evil, &params);
        assert_eq!(answer["error"]["code"], -32602, "{params}: {answer}");
    }
    // A mark of a request that reads cannot be used to set.
    send_config(&mut chain, 7, &json!({ "component": "example-changeable", "op": "get" }));
    let request = evil.message();
    let route = request["params"]["route"].clone();
    assert!(route.is_string(), "{request}");
    let forged = json!({ "component": "example-changeable", "op": "set", "values": { "prefix": "evil" }, "route": route });
    error(&send(evil, &forged));
    // It answers, and may lie about what passes it. But it cannot answer a request that it has not received.
    evil.send(
        &json!({ "jsonrpc": "2.0", "id": "c:99999", "result": { "values": {} } }).to_string(),
    );
    evil.send(
        &json!({ "jsonrpc": "2.0", "id": request["id"], "error": { "code": 1, "message": "no" } })
            .to_string(),
    );
    assert_eq!(chain.editor.message()["error"]["code"], 1);
    // The mark is worth nothing now.
    error(&send(evil, &json!({ "op": "get", "route": route })));
    let answer = send(evil, &json!({ "component": "example-changeable", "op": "get" }));
    assert_eq!(answer["result"]["values"]["prefix"], "Be brief.");
}
