//! MCP servers of proxies, between third-party programs: agents with the MCP clients of the Rust, TypeScript
//! and Python SDKs, providers of every published generation, and a real MCP server behind a proxy of every
//! form. The test is the editor, unless stated otherwise.

use serde_json::{Value, json};
use testkit::peers::quote;
use testkit::test_chain::{TestChain, directory, parse};

use crate::run::Run;
use crate::{own_conductor, peer};

/// Every provider of the server `tools`, oldest last.
const TOOLS: [&str; 6] =
    ["tools_5_0", "tools_3_6", "tools_2_2", "tools_1_3", "tools_0_11", "tools_sacp_11"];

/// The published Sparkle that answers every request. The later version, `sparkle_0_7`, loses some: see
/// `a_request_whose_answer_a_published_proxy_loses_is_retried`.
const SPARKLE: &str = "sparkle_0_1";

/// A session in a chain of third-party programs.
struct Session {
    chain: TestChain,
    id: String,
    turns: u32,
}

impl Session {
    fn start(name: &str, options: &[&str], components: &[String]) -> Session {
        let home = directory(name).to_str().expect("UTF-8").to_owned();
        let chain = TestChain::builder(env!("CARGO_BIN_EXE_conductor"))
            .option(&["--grace", "0.5"])
            .option(options)
            // Sparkle stores files there.
            .env("HOME", &home)
            .env("XDG_CACHE_HOME", &home)
            .run("agent", components);
        Session::new(chain, &home, json!([]))
    }

    /// Sets up a session with these servers of the editor.
    fn new(mut chain: TestChain, cwd: &str, servers: Value) -> Session {
        let send = |chain: &mut TestChain, id: u32, method: &str, params: Value| {
            let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
            chain.editor.send(&message.to_string());
            let answer = chain.editor.message();
            assert_eq!(answer["id"], id, "{answer}");
            answer["result"].clone()
        };
        let greeting = json!({ "protocolVersion": 1, "clientCapabilities": {} });
        send(&mut chain, 1, "initialize", greeting);
        let params = json!({ "cwd": cwd, "mcpServers": servers });
        let id =
            send(&mut chain, 2, "session/new", params)["sessionId"].as_str().map(str::to_owned);
        let id = id.unwrap_or_else(|| panic!("a session: {}", chain.conductor.stderr_so_far()));
        Session { chain, id, turns: 0 }
    }

    /// Sends a prompt. Returns the texts of the updates.
    fn prompt(&mut self, text: &str) -> Vec<String> {
        self.turns += 1;
        let id = self.turns + 100;
        let prompt = json!([{ "type": "text", "text": text }]);
        let params = json!({ "sessionId": self.id, "prompt": prompt });
        let message =
            json!({ "jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": params });
        self.chain.editor.send(&message.to_string());
        let mut texts = Vec::new();
        loop {
            let message = self.chain.editor.message();
            if message["method"] == "session/update" {
                let text = message["params"]["update"]["content"]["text"].as_str();
                texts.push(text.unwrap_or_else(|| panic!("{message}")).to_owned());
                continue;
            }
            // No MCP message reaches the editor: there are only updates and the answer.
            assert_eq!(message["id"], id, "{message}");
            assert_eq!(message["result"]["stopReason"], "end_turn", "{message}");
            return texts;
        }
    }

    /// Sends a prompt that is answered with a single text, which is JSON.
    fn prompt_json(&mut self, text: &str) -> Value {
        let texts = self.prompt(text);
        assert_eq!(texts.len(), 1, "{text}: {texts:?}");
        parse(&texts[0])
    }

    fn end(mut self) {
        self.chain.editor.close();
        assert_eq!(self.chain.conductor.status(), 0);
    }
}

pub fn content(text: &str, is_error: bool) -> Value {
    json!({ "content": [{ "text": text, "type": "text" }], "isError": is_error })
}

