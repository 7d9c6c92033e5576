//! The walk-throughs and sequence diagrams of the documents, message by message, in their spelling.
//!
//! A scene is a list of lines: `who > line` is said, `who < line` must be heard, in this order. Two
//! things differ from the documents everywhere, and both are meant. Ids are ours on every link (the
//! documents let the editor's ids travel on, which collides as soon as two count from zero), so an id
//! stands for "the same request". And the conductor never gives itself out as the client: the
//! editor's `clientInfo` goes to the first component as it is.

#![cfg(unix)]

use std::collections::BTreeMap;

use serde_json::{Value, json};
use testkit::test_chain::{Peer, ScriptedComponent, TestChain, TestChainBuilder, parse};

/// The editor and whoever has been started, with the ids that requests have on their links.
struct Cast {
    chain: TestChain,
    components: BTreeMap<String, ScriptedComponent>,
    ids: BTreeMap<(String, String), Value>,
}

impl Cast {
    fn new(chain: TestChain) -> Cast {
        Cast { chain, components: BTreeMap::new(), ids: BTreeMap::new() }
    }

    #[track_caller]
    fn play(&mut self, scene: &str) {
        for line in scene.lines().map(str::trim) {
            let Some((who, rest)) = line.split_once(' ') else { continue };
            match rest.trim_start().split_once(' ') {
                Some((">", said)) => self.say(who, parse(said)),
                Some(("<", heard)) => self.hear(who, parse(heard)),
                _ => assert!(who == "#", "what is this? {line:?}"),
            }
        }
    }

    fn peer(&mut self, who: &str) -> &mut dyn Peer {
        if who == "editor" {
            return &mut self.chain.editor;
        }
        let chain = &mut self.chain;
        self.components.entry(who.to_owned()).or_insert_with(|| chain.wait_for_component(who))
    }

    fn say(&mut self, who: &str, mut line: Value) {
        if line.get("method").is_none() {
            let name = (who.to_owned(), line["id"].to_string());
            line["id"] = self.ids.get(&name).expect("it was asked that").clone();
        }
        self.peer(who).send(&line.to_string());
    }

    #[track_caller]
    fn hear(&mut self, who: &str, mut expected: Value) {
        let line = self.peer(who).line();
        let heard = parse(&line);
        if expected.get("method").is_some() && expected.get("id").is_some() {
            let id = heard.get("id").unwrap_or_else(|| panic!("{who} hears no request: {line}"));
            self.ids.insert((who.to_owned(), expected["id"].to_string()), id.clone());
            expected["id"] = id.clone();
        }
        assert_eq!(heard, expected, "{who}");
    }
}

fn test_chain() -> TestChainBuilder {
    TestChain::builder(env!("CARGO_BIN_EXE_conductor"))
}

/// `fiedler sparkle-acp agent-acp`, and `conductor agent sparkle-acp claude-code-acp`. The protocol
/// version of the time was a text, which is taken only in a chain that is said to be of the time.
fn sparkle() -> Cast {
    Cast::new(test_chain().option(&["--dialect", "1=P2"]).run_agent(&["sparkle", "agent"]))
}

// S/ACP. Checklist 9, 14, 18, 26, 32, 33, 40.

/// Scenario 1: Sparkle answers `initialize` by itself and without a word of its role; the conductor
/// initialises the agent.
const S_ACP_INITIALIZATION: &str = r#"
    editor  > {"jsonrpc":"2.0","id":"I0","method":"initialize","params":{"protocolVersion":"0.1.0","capabilities":{},"clientInfo":{"name":"Zed","version":"0.1.0"}}}
    sparkle < {"jsonrpc":"2.0","id":"I0","method":"initialize","params":{"protocolVersion":"0.1.0","capabilities":{"_meta":{"symposium":{"version":"1.0","proxy":true}}},"clientInfo":{"name":"Zed","version":"0.1.0"}}}
    sparkle > {"jsonrpc":"2.0","id":"I0","result":{"protocolVersion":"0.1.0","capabilities":{},"serverInfo":{"name":"Sparkle","version":"0.1.0"}}}
    agent   < {"jsonrpc":"2.0","id":"I0","method":"initialize","params":{"protocolVersion":"0.1.0","capabilities":{},"clientInfo":{"name":"Zed","version":"0.1.0"}}}
    agent   > {"jsonrpc":"2.0","id":"I0","result":{"protocolVersion":"0.1.0","capabilities":{},"serverInfo":{"name":"claude-code-acp","version":"0.1.0"}}}
    editor  < {"jsonrpc":"2.0","id":"I0","result":{"protocolVersion":"0.1.0","capabilities":{},"serverInfo":{"name":"Sparkle","version":"0.1.0"}}}
