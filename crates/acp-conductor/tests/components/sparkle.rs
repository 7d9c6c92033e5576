//! Sparkle end to end, built-in and published: its server is among the agent's MCP servers, the first prompt
//! triggers the embodiment, later prompts pass, and everything else is unchanged. The agent uses the
//! TypeScript SDKs, does not support MCP over ACP, and starts its MCP servers itself.

use serde_json::{Value, json};
use testkit::peers::{Peers, quote};
use testkit::test_chain::{TestChain, directory};

struct Conversation {
    chain: TestChain,
    last_id: u64,
}

impl Conversation {
    fn start(sparkle: &str, agent: &str) -> Conversation {
        let home = directory("sparkle-home");
        let home = home.to_str().expect("UTF-8");
        let setup = TestChain::builder(env!("CARGO_BIN_EXE_conductor"))
            .env("HOME", home)
            .env("SPARKLE_DIR", home);
        let components = [sparkle.to_owned(), agent.to_owned()];
        let mut conversation = Conversation { chain: setup.run("agent", &components), last_id: 0 };
        let (_, answer) = conversation
            .request("initialize", json!({ "protocolVersion": 1, "clientCapabilities": {} }));
        assert_eq!(answer["result"]["agentCapabilities"]["mcpCapabilities"]["acp"], true);
        let (_, new) =
            conversation.request("session/new", json!({ "cwd": home, "mcpServers": [] }));
        assert_eq!(new["result"]["sessionId"], "mcp-session-1", "{new}");
        conversation
    }

    /// Sends a request. Returns the texts of the updates before its answer, and the answer.
    fn request(&mut self, method: &str, params: Value) -> (Vec<String>, Value) {
        self.last_id += 1;
        let line =
            json!({ "jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params });
        self.chain.editor.send(&line.to_string());
        let mut texts = Vec::new();
        loop {
            let message = self.chain.editor.message();
            if message["id"] == self.last_id {
                return (texts, message);
            }
            let text = message["params"]["update"]["content"]["text"].as_str();
            texts.extend(text.map(str::to_owned));
        }
    }

    fn prompt(&mut self, text: &str) -> Vec<String> {
        let block = json!({ "type": "text", "text": text });
        let params = json!({ "sessionId": "mcp-session-1", "prompt": [block] });
        let (texts, answer) = self.request("session/prompt", params);
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
        texts
    }
}

fn agent(options: &str) -> String {
    format!("{} {options}", Peers::load().command("mcp_agent_ts"))
}

#[test]
fn the_built_in_sparkle_embodies_and_offers_its_tools() {
    let program = format!("{} component sparkle", quote(env!("CARGO_BIN_EXE_conductor")));
    for (sparkle, options) in
        [("sparkle", ""), ("sparkle", "--http --eager"), (&*program, "--eager")]
    {
        let mut conversation = Conversation::start(sparkle, &agent(options));
        let texts = conversation.prompt("hello");
        assert_eq!(
            texts,
            [
                "heard Please use the embody_sparkle tool to load your collaborative patterns.",
                "heard hello",
            ],
            "{sparkle} {options}"
        );
        assert_eq!(conversation.prompt("again"), ["heard again"]);
        assert_eq!(conversation.prompt("tools sparkle"), [r#"["embody_sparkle"]"#]);
        let embodied = conversation.prompt("call sparkle embody_sparkle {}").concat();
        assert!(
            embodied.contains("working together") && embodied.contains(r#""isError":false"#),
            "{embodied}"
        );
    }
}

/// `sparkle-mcp` 0.7 sometimes loses an MCP request that arrives during a prompt, under every conductor and
/// without one. Therefore its tools are listed once, before the first prompt.
#[test]
fn the_published_sparkle_embodies_and_offers_its_tools() {
    for (name, options) in [("sparkle_0_7 core", "--eager"), ("sparkle_0_1", "--http")] {
        let (name, rest) = name.split_once(' ').unwrap_or((name, ""));
        let sparkle = format!("{} {rest}", Peers::load().command(name));
        let mut conversation = Conversation::start(&sparkle, &agent(options));
        let texts = conversation.prompt("hello");
        assert!(texts[0].to_lowercase().contains("embodiment"), "{name}: {texts:?}");
        assert_eq!(texts.last().map(String::as_str), Some("heard hello"), "{name}");
        assert_eq!(conversation.prompt("again"), ["heard again"]);
        let servers = conversation.prompt("servers").concat();
        assert!(servers.contains(r#""name":"sparkle""#), "{name}: {servers}");
        if name == "sparkle_0_1" {
            let tools = conversation.prompt("tools sparkle").concat();
            assert!(tools.contains("load_evolution"), "{name}: {tools}");
        }
    }
}
