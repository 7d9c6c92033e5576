//! Tools from proxies, between programs that were not written for it: agents with the MCP clients of
//! the Rust, TypeScript and Python SDKs, providers of every generation that was ever published, and
//! a real MCP server behind a proxy of every form.
//!
//! Issue 4, "Tested on real software". The test is the editor, unless it says otherwise.

use serde_json::{Value, json};
use testkit::peers::quote;
use testkit::test_chain::{TestChain, directory, parse};

use crate::run::Run;
use crate::{ours, peer};

/// Everybody who offers the server `tools`, oldest last.
const TOOLS: [&str; 6] =
    ["tools_5_0", "tools_3_6", "tools_2_2", "tools_1_3", "tools_0_11", "tools_sacp_11"];

/// The published Sparkle that answers every request. The later one, `sparkle_0_7`, loses some: see
/// `published_proxies_that_lose_answers_are_asked_again`.
const SPARKLE: &str = "sparkle_0_1";

/// A session with the chain of these components, and what was said in it.
struct Session {
    chain: TestChain,
    id: String,
    turns: u32,
}

impl Session {
    fn begin(name: &str, options: &[&str], components: &[String]) -> Session {
        let home = directory(name).to_str().expect("UTF-8").to_owned();
        let chain = TestChain::builder(env!("CARGO_BIN_EXE_conductor"))
            .option(&["--grace", "0.5"])
            .option(options)
            // Sparkle keeps things there.
            .env("HOME", &home)
            .env("XDG_CACHE_HOME", &home)
            .run("agent", components);
        Session::with(chain, &home, json!([]))
    }

    /// Begins a session with these servers of the editor's.
    fn with(mut chain: TestChain, cwd: &str, servers: Value) -> Session {
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
        let id = id.unwrap_or_else(|| panic!("a session: {}", chain.conductor.stderr()));
        Session { chain, id, turns: 0 }
    }

    /// What the agent says to this.
    fn prompt(&mut self, text: &str) -> Vec<String> {
        self.turns += 1;
        let id = self.turns + 100;
        let prompt = json!([{ "type": "text", "text": text }]);
        let params = json!({ "sessionId": self.id, "prompt": prompt });
        let message =
            json!({ "jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": params });
        self.chain.editor.send(&message.to_string());
        let mut said = Vec::new();
        loop {
            let message = self.chain.editor.message();
            if message["method"] == "session/update" {
                let text = message["params"]["update"]["content"]["text"].as_str();
                said.push(text.unwrap_or_else(|| panic!("{message}")).to_owned());
                continue;
            }
            // Nothing of MCP reaches the editor: there is nothing else but the answer.
            assert_eq!(message["id"], id, "{message}");
            assert_eq!(message["result"]["stopReason"], "end_turn", "{message}");
            return said;
        }
    }

    /// The one thing that the agent says to this.
    fn ask(&mut self, text: &str) -> Value {
        let said = self.prompt(text);
        assert_eq!(said.len(), 1, "{text}: {said:?}");
        parse(&said[0])
    }

    fn end(mut self) {
        self.chain.editor.close();
        assert_eq!(self.chain.conductor.status(), 0);
    }
}

pub fn content(text: &str, is_error: bool) -> Value {
    json!({ "content": [{ "text": text, "type": "text" }], "isError": is_error })
}