"#;

const SESSION: &str = r#"
    editor  > {"jsonrpc":"2.0","id":"U0","method":"session/new","params":{"tools":{"mcpServers":{"filesystem":{"command":"mcp-filesystem","args":[]}}}}}
    sparkle < {"jsonrpc":"2.0","id":"U0","method":"session/new","params":{"tools":{"mcpServers":{"filesystem":{"command":"mcp-filesystem","args":[]}}}}}
    sparkle > {"jsonrpc":"2.0","id":"U1","method":"_proxy/successor/request","params":{"message":{"method":"session/new","params":{"tools":{"mcpServers":{"filesystem":{"command":"mcp-filesystem","args":[]},"sparkle":{"command":"sparkle-mcp","args":[]}}}}}}}
    agent   < {"jsonrpc":"2.0","id":"U1","method":"session/new","params":{"tools":{"mcpServers":{"filesystem":{"command":"mcp-filesystem","args":[]},"sparkle":{"command":"sparkle-mcp","args":[]}}}}}
    agent   > {"jsonrpc":"2.0","id":"U1","result":{"sessionId":"S1","serverInfo":{"name":"claude-code-acp","version":"0.1.0"}}}
    sparkle < {"jsonrpc":"2.0","id":"U1","result":{"sessionId":"S1","serverInfo":{"name":"claude-code-acp","version":"0.1.0"}}}
    sparkle > {"jsonrpc":"2.0","id":"U0","result":{"sessionId":"S1","serverInfo":{"name":"Conductor + Sparkle","version":"0.1.0"}}}
    editor  < {"jsonrpc":"2.0","id":"U0","result":{"sessionId":"S1","serverInfo":{"name":"Conductor + Sparkle","version":"0.1.0"}}}
"#;

/// Scenario 2: the first prompt waits for the embodiment.
const FIRST_PROMPT: &str = r#"
    editor  > {"jsonrpc":"2.0","id":"P0","method":"session/prompt","params":{"sessionId":"S1","messages":[{"role":"user","content":"Hello! Can you help me with my code?"}]}}
    sparkle < {"jsonrpc":"2.0","id":"P0","method":"session/prompt","params":{"sessionId":"S1","messages":[{"role":"user","content":"Hello! Can you help me with my code?"}]}}
    sparkle > {"jsonrpc":"2.0","id":"P1","method":"_proxy/successor/request","params":{"message":{"method":"session/prompt","params":{"sessionId":"S1","messages":[{"role":"user","content":"Please use the embody_sparkle tool to load your collaborative patterns."}]}}}}
    agent   < {"jsonrpc":"2.0","id":"P1","method":"session/prompt","params":{"sessionId":"S1","messages":[{"role":"user","content":"Please use the embody_sparkle tool to load your collaborative patterns."}]}}
    agent   > {"jsonrpc":"2.0","id":"P1","result":{"role":"assistant","content":[{"type":"tool_use","id":"tool-1","name":"embody_sparkle","input":{}}]}}
    sparkle < {"jsonrpc":"2.0","id":"P1","result":{"role":"assistant","content":[{"type":"tool_use","id":"tool-1","name":"embody_sparkle","input":{}}]}}
    sparkle > {"jsonrpc":"2.0","id":"P2","method":"_proxy/successor/request","params":{"message":{"method":"session/prompt","params":{"sessionId":"S1","messages":[{"role":"user","content":"Hello! Can you help me with my code?"}]}}}}
    agent   < {"jsonrpc":"2.0","id":"P2","method":"session/prompt","params":{"sessionId":"S1","messages":[{"role":"user","content":"Hello! Can you help me with my code?"}]}}
    agent   > {"jsonrpc":"2.0","id":"P2","result":{"role":"assistant","content":"I'd be happy to help you with your code! What would you like to work on?"}}
    sparkle < {"jsonrpc":"2.0","id":"P2","result":{"role":"assistant","content":"I'd be happy to help you with your code! What would you like to work on?"}}
    sparkle > {"jsonrpc":"2.0","id":"P0","result":{"role":"assistant","content":"I'd be happy to help you with your code! What would you like to work on?"}}
    editor  < {"jsonrpc":"2.0","id":"P0","result":{"role":"assistant","content":"I'd be happy to help you with your code! What would you like to work on?"}}
