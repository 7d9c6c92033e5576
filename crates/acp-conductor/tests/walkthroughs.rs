//! The walk-throughs and sequence diagrams of the design documents, message by message.
//!
//! A script is a list of lines: with `name > line` the participant sends a message, and with `name < line` it
//! must receive one, in this order. Two differences from the documents are intended. The conductor uses its own ids
//! on every link, so an id in a script stands for "the same request". (In the documents the editor's ids are
//! passed on, which collide as soon as two participants count from zero.) And the conductor never presents itself
//! as the client: the editor's `clientInfo` goes to the first component unchanged.

#![cfg(unix)]

use std::collections::BTreeMap;

use serde_json::{Value, json};
use testkit::test_chain::{Peer, ScriptedComponent, TestChain, TestChainBuilder, parse};

/// The editor and the components, with the ids of requests on their links.
struct Conversation {
    chain: TestChain,
    components: BTreeMap<String, ScriptedComponent>,
    ids: BTreeMap<(String, String), Value>,
}

impl Conversation {
    fn new(chain: TestChain) -> Conversation {
        Conversation { chain, components: BTreeMap::new(), ids: BTreeMap::new() }
    }

    #[track_caller]
    fn run(&mut self, script: &str) {
        for line in script.lines().map(str::trim) {
            let Some((name, rest)) = line.split_once(' ') else { continue };
            match rest.trim_start().split_once(' ') {
                Some((">", sent)) => self.send(name, parse(sent)),
                Some(("<", received)) => self.receive(name, parse(received)),
                _ => assert!(name == "#", "neither a message nor a comment: {line:?}"),
            }
        }
    }

    fn peer(&mut self, name: &str) -> &mut dyn Peer {
        if name == "editor" {
            return &mut self.chain.editor;
        }
        let chain = &mut self.chain;
        self.components.entry(name.to_owned()).or_insert_with(|| chain.wait_for_component(name))
    }

    fn send(&mut self, name: &str, mut line: Value) {
        if line.get("method").is_none() {
            let key = (name.to_owned(), line["id"].to_string());
            line["id"] = self.ids.get(&key).expect("an answer to a received request").clone();
        }
        self.peer(name).send(&line.to_string());
    }

    #[track_caller]
    fn receive(&mut self, name: &str, mut expected: Value) {
        let line = self.peer(name).line();
        let received = parse(&line);
        if expected.get("method").is_some() && expected.get("id").is_some() {
            let id =
                received.get("id").unwrap_or_else(|| panic!("{name} receives no request: {line}"));
            self.ids.insert((name.to_owned(), expected["id"].to_string()), id.clone());
            expected["id"] = id.clone();
        }
        assert_eq!(received, expected, "{name}");
    }
}

fn new_setup() -> TestChainBuilder {
    TestChain::builder(env!("CARGO_BIN_EXE_conductor"))
}

/// `fiedler sparkle-acp agent-acp`, and `conductor agent sparkle-acp claude-code-acp`. In these documents the
/// protocol version is a string, which is accepted only in a chain that is pinned to their generation.
fn start_with_sparkle() -> Conversation {
    Conversation::new(new_setup().option(&["--dialect", "1=P2"]).run_agent(&["sparkle", "agent"]))
}

// S/ACP. Checklist 9, 14, 18, 26, 32, 33, 40.

/// Scenario 1: Sparkle answers `initialize` itself and does not mention its role. The conductor initializes the
/// agent.
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

/// Scenario 3: later prompts pass.
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
fn the_scenarios_of_s_acp_work() {
    let mut conversation = start_with_sparkle();
    conversation.run(S_ACP_INITIALIZATION);
    conversation.run(SESSION);
    conversation.run(FIRST_PROMPT);
    conversation.run(LATER_PROMPT);
}

// P/ACP. Checklist 2, 3, 9, 14, 18, 26, 32, 33, 40.

/// Scenario 1: Sparkle initializes its successor through the conductor, and accepts its role.
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
fn the_scenarios_of_p_acp_work() {
    let mut conversation = start_with_sparkle();
    conversation.run(P_ACP_INITIALIZATION);
    conversation.run(SESSION);
    conversation.run(FIRST_PROMPT);
    conversation.run(LATER_PROMPT);
}

/// P/ACP, "MCP Message Flow Protocol": a tool call passes up the chain, and a request of the server down.
#[test]
fn mcp_messages_of_p_acp_pass_through_the_chain() {
    let mut conversation = start_with_sparkle();
    conversation.run(P_ACP_INITIALIZATION);
    conversation.run(
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

/// "Initialization of a 4-Component Proxy Chain". Params are unchanged, as in the current schema.
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

fn start_chain() -> Conversation {
    let mut conversation =
        Conversation::new(new_setup().run_agent(&["context", "filter", "agent"]));
    conversation.run(CHAIN);
    conversation
}

/// "Here's how a single message flows through the system".
#[test]
fn a_message_of_the_rfd_passes_through_the_chain() {
    start_chain().run(
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

/// "Context Proxy (with MCP server) → Filter Proxy → Agent": during a prompt the agent's tool call reaches the
/// proxy that provides the tool, through the proxy between them (checklist 90).
#[test]
fn a_tool_call_of_the_rfd_reaches_the_proxy_that_provides_the_tool() {
    start_chain().run(
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

/// "Context-Providing MCP Server with Session Notifications": the updates of the embodiment reach the client,
/// and its answer does not.
#[test]
fn updates_of_an_embodiment_in_the_rfd_reach_the_editor() {
    let mut conversation = Conversation::new(new_setup().run_agent(&["sparkle", "agent"]));
    conversation.run(
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

/// Checks the notation itself.
#[test]
#[should_panic(expected = "agent")]
fn a_script_with_an_unexpected_message_fails() {
    let mut conversation = Conversation::new(new_setup().run_agent(&["agent"]));
    let received =
        json!({"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}});
    let other =
        json!({"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":2}});
    conversation.run(&format!("editor > {received}\nagent < {other}"));
}