/// Checks the server of a `tools_*` program, under this name.
fn check_tools(session: &mut Session, provider: &str, name: &str) {
    assert_eq!(
        session.prompt_json(&format!("tools {name}")),
        json!(["echo", "fail"]),
        "{provider}"
    );
    let echo = format!(r#"call {name} echo {{"message":"hi"}}"#);
    assert_eq!(session.prompt_json(&echo), content("\"hi\"", false), "{provider}");
    let failed = session.prompt_json(&format!("call {name} fail {{}}"));
    match provider {
        "tools_5_0" => assert_eq!(failed, content("Internal error: \"it failed\"", true)),
        _ => assert_eq!(failed["error"]["code"], -32603, "{provider}: {failed}"),
    }
}

fn transport(options: &str) -> &str {
    if options.contains("--http") { "http" } else { "stdio" }
}

/// Checks one provider and one agent with these options.
fn check(provider: &str, agent: &str, options: &str) {
    let what = format!("{provider} {agent} {options}");
    let components = [peer(provider), format!("{} {options}", peer(agent))];
    let mut session = Session::start(&what.replace(' ', "-"), &[], &components);
    let name = if provider.starts_with("sparkle") { "sparkle" } else { "tools" };
    if name == "sparkle" {
        // Sparkle prompts the agent before the user's first prompt.
        assert!(session.prompt("hello").last().is_some_and(|last| last == "heard hello"), "{what}");
    }
    let servers = session.prompt_json("servers");
    assert_eq!(servers, json!([{ "name": name, "transport": transport(options) }]), "{what}");
    match name {
        "sparkle" => check_sparkle(&mut session, &what),
        _ => check_tools(&mut session, provider, name),
    }
    session.end();
}

fn check_sparkle(session: &mut Session, what: &str) {
    let tools = session.prompt_json("tools sparkle");
    let has = |name: &str| tools.as_array().is_some_and(|it| it.contains(&json!(name)));
    assert!(has("list_sparklers") && has("session_checkpoint"), "{what}: {tools}");
    let answer = session.prompt_json("call sparkle list_sparklers {}");
    assert_eq!(answer["isError"], false, "{what}: {answer}");
}

const OPTIONS: [&str; 4] = ["", "--eager", "--http", "--http --eager"];

/// Every provider over both transports. The client of the Rust SDK is the fastest.
#[test]
fn every_provider_works_with_the_rust_client() {
    for provider in TOOLS.iter().chain(&[SPARKLE]) {
        for options in OPTIONS {
            check(provider, "mcp_agent_rust", options);
        }
    }
}

/// A provider without connections, some with them, and one of the oldest.
#[test]
fn providers_work_with_the_typescript_client() {
    for (provider, options) in [
        ("tools_5_0", ""),
        ("tools_2_2", "--eager"),
        (SPARKLE, "--http"),
        ("tools_1_3", "--http --eager"),
        ("tools_5_0", "--http"),
    ] {
        check(provider, "mcp_agent_ts", options);
    }
}

/// This client does not use connections, and falls back for providers that require them.
#[test]
fn providers_work_with_the_python_client() {
    for (provider, options) in [
        ("tools_5_0", ""),
        ("tools_0_11", "--eager"),
        ("tools_5_0", "--http"),
        (SPARKLE, "--http --eager"),
    ] {
        check(provider, "mcp_agent_py", options);
    }
}

/// All providers at once: their common name is numbered, and each message passes the providers in between,
/// however they treat it.
#[test]
fn providers_of_all_generations_work_in_one_chain() {
    for options in ["--eager", "--http --eager"] {
        let mut components: Vec<String> = TOOLS.iter().map(|name| peer(name)).collect();
        components.push(peer(SPARKLE));
        components
            .push(format!("{} --name everything --form M3 --proxy P4", peer("everything_proxy")));
        components.push(format!("{} {options}", peer("mcp_agent_rust")));
        let name = format!("all{}", options.len());
        let mut session = Session::start(&name, &[], &components);
        session.prompt("hello");
        let names = ["tools", "tools-2", "tools-3", "tools-4", "tools-5", "tools-6"];
        let all = names.iter().chain(&["sparkle", "everything"]);
        let all: Vec<Value> =
            all.map(|name| json!({ "name": name, "transport": transport(options) })).collect();
        assert_eq!(session.prompt_json("servers"), json!(all));
        for (provider, name) in TOOLS.iter().zip(names) {
            check_tools(&mut session, provider, name);
        }
        check_sparkle(&mut session, "all at once");
        let sum = session.prompt_json(r#"call everything get-sum {"a":1,"b":2}"#);
        assert_eq!(sum, content("The sum of 1 and 2 is 3.", false));
        session.end();
    }
}

/// A published agent that starts its servers for each request.
#[test]
fn a_published_agent_uses_the_tools_of_published_proxies() {
    let mut session = Session::start("eliza", &[], &[peer(SPARKLE), peer("eliza_12")]);
    session.prompt("hello");
    let texts = session.prompt("list tools from sparkle").concat();
    assert!(texts.contains("Available tools") && texts.contains("list_sparklers"), "{texts}");
    let texts = session.prompt("use tool sparkle::list_sparklers with {}").concat();
    assert!(texts.starts_with("OK") && texts.contains("is_error: Some(false)"), "{texts}");
    session.end();
}

// The MCP server "everything", behind a proxy of every form.

/// Every tool of the server. The client answers the server's requests.
const CALLS: [(&str, &str); 16] = [
    ("echo", r#"{"message":"wörds"}"#),
    ("get-annotated-message", r#"{"messageType":"error","includeImage":true}"#),
    ("get-env", "{}"),
    ("get-resource-links", r#"{"count":2}"#),
    ("get-resource-reference", r#"{"resourceType":"Text","resourceId":1}"#),
    ("get-roots-list", "{}"),
    ("get-structured-content", r#"{"location":"Chicago"}"#),
    ("get-sum", r#"{"a":1.5,"b":-2}"#),
    ("get-tiny-image", "{}"),
    (
        "gzip-file-as-resource",
        r#"{"name":"x.gz","data":"data:text/plain;base64,aGVsbG8=","outputType":"resource"}"#,
    ),
    ("simulate-research-query", r#"{"topic":"x"}"#),
    ("trigger-elicitation-request", "{}"),
    ("trigger-long-running-operation", r#"{"duration":0.2,"steps":4}"#),
    ("trigger-sampling-request", r#"{"prompt":"p","maxTokens":7}"#),
    ("toggle-simulated-logging", "{}"),
    ("toggle-subscriber-updates", "{}"),
];

/// The agent's texts for every kind of request to the server, by prompt.
fn exercise_server(session: &mut Session, without: &[&str]) -> Vec<(String, Vec<String>)> {
    // Lists come last. A server that takes more than two seconds to start, as this one does on a busy
    // machine, receives them before it is ready, and its client does not receive its instructions.
    let lists = ["resources", "prompts", "tools"].map(|what| format!("{what} everything"));
    let calls = CALLS.iter().filter(|(tool, _)| !without.contains(tool));
    let calls = calls.map(|(tool, arguments)| format!("call everything {tool} {arguments}"));
    let wrong = ["echo {}", "no-such-tool {}"].map(|call| format!("call everything {call}"));
    let prompts: Vec<String> = calls.chain(wrong).chain(lists).collect();
    prompts.into_iter().map(|prompt| (prompt.clone(), session.prompt(&prompt))).collect()
}

/// Reduces results that differ each time, such as environments and times, to what stays the same.
fn without_volatile_parts(prompt: &str, texts: Vec<String>) -> Vec<String> {
    let volatile = ["get-env", "get-resource-reference"];
    if volatile.iter().any(|tool| prompt.contains(tool)) {
        let last = parse(texts.last().expect("an answer"));
        return vec![
            last["isError"].to_string(),
            last["content"].as_array().map_or(0, Vec::len).to_string(),
        ];
    }
    texts
}

/// The agent with the server itself, without a conductor.
fn exercise_server_directly(name: &str) -> Vec<(String, Vec<String>)> {
    let home = directory(&format!("directly-{name}")).to_str().expect("UTF-8").to_owned();
    let chain = TestChain::builder(peer("mcp_agent_rust")).env("HOME", &home).run("--eager", &[]);
    let words = peer("mcp_everything");
    let mut words = words.split(' ');
    let command = words.next().expect("a program");
    let args: Vec<&str> = words.chain(["stdio"]).collect();
    let server = json!({ "name": "everything", "command": command, "args": args, "env": [] });
    let mut session = Session::new(chain, &home, json!([server]));
    exercise_server(&mut session, &[])
}

/// Checks a proxy that declares the server in each form, with an agent over both transports.
fn check_everything(forms: &[(&str, &str)]) {
    let expected = exercise_server_directly(forms[0].0);
    let listed = parse(&expected[expected.len() - 1].1[0]);
    let mut called: Vec<&str> = CALLS.iter().map(|(tool, _)| *tool).collect();
    called.sort_unstable();
    assert_eq!(listed, json!(called), "every tool is called");
    for (form, proxy) in forms {
        // In this form the proxy does not request roots, so the server does not have the tool.
        let without: &[&str] = if *form == "M7" { &["get-roots-list"] } else { &[] };
        for options in ["", "--http"] {
            let provider = format!("{} --form {form} --proxy {proxy}", peer("everything_proxy"));
            let agent = format!("{} {options}", peer("mcp_agent_rust"));
            let name = format!("everything-{form}-{proxy}{options}");
            let mut session = Session::start(&name, &[], &[provider, agent]);
            let mut got = exercise_server(&mut session, without);
            let tools: Vec<&&str> = called.iter().filter(|it| !without.contains(it)).collect();
            let (_, listed) = got.pop().expect("the list of tools");
            assert_eq!(parse(&listed[0]), json!(tools), "{name}");
            for (prompt, texts) in got {
                let alone = expected.iter().find(|(received, _)| *received == prompt);
                let alone = alone.expect("the same prompt without a conductor").1.clone();
                let (texts, alone) = (
                    without_volatile_parts(&prompt, texts),
                    without_volatile_parts(&prompt, alone),
                );
                assert_eq!(texts, alone, "{name}: {prompt}");
            }
            session.end();
        }
    }
}

/// The forms of the older generations.
#[test]
fn a_real_server_works_behind_a_proxy_of_an_older_form() {
    check_everything(&[("M1", "P4"), ("M2", "P3"), ("M3", "P4"), ("M3b", "P4"), ("M3t", "P5")]);
}

#[test]
fn a_real_server_works_behind_a_proxy_of_a_newer_form() {
    check_everything(&[("M4", "P5"), ("M5", "P5"), ("M6", "P4"), ("M7", "P5")]);
}

/// Progress and cancellation with the clients of three SDKs.
#[test]
fn a_long_call_can_be_cancelled() {
    for (agent, options) in
        [("mcp_agent_rust", ""), ("mcp_agent_ts", "--http"), ("mcp_agent_py", "")]
    {
        let provider = format!("{} --form M3 --proxy P5", peer("everything_proxy"));
        let components = [provider, format!("{} {options}", peer(agent))];
        let mut session = Session::start(&format!("cancel-{agent}"), &[], &components);
        let call =
            r#"cancel everything trigger-long-running-operation {"duration":600,"steps":6000}"#;
        let texts = session.prompt(call);
        assert_eq!(texts.last().map(String::as_str), Some("cancelled"), "{agent}: {texts:?}");
        // The connection still works.
        let sum = session.prompt_json(r#"call everything get-sum {"a":1,"b":2}"#);
        assert_eq!(sum, content("The sum of 1 and 2 is 3.", false), "{agent}");
        session.end();
    }
}

/// Checklist 88: an editor with its own server, in each form that editors use.
#[test]
fn an_editor_can_provide_its_own_server() {
    for (form, options) in [("M7", ""), ("M7", "--http"), ("M6", ""), ("M5", "--http")] {
        let prompts =
            ["servers", "tools editor-tools", r#"call editor-tools echo {"message":"hi"}"#];
        let prompts = prompts.map(|it| format!("--prompt {}", quote(it))).join(" ");
        let editor = format!("{} --form {form} {prompts}", peer("mcp_editor_ts"));
        let agent = format!("{} {options}", peer("mcp_agent_rust"));
        let command = format!("{} agent {}", own_conductor(), quote(&agent));
        let summary = Run::of(&editor, &command).summary();
        assert_eq!(summary["acp"], true, "{form}: {summary}");
        let servers = json!([{ "name": "editor-tools", "transport": transport(options) }]);
        let texts = json!([servers.to_string(), r#"["echo"]"#, content("hi", false).to_string()]);
        assert_eq!(summary["texts"], texts, "{form} {options}");
        // An editor with connections first receives a message without one, because both forms have the same
        // declaration.
        let unexpected = if form == "M6" { json!(["mcp/message"]) } else { json!([]) };
        assert_eq!(summary["unexpected"], unexpected, "{form}");
    }
}

/// The reference conductor has no bridge. This conductor inside it bridges the server instead.
#[test]
fn a_provider_works_inside_the_reference_conductor() {
    for (provider, options) in [("tools_5_0", ""), ("tools_1_3", "--http"), (SPARKLE, "")] {
        let home = directory(&format!("reference-{provider}")).to_str().expect("UTF-8").to_owned();
        let inner = format!("{} proxy {}", own_conductor(), quote(&peer(provider)));
        let agent = format!("{} {options}", peer("mcp_agent_rust"));
        let chain =
            TestChain::builder(peer("reference")).env("HOME", &home).run("agent", &[inner, agent]);
        let mut session = Session::new(chain, &home, json!([]));
        match provider {
            SPARKLE => {
                session.prompt("hello");
                check_sparkle(&mut session, "inside the reference conductor");
            }
            _ => check_tools(&mut session, provider, "tools"),
        }
    }
}

/// Three published proxies with `sacp` 10, which loses the answer to a request directly after
/// `notifications/initialized`: about every second start needs a retry. `STARTS=100` starts more chains.
#[test]
fn a_request_whose_answer_a_published_proxy_loses_is_retried() {
    let starts = std::env::var("STARTS").map_or(8, |it| it.parse().expect("STARTS is a number"));
    let components =
        [peer("ferris"), peer("symposium_cargo"), peer("sparkle_0_7"), peer("mcp_agent_rust")];
    for start in 0..starts {
        let mut session = Session::start(&format!("lost-{start}"), &[], &components);
        for server in ["ferris", "cargo-mcp", "sparkle"] {
            // Sparkle's own prompt precedes the first prompt.
            let texts = session.prompt(&format!("tools {server}"));
            let tools = parse(texts.last().expect("the tools"));
            assert!(tools.as_array().is_some_and(|it| !it.is_empty()), "{start} {server}: {tools}");
        }
        session.end();
    }
}