"#;

/// Scenario 3: later ones pass.
const LATER_PROMPT: &str = r#"
    editor  > {"jsonrpc":"2.0","id":"P3","method":"session/prompt","params":{"sessionId":"S1","messages":[{"role":"user","content":"Can you refactor the authenticate function?"}]}}
    sparkle < {"jsonrpc":"2.0","id":"P3","method":"session/prompt","params":{"sessionId":"S1","messages":[{"role":"user","content":"Can you refactor the authenticate function?"}]}}
    sparkle > {"jsonrpc":"2.0","id":"P4","method":"_proxy/successor/request","params":{"message":{"method":"session/prompt","params":{"sessionId":"S1","messages":[{"role":"user","content":"Can you refactor the authenticate function?"}]}}}}
    agent   < {"jsonrpc":"2.0","id":"P4","method":"session/prompt","params":{"sessionId":"S1","messages":[{"role":"user","content":"Can you refactor the authenticate function?"}]}}
    agent   > {"jsonrpc":"2.0","id":"P4","result":{"role":"assistant","content":"I'll help you refactor the authenticate function..."}}
    sparkle < {"jsonrpc":"2.0","id":"P4","result":{"role":"assistant","content":"I'll help you refactor the authenticate function..."}}
    sparkle > {"jsonrpc":"2.0","id":"P3","result":{"role":"assistant","content":"I'll help you refactor the authenticate function..."}}
    editor  < {"jsonrpc":"2.0","id":"P3","result":{"role":"assistant","content":"I'll help you refactor the authenticate function..."}}
"#;

#[test]
fn s_acp_scenarios_1_to_3() {
    let mut cast = sparkle();
    cast.play(S_ACP_INITIALIZATION);
    cast.play(SESSION);
    cast.play(FIRST_PROMPT);
    cast.play(LATER_PROMPT);
}

// P/ACP. Checklist 2, 3, 9, 14, 18, 26, 32, 33, 40.

/// Scenario 1: Sparkle initialises its successor through the conductor, and accepts its role.
const P_ACP_INITIALIZATION: &str = r#"
    editor  > {"jsonrpc":"2.0","id":"I0","method":"initialize","params":{"protocolVersion":"0.1.0","capabilities":{},"clientInfo":{"name":"Zed","version":"0.1.0"}}}
    sparkle < {"jsonrpc":"2.0","id":"I0","method":"initialize","params":{"protocolVersion":"0.1.0","capabilities":{"_meta":{"symposium":{"version":"1.0","proxy":true}}},"clientInfo":{"name":"Zed","version":"0.1.0"}}}
    sparkle > {"jsonrpc":"2.0","id":"I1","method":"_proxy/successor/request","params":{"message":{"method":"initialize","params":{"protocolVersion":"0.1.0","capabilities":{},"clientInfo":{"name":"Sparkle","version":"0.1.0"}}}}}
    agent   < {"jsonrpc":"2.0","id":"I1","method":"initialize","params":{"protocolVersion":"0.1.0","capabilities":{},"clientInfo":{"name":"Sparkle","version":"0.1.0"}}}
    agent   > {"jsonrpc":"2.0","id":"I1","result":{"protocolVersion":"0.1.0","capabilities":{},"serverInfo":{"name":"claude-code-acp","version":"0.1.0"}}}
    # "Always advertises mcp_acp_transport: true to intermediate components."
    sparkle < {"jsonrpc":"2.0","id":"I1","result":{"protocolVersion":"0.1.0","capabilities":{},"serverInfo":{"name":"claude-code-acp","version":"0.1.0"},"_meta":{"mcp_acp_transport":true}}}
    sparkle > {"jsonrpc":"2.0","id":"I0","result":{"protocolVersion":"0.1.0","capabilities":{"_meta":{"symposium":{"version":"1.0","proxy":true}}},"serverInfo":{"name":"Sparkle + claude-code-acp","version":"0.1.0"}}}
    # To editors the conductor is a normal ACP agent: no special capabilities are advertised.
    editor  < {"jsonrpc":"2.0","id":"I0","result":{"protocolVersion":"0.1.0","capabilities":{},"serverInfo":{"name":"Sparkle + claude-code-acp","version":"0.1.0"}}}