/// The server of a `tools_*` program does what it does, under this name.
fn check_tools(session: &mut Session, provider: &str, name: &str) {
    assert_eq!(session.ask(&format!("tools {name}")), json!(["echo", "fail"]), "{provider}");
    let echo = format!(r#"call {name} echo {{"message":"hi"}}"#);
    assert_eq!(session.ask(&echo), content("\"hi\"", false), "{provider}");
    let failed = session.ask(&format!("call {name} fail {{}}"));
    match provider {
        "tools_5_0" => assert_eq!(failed, content("Internal error: \"it failed\"", true)),
        _ => assert_eq!(failed["error"]["code"], -32603, "{provider}: {failed}"),
    }
}

fn transport(options: &str) -> &str {
    if options.contains("--http") { "http" } else { "stdio" }
}

/// One provider, one agent with these options.
fn check(provider: &str, agent: &str, options: &str) {
    let what = format!("{provider} {agent} {options}");
    let components = [peer(provider), format!("{} {options}", peer(agent))];
    let mut session = Session::begin(&what.replace(' ', "-"), &[], &components);
    let name = if provider.starts_with("sparkle") { "sparkle" } else { "tools" };
    if name == "sparkle" {
        // It speaks to the agent before the user may.
        assert!(session.prompt("hello").last().is_some_and(|last| last == "heard hello"), "{what}");
    }
    let servers = session.ask("servers");
    assert_eq!(servers, json!([{ "name": name, "transport": transport(options) }]), "{what}");
    match name {
        "sparkle" => check_sparkle(&mut session, &what),
        _ => check_tools(&mut session, provider, name),
    }
    session.end();
}

fn check_sparkle(session: &mut Session, what: &str) {
    let tools = session.ask("tools sparkle");
    let has = |name: &str| tools.as_array().is_some_and(|it| it.contains(&json!(name)));
    assert!(has("list_sparklers") && has("session_checkpoint"), "{what}: {tools}");
    let answer = session.ask("call sparkle list_sparklers {}");
    assert_eq!(answer["isError"], false, "{what}: {answer}");
}

const OPTIONS: [&str; 4] = ["", "--eager", "--http", "--http --eager"];

/// Every provider over both transports; the Rust SDK's client is the quickest.
#[test]
fn every_provider_with_the_rust_client() {
    for provider in TOOLS.iter().chain(&[SPARKLE]) {
        for options in OPTIONS {
            check(provider, "mcp_agent_rust", options);
        }
    }
}

/// A provider with connections, one without, and one of the oldest.
#[test]
fn providers_with_the_typescript_client() {
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

/// This client is of the version without connections, and falls back for providers that have them.
#[test]
fn providers_with_the_python_client() {
    for (provider, options) in [
        ("tools_5_0", ""),
        ("tools_0_11", "--eager"),
        ("tools_5_0", "--http"),
        (SPARKLE, "--http --eager"),
    ] {
        check(provider, "mcp_agent_py", options);
    }
}

/// All of them at once: the name they share is made unlike, and each message passes through whoever
/// is on the way, whatever they make of it.
#[test]
fn providers_of_all_generations_in_one_chain() {
    for options in ["--eager", "--http --eager"] {
        let mut components: Vec<String> = TOOLS.iter().map(|name| peer(name)).collect();
        components.push(peer(SPARKLE));
        components
            .push(format!("{} --name everything --form M3 --proxy P4", peer("everything_proxy")));
        components.push(format!("{} {options}", peer("mcp_agent_rust")));
        let name = format!("all{}", options.len());
        let mut session = Session::begin(&name, &[], &components);
        session.prompt("hello");
        let names = ["tools", "tools-2", "tools-3", "tools-4", "tools-5", "tools-6"];
        let all = names.iter().chain(&["sparkle", "everything"]);
        let all: Vec<Value> =
            all.map(|name| json!({ "name": name, "transport": transport(options) })).collect();
        assert_eq!(session.ask("servers"), json!(all));
        for (provider, name) in TOOLS.iter().zip(names) {
            check_tools(&mut session, provider, name);
        }
        check_sparkle(&mut session, "all at once");
        let sum = session.ask(r#"call everything get-sum {"a":1,"b":2}"#);
        assert_eq!(sum, content("The sum of 1 and 2 is 3.", false));
        session.end();
    }
}

/// A published agent, which starts its servers anew for each request.
#[test]
fn a_published_agent_uses_the_tools_of_published_proxies() {
    let mut session = Session::begin("eliza", &[], &[peer(SPARKLE), peer("eliza_12")]);
    session.prompt("hello");
    let said = session.prompt("list tools from sparkle").concat();
    assert!(said.contains("Available tools") && said.contains("list_sparklers"), "{said}");
    let said = session.prompt("use tool sparkle::list_sparklers with {}").concat();
    assert!(said.starts_with("OK") && said.contains("is_error: Some(false)"), "{said}");
    session.end();
}

// The server with everything, behind a proxy of every form.

/// Every tool of the server, as the client can call them; what it asks back is answered.
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

/// What the agent says to all that can be asked of the server, by prompt.
fn everything(session: &mut Session, without: &[&str]) -> Vec<(String, Vec<String>)> {
    // Lists come last. A server that takes more than two seconds to begin (on a busy machine this one
    // does) is asked before it is ready, and its client does not hear its instructions.
    let lists = ["resources", "prompts", "tools"].map(|what| format!("{what} everything"));
    let calls = CALLS.iter().filter(|(tool, _)| !without.contains(tool));
    let calls = calls.map(|(tool, arguments)| format!("call everything {tool} {arguments}"));
    let wrong = ["echo {}", "no-such-tool {}"].map(|call| format!("call everything {call}"));
    let prompts: Vec<String> = calls.chain(wrong).chain(lists).collect();
    prompts.into_iter().map(|prompt| (prompt.clone(), session.prompt(&prompt))).collect()
}

/// What is different each time: environments, times of day.
fn same_each_time(prompt: &str, said: Vec<String>) -> Vec<String> {
    let volatile = ["get-env", "get-resource-reference"];
    if volatile.iter().any(|tool| prompt.contains(tool)) {
        let last = parse(said.last().expect("an answer"));
        return vec![
            last["isError"].to_string(),
            last["content"].as_array().map_or(0, Vec::len).to_string(),
        ];
    }
    said
}

/// The agent with the server itself, and no conductor.
fn directly(name: &str) -> Vec<(String, Vec<String>)> {
    let home = directory(&format!("directly-{name}")).to_str().expect("UTF-8").to_owned();
    let chain = TestChain::builder(peer("mcp_agent_rust")).env("HOME", &home).run("--eager", &[]);
    let words = peer("mcp_everything");
    let mut words = words.split(' ');
    let command = words.next().expect("a program");
    let args: Vec<&str> = words.chain(["stdio"]).collect();
    let server = json!({ "name": "everything", "command": command, "args": args, "env": [] });
    let mut session = Session::with(chain, &home, json!([server]));
    everything(&mut session, &[])
}

/// A proxy that offers the server in this form, and the agent over both transports.
fn check_everything(forms: &[(&str, &str)]) {
    let expected = directly(forms[0].0);
    let listed = parse(&expected[expected.len() - 1].1[0]);
    let mut called: Vec<&str> = CALLS.iter().map(|(tool, _)| *tool).collect();
    called.sort_unstable();
    assert_eq!(listed, json!(called), "the whole list is called");
    for (form, proxy) in forms {
        // In this form the proxy does not ask for roots, so the server does not have the tool.
        let without: &[&str] = if *form == "M7" { &["get-roots-list"] } else { &[] };
        for options in ["", "--http"] {
            let provider = format!("{} --form {form} --proxy {proxy}", peer("everything_proxy"));
            let agent = format!("{} {options}", peer("mcp_agent_rust"));
            let name = format!("everything-{form}-{proxy}{options}");
            let mut session = Session::begin(&name, &[], &[provider, agent]);
            let mut got = everything(&mut session, without);
            let tools: Vec<&&str> = called.iter().filter(|it| !without.contains(it)).collect();
            let (_, listed) = got.pop().expect("the list of tools");
            assert_eq!(parse(&listed[0]), json!(tools), "{name}");
            for (prompt, said) in got {
                let alone = expected.iter().find(|(asked, _)| *asked == prompt);
                let alone = alone.expect("asked there, too").1.clone();
                let (said, alone) = (same_each_time(&prompt, said), same_each_time(&prompt, alone));
                assert_eq!(said, alone, "{name}: {prompt}");
            }
            session.end();
        }
    }
}

/// The forms of the older generations.
#[test]
fn a_real_server_behind_a_proxy_of_an_older_form() {
    check_everything(&[("M1", "P4"), ("M2", "P3"), ("M3", "P4"), ("M3b", "P4"), ("M3t", "P5")]);
}

#[test]
fn a_real_server_behind_a_proxy_of_a_newer_form() {
    check_everything(&[("M4", "P5"), ("M5", "P5"), ("M6", "P4"), ("M7", "P5")]);
}

/// Progress and cancellation, with clients of three SDKs.
#[test]
fn a_long_call_is_cancelled() {
    for (agent, options) in
        [("mcp_agent_rust", ""), ("mcp_agent_ts", "--http"), ("mcp_agent_py", "")]
    {
        let provider = format!("{} --form M3 --proxy P5", peer("everything_proxy"));
        let components = [provider, format!("{} {options}", peer(agent))];
        let mut session = Session::begin(&format!("cancel-{agent}"), &[], &components);
        let call =
            r#"cancel everything trigger-long-running-operation {"duration":600,"steps":6000}"#;
        let said = session.prompt(call);
        assert_eq!(said.last().map(String::as_str), Some("cancelled"), "{agent}: {said:?}");
        // And the connection is as good as before.
        let sum = session.ask(r#"call everything get-sum {"a":1,"b":2}"#);
        assert_eq!(sum, content("The sum of 1 and 2 is 3.", false), "{agent}");
        session.end();
    }
}

/// Checklist 88: an editor with a server of its own, in each form that editors have.
#[test]
fn an_editor_offers_its_own_server() {
    for (form, options) in [("M7", ""), ("M7", "--http"), ("M6", ""), ("M5", "--http")] {
        let prompts =
            ["servers", "tools editor-tools", r#"call editor-tools echo {"message":"hi"}"#];
        let prompts = prompts.map(|it| format!("--prompt {}", quote(it))).join(" ");
        let editor = format!("{} --form {form} {prompts}", peer("mcp_editor_ts"));
        let agent = format!("{} {options}", peer("mcp_agent_rust"));
        let command = format!("{} agent {}", ours(), quote(&agent));
        let summary = Run::of(&editor, &command).summary();
        assert_eq!(summary["acp"], true, "{form}: {summary}");
        let servers = json!([{ "name": "editor-tools", "transport": transport(options) }]);
        let texts = json!([servers.to_string(), r#"["echo"]"#, content("hi", false).to_string()]);
        assert_eq!(summary["texts"], texts, "{form} {options}");
        // One that has connections is first asked as if it had none: both declare alike.
        let unexpected = if form == "M6" { json!(["mcp/message"]) } else { json!([]) };
        assert_eq!(summary["unexpected"], unexpected, "{form}");
    }
}

/// Under the reference conductor, which has no bridge: ours is one, from inside.
#[test]
fn inside_the_reference_conductor() {
    for (provider, options) in [("tools_5_0", ""), ("tools_1_3", "--http"), (SPARKLE, "")] {
        let home = directory(&format!("reference-{provider}")).to_str().expect("UTF-8").to_owned();
        let inner = format!("{} proxy {}", ours(), quote(&peer(provider)));
        let agent = format!("{} {options}", peer("mcp_agent_rust"));
        let chain =
            TestChain::builder(peer("reference")).env("HOME", &home).run("agent", &[inner, agent]);
        let mut session = Session::with(chain, &home, json!([]));
        match provider {
            SPARKLE => {
                session.prompt("hello");
                check_sparkle(&mut session, "inside the reference conductor");
            }
            _ => check_tools(&mut session, provider, "tools"),
        }
    }
}

/// Three published proxies on `sacp` 10, which loses the answer to a request right behind
/// `notifications/initialized`: about every other start needs a retry. `STARTS=100` starts more chains.
#[test]
fn published_proxies_that_lose_answers_are_asked_again() {
    let starts = std::env::var("STARTS").map_or(8, |it| it.parse().expect("STARTS is a number"));
    let components =
        [peer("ferris"), peer("symposium_cargo"), peer("sparkle_0_7"), peer("mcp_agent_rust")];
    for start in 0..starts {
        let mut session = Session::begin(&format!("lost-{start}"), &[], &components);
        for server in ["ferris", "cargo-mcp", "sparkle"] {
            // The first prompt is preceded by Sparkle's own.
            let said = session.prompt(&format!("tools {server}"));
            let tools = parse(said.last().expect("the tools"));
            assert!(tools.as_array().is_some_and(|it| !it.is_empty()), "{start} {server}: {tools}");
        }
        session.end();
    }
}
