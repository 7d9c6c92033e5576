//! The success criteria of the documents, end to end, with our Sparkle and with the published one: its
//! server is in the agent's tool list, the first prompt triggers the embodiment, later prompts pass,
//! everything else is unchanged. The agent is on the TypeScript SDKs, knows nothing of MCP over ACP,
//! and starts its MCP servers itself.

use serde_json::{Value, json};
use testkit::peers::{Peers, quote};
use testkit::test_chain::{TestChain, directory};

struct Talk {
    chain: TestChain,
    asked: u64,
}

impl Talk {
    fn start(sparkle: &str, agent: &str) -> Talk {
        let home = directory("sparkle-home");
        let home = home.to_str().expect("UTF-8");
        let setup = TestChain::builder(env!("CARGO_BIN_EXE_conductor"))
            .env("HOME", home)
            .env("SPARKLE_DIR", home);
        let components = [sparkle.to_owned(), agent.to_owned()];
        let mut talk = Talk { chain: setup.run("agent", &components), asked: 0 };
        let (_, greeted) =
            talk.ask("initialize", json!({ "protocolVersion": 1, "clientCapabilities": {} }));
        assert_eq!(greeted["result"]["agentCapabilities"]["mcpCapabilities"]["acp"], true);
        let (_, new) = talk.ask("session/new", json!({ "cwd": home, "mcpServers": [] }));
        assert_eq!(new["result"]["sessionId"], "mcp-session-1", "{new}");
        talk
    }

    /// Asks something; gives what was said meanwhile, and the answer.
    fn ask(&mut self, method: &str, params: Value) -> (Vec<String>, Value) {
        self.asked += 1;
        let line =
            json!({ "jsonrpc": "2.0", "id": self.asked, "method": method, "params": params });
        self.chain.editor.send(&line.to_string());
        let mut said = Vec::new();
        loop {
            let message = self.chain.editor.message();
            if message["id"] == self.asked {
                return (said, message);
            }
            let text = message["params"]["update"]["content"]["text"].as_str();
            said.extend(text.map(str::to_owned));
        }
    }

    fn prompt(&mut self, text: &str) -> Vec<String> {
        let block = json!({ "type": "text", "text": text });
        let params = json!({ "sessionId": "mcp-session-1", "prompt": [block] });
        let (said, answer) = self.ask("session/prompt", params);
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
        said
    }
}

fn agent(options: &str) -> String {
    format!("{} {options}", Peers::load().command("mcp_agent_ts"))
}

#[test]
fn with_our_sparkle() {
    let program = format!("{} component sparkle", quote(env!("CARGO_BIN_EXE_conductor")));
    for (sparkle, options) in
        [("sparkle", ""), ("sparkle", "--http --eager"), (&*program, "--eager")]
    {
        let mut talk = Talk::start(sparkle, &agent(options));
        let said = talk.prompt("hello");
        assert_eq!(
            said,
            [
                "heard Please use the embody_sparkle tool to load your collaborative patterns.",
                "heard hello",
            ],
            "{sparkle} {options}"
        );
        assert_eq!(talk.prompt("again"), ["heard again"]);
        assert_eq!(talk.prompt("tools sparkle"), [r#"["embody_sparkle"]"#]);
        let embodied = talk.prompt("call sparkle embody_sparkle {}").concat();
        assert!(
            embodied.contains("working together") && embodied.contains(r#""isError":false"#),
            "{embodied}"
        );
    }
}

/// `sparkle-mcp` 0.7 now and then loses an MCP request that comes while it is busy with a prompt, under
/// every conductor and under none; so its tools are listed once, before there is a prompt.
#[test]
fn with_the_published_sparkle() {
    for (name, options) in [("sparkle_0_7 core", "--eager"), ("sparkle_0_1", "--http")] {
        let (name, rest) = name.split_once(' ').unwrap_or((name, ""));
        let sparkle = format!("{} {rest}", Peers::load().command(name));
        let mut talk = Talk::start(&sparkle, &agent(options));
        let said = talk.prompt("hello");
        assert!(said[0].to_lowercase().contains("embodiment"), "{name}: {said:?}");
        assert_eq!(said.last().map(String::as_str), Some("heard hello"), "{name}");
        assert_eq!(talk.prompt("again"), ["heard again"]);
        let servers = talk.prompt("servers").concat();
        assert!(servers.contains(r#""name":"sparkle""#), "{name}: {servers}");
        if name == "sparkle_0_1" {
            let tools = talk.prompt("tools sparkle").concat();
            assert!(tools.contains("load_evolution"), "{name}: {tools}");
        }
    }
}