"#;

#[test]
fn p_acp_scenarios_1_to_3() {
    let mut cast = sparkle();
    cast.play(P_ACP_INITIALIZATION);
    cast.play(SESSION);
    cast.play(FIRST_PROMPT);
    cast.play(LATER_PROMPT);
}

/// P/ACP, "MCP Message Flow Protocol": a tool call flows up the chain, a server's own words down.
#[test]
fn p_acp_mcp_messages_flow_through_the_chain() {
    let mut cast = sparkle();
    cast.play(P_ACP_INITIALIZATION);
    cast.play(
        r#"
        agent   > {"jsonrpc":"2.0","id":"T1","method":"_mcp/client_to_server/request","params":{"url":"acp:550e8400-e29b-41d4-a716-446655440000","message":{"jsonrpc":"2.0","id":"mcp-123","method":"tools/call","params":{"name":"embody_sparkle","arguments":{}}}}}
        sparkle < {"jsonrpc":"2.0","id":"T1","method":"_proxy/successor/request","params":{"message":{"method":"_mcp/client_to_server/request","params":{"url":"acp:550e8400-e29b-41d4-a716-446655440000","message":{"jsonrpc":"2.0","id":"mcp-123","method":"tools/call","params":{"name":"embody_sparkle","arguments":{}}}}}}}
        sparkle > {"jsonrpc":"2.0","id":"T1","result":{"message":{"jsonrpc":"2.0","id":"mcp-123","result":{"content":[{"type":"text","text":"Embodiment complete"}]}}}}
        agent   < {"jsonrpc":"2.0","id":"T1","result":{"message":{"jsonrpc":"2.0","id":"mcp-123","result":{"content":[{"type":"text","text":"Embodiment complete"}]}}}}
        agent   > {"jsonrpc":"2.0","method":"_mcp/client_to_server/notification","params":{"url":"acp:550e8400-e29b-41d4-a716-446655440000","message":{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}}}
        sparkle < {"jsonrpc":"2.0","method":"_proxy/successor/notification","params":{"message":{"method":"_mcp/client_to_server/notification","params":{"url":"acp:550e8400-e29b-41d4-a716-446655440000","message":{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}}}}}
        sparkle > {"jsonrpc":"2.0","id":"S1","method":"_proxy/successor/request","params":{"message":{"method":"_mcp/server_to_client/request","params":{"url":"acp:550e8400-e29b-41d4-a716-446655440000","message":{"jsonrpc":"2.0","id":"mcp-456","method":"sampling/createMessage","params":{}}}}}}
        agent   < {"jsonrpc":"2.0","id":"S1","method":"_mcp/server_to_client/request","params":{"url":"acp:550e8400-e29b-41d4-a716-446655440000","message":{"jsonrpc":"2.0","id":"mcp-456","method":"sampling/createMessage","params":{}}}}
        agent   > {"jsonrpc":"2.0","id":"S1","result":{"message":{"jsonrpc":"2.0","id":"mcp-456","result":{}}}}
        sparkle < {"jsonrpc":"2.0","id":"S1","result":{"message":{"jsonrpc":"2.0","id":"mcp-456","result":{}}}}
        "#,
    );
}

// The RFD "Proxy Chains". Checklist 1, 2, 3, 5, 33–36, 40, 53.

/// "Initialization of a 4-Component Proxy Chain". Params are unchanged, as the current schema has it:
/// nothing is offered beside them.
const CHAIN: &str = r#"
    editor  > {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}
    context < {"jsonrpc":"2.0","id":0,"method":"proxy/initialize","params":{"protocolVersion":1,"clientCapabilities":{},"_meta":{"mcp_acp_transport":true}}}
    context > {"jsonrpc":"2.0","id":1,"method":"proxy/successor","params":{"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}}
    filter  < {"jsonrpc":"2.0","id":1,"method":"proxy/initialize","params":{"protocolVersion":1,"clientCapabilities":{},"_meta":{"mcp_acp_transport":true}}}
    filter  > {"jsonrpc":"2.0","id":2,"method":"proxy/successor","params":{"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}}
    agent   < {"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}
    agent   > {"jsonrpc":"2.0","id":2,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"mcpCapabilities":{"acp":true}}}}
    filter  < {"jsonrpc":"2.0","id":2,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"mcpCapabilities":{"acp":true}}}}
    filter  > {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"mcpCapabilities":{"acp":true}}}}
    context < {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"mcpCapabilities":{"acp":true}}}}
    context > {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"mcpCapabilities":{"acp":true}}}}
    editor  < {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"mcpCapabilities":{"acp":true}}}}
"#;

fn start_chain() -> Cast {
    let mut cast = Cast::new(test_chain().run_agent(&["context", "filter", "agent"]));
    cast.play(CHAIN);
    cast
}

/// "Here's how a single message flows through the system".
#[test]
fn rfd_a_single_message_flows_through_the_system() {
    start_chain().play(
        r#"
        editor  > {"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"prompt":"q"}}
        context < {"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"prompt":"q"}}
        context > {"jsonrpc":"2.0","id":1,"method":"proxy/successor","params":{"method":"session/prompt","params":{"prompt":"q, enhanced"}}}
        filter  < {"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"prompt":"q, enhanced"}}
        filter  > {"jsonrpc":"2.0","id":1,"method":"proxy/successor","params":{"method":"session/prompt","params":{"prompt":"q, enhanced, filtered"}}}
        agent   < {"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"prompt":"q, enhanced, filtered"}}
        agent   > {"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"}}
        filter  < {"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"}}
        filter  > {"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn","processed":true}}
        context < {"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn","processed":true}}
        context > {"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn","final":true}}
        editor  < {"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn","final":true}}
        "#,
    );
}

/// "Context Proxy (with MCP server) → Filter Proxy → Agent": the agent's tool call comes back to the
/// proxy that owns the tool, past the one between (checklist 90), while the prompt is open.
#[test]
fn rfd_a_tool_call_returns_to_the_proxy_that_owns_the_tool() {
    start_chain().play(
        r#"
        editor  > {"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"prompt":"q"}}
        context < {"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"prompt":"q"}}
        context > {"jsonrpc":"2.0","id":1,"method":"proxy/successor","params":{"method":"session/prompt","params":{"prompt":"q"}}}
        filter  < {"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"prompt":"q"}}
        filter  > {"jsonrpc":"2.0","id":1,"method":"proxy/successor","params":{"method":"session/prompt","params":{"prompt":"q"}}}
        agent   < {"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"prompt":"q"}}
        agent   > {"jsonrpc":"2.0","id":"t","method":"mcp/message","params":{"connectionId":"c","method":"tools/call","params":{"name":"list_files"}}}
        filter  < {"jsonrpc":"2.0","id":"t","method":"proxy/successor","params":{"method":"mcp/message","params":{"connectionId":"c","method":"tools/call","params":{"name":"list_files"}}}}
        filter  > {"jsonrpc":"2.0","id":"t","method":"mcp/message","params":{"connectionId":"c","method":"tools/call","params":{"name":"list_files"}}}
        context < {"jsonrpc":"2.0","id":"t","method":"proxy/successor","params":{"method":"mcp/message","params":{"connectionId":"c","method":"tools/call","params":{"name":"list_files"}}}}
        context > {"jsonrpc":"2.0","id":"t","result":{"content":[{"type":"text","text":"a.rs"}]}}
        filter  < {"jsonrpc":"2.0","id":"t","result":{"content":[{"type":"text","text":"a.rs"}]}}
        filter  > {"jsonrpc":"2.0","id":"t","result":{"content":[{"type":"text","text":"a.rs"}]}}
        agent   < {"jsonrpc":"2.0","id":"t","result":{"content":[{"type":"text","text":"a.rs"}]}}
        agent   > {"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"}}
        filter  < {"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"}}
        filter  > {"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"}}
        context < {"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"}}
        context > {"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"}}
        editor  < {"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"}}
        "#,
    );
}

/// "Context-Providing MCP Server with Session Notifications": the embodiment's updates reach the
/// client, its answer does not.
#[test]
fn rfd_session_notifications_of_an_embodiment() {
    let mut cast = Cast::new(test_chain().run_agent(&["sparkle", "agent"]));
    cast.play(
        r#"
        editor  > {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}
        sparkle < {"jsonrpc":"2.0","id":0,"method":"proxy/initialize","params":{"protocolVersion":1,"_meta":{"mcp_acp_transport":true}}}
        sparkle > {"jsonrpc":"2.0","id":0,"method":"proxy/successor","params":{"method":"initialize","params":{"protocolVersion":1}}}
        agent   < {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}
        agent   > {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}
        sparkle < {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"acp":true}}}}
        sparkle > {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"acp":true}}}}
        editor  < {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"acp":true}}}}
        editor  > {"jsonrpc":"2.0","id":1,"method":"session/new","params":{"mcpServers":[]}}
        sparkle < {"jsonrpc":"2.0","id":1,"method":"session/new","params":{"mcpServers":[]}}
        sparkle > {"jsonrpc":"2.0","id":1,"method":"proxy/successor","params":{"method":"session/new","params":{"mcpServers":[{"name":"sparkle","command":"sparkle-mcp","args":[],"env":[]}]}}}
        agent   < {"jsonrpc":"2.0","id":1,"method":"session/new","params":{"mcpServers":[{"name":"sparkle","command":"sparkle-mcp","args":[],"env":[]}]}}
        agent   > {"jsonrpc":"2.0","id":1,"result":{"sessionId":"S1"}}
        sparkle < {"jsonrpc":"2.0","id":1,"result":{"sessionId":"S1"}}
        sparkle > {"jsonrpc":"2.0","id":1,"result":{"sessionId":"S1"}}
        editor  < {"jsonrpc":"2.0","id":1,"result":{"sessionId":"S1"}}
        editor  > {"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"S1","prompt":"Hello, can you help me?"}}
        sparkle < {"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"S1","prompt":"Hello, can you help me?"}}
        sparkle > {"jsonrpc":"2.0","id":2,"method":"proxy/successor","params":{"method":"session/prompt","params":{"sessionId":"S1","prompt":"you are sparkle..."}}}
        agent   < {"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"S1","prompt":"you are sparkle..."}}
        agent   > {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"S1","update":"thinking..."}}
        agent   > {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"S1","update":"embodiment complete"}}
        agent   > {"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}}
        sparkle < {"jsonrpc":"2.0","method":"proxy/successor","params":{"method":"session/update","params":{"sessionId":"S1","update":"thinking..."}}}
        sparkle > {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"S1","update":"thinking..."}}
        sparkle < {"jsonrpc":"2.0","method":"proxy/successor","params":{"method":"session/update","params":{"sessionId":"S1","update":"embodiment complete"}}}
        sparkle > {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"S1","update":"embodiment complete"}}
        sparkle < {"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}}
        sparkle > {"jsonrpc":"2.0","id":3,"method":"proxy/successor","params":{"method":"session/prompt","params":{"sessionId":"S1","prompt":"Hello, can you help me?"}}}
        editor  < {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"S1","update":"thinking..."}}
        editor  < {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"S1","update":"embodiment complete"}}
        agent   < {"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":"S1","prompt":"Hello, can you help me?"}}
        agent   > {"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}
        sparkle < {"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}
        sparkle > {"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}}
        editor  < {"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}}
        "#,
    );
}

/// A scene that goes differently fails: the notation itself is checked.
#[test]
#[should_panic(expected = "agent")]
fn a_scene_that_goes_differently_fails() {
    let mut cast = Cast::new(test_chain().run_agent(&["agent"]));
    let asked =
        json!({"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}});
    let other =
        json!({"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":2}});
    cast.play(&format!("editor > {asked}\nagent < {other}"));
}
