//! Runs one conversation through every pair of protocol generations. The editor and the agent must see no
//! difference.
//!
//! Checklist 22, and with it 32–37, 40, 42, 49, 50, 52, 57, 58 in every generation.

use acp_proxy_core::{Driver, Proxy};
use acp_wire::dialect::Generation;
use bytes::Bytes;
use engine::{Facts, LinkId, Output, Setup};
use router::{Chain, Component, Mode, Seat, Time};
use testkit::shell::{Effect, Shell, setup};
use testkit::{diff, notation};

/// The messages that the editor and the agent send and receive, with two pass-through proxies between them.
/// The conductor's ids are numbered. Each request gets one id on each link, so the editor's first request
/// has the id `#3` at the agent.
const CONVERSATION: &str = r##"
    # Initialization. The editor's params stay; nothing of the proxies' roles is visible.
    editor > initialize 0 {"protocolVersion":1,"clientCapabilities":{"fs":{ "readTextFile":true}},"clientInfo":{"name":"e"},"_meta":{"symposium":{"version":"1.0","html_panel":true},"traceparent":"00-ab-cd-01"}}
    agent < initialize #3 {"protocolVersion":1,"clientCapabilities":{"fs":{ "readTextFile":true}},"clientInfo":{"name":"e"},"_meta":{"symposium":{"version":"1.0","html_panel":true},"traceparent":"00-ab-cd-01"}}
    agent > result #3 {"protocolVersion":1,"agentCapabilities":{"loadSession":true},"authMethods":[],"_meta":{"n":1.10}}
    editor < result 0 {"protocolVersion":1,"agentCapabilities":{"loadSession":true},"authMethods":[],"_meta":{"n":1.10}}

    # A session with an MCP server.
    editor > session/new 1 {"cwd":"/","mcpServers":[{"type":"http","name":"t","url":"acp:u","headers":[]}]}
    agent < session/new #6 {"cwd":"/","mcpServers":[{"type":"http","name":"t","url":"acp:u","headers":[]}]}
    agent > result #6 {"sessionId":"s"}
    editor < result 1 {"sessionId":"s"}

    # A prompt, updates, and requests of the agent under ids that the editor uses, too.
    editor > session/prompt "1" {"sessionId":"s","prompt":[{"type":"text","text":"hi\u0021"}],"_meta":{"traceparent":"00-ab-cd-01","tracestate":"x=1","baggage":""}}
    agent < session/prompt #9 {"sessionId":"s","prompt":[{"type":"text","text":"hi\u0021"}],"_meta":{"traceparent":"00-ab-cd-01","tracestate":"x=1","baggage":""}}
    agent > session/update {"sessionId":"s","update":{"n":[1.10,1e400,123456789012345678901234567890,-0.0]}}
    editor < session/update {"sessionId":"s","update":{"n":[1.10,1e400,123456789012345678901234567890,-0.0]}}
    agent > session/request_permission 1 {"sessionId":"s","options":[ ]}
    editor < session/request_permission #12 {"sessionId":"s","options":[ ]}
    agent > fs/read_text_file "1" {"sessionId":"s","path":"/a"}
    editor < fs/read_text_file #15 {"sessionId":"s","path":"/a"}
    editor > error #15 {"code":7,"message":"m","data":null,"more":{"n":1.10}}
    agent < error "1" {"code":7,"message":"m","data":null,"more":{"n":1.10}}
    editor > result #12 {"outcome":{"outcome":"selected"},"_meta":{"traceparent":"00-ab-cd-02"}}
    agent < result 1 {"outcome":{"outcome":"selected"},"_meta":{"traceparent":"00-ab-cd-02"}}
    agent > session/update {"sessionId":"s","update":{}}
    editor < session/update {"sessionId":"s","update":{}}
    agent > result #9 null
    editor < result "1" null

    # Cancellations from both sides. The answers still arrive.
    editor > session/prompt 2 {"sessionId":"s"}
    agent < session/prompt #18 {"sessionId":"s"}
    editor > $/cancel_request {"requestId":2,"_meta":{"why":1.10}}
    agent < $/cancel_request {"requestId":"#18","_meta":{"why":1.10}}
    agent > error #18 {"code":-32800,"message":"cancelled"}
    editor < error 2 {"code":-32800,"message":"cancelled"}
    agent > terminal/wait_for_exit 2 {"sessionId":"s"}
    editor < terminal/wait_for_exit #21 {"sessionId":"s"}
    agent > $/cancel_request {"requestId":2}
    editor < $/cancel_request {"requestId":"#21"}
    editor > result #21 {}
    agent < result 2 {}
    editor > session/cancel {"sessionId":"s"}
    agent < session/cancel {"sessionId":"s"}

    # Unknown methods with arbitrary payloads.
    editor > _x/y 3 [1.10,{"method":"proxy/successor"}]
    agent < _x/y #24 [1.10,{"method":"proxy/successor"}]
    agent > result #24 {"result":{"error":1e400}}
    editor < result 3 {"result":{"error":1e400}}
    agent > x/y {"message":{"method":"z"},"method":"z","params":3}
    editor < x/y {"message":{"method":"z"},"method":"z","params":3}
    editor > {"jsonrpc":"2.0","id":4,"method":"m","params":{},"extra": [1.10]}
    agent < {"jsonrpc":"2.0","id":"#27","method":"m","params":{},"extra": [1.10]}
    agent > {"jsonrpc":"2.0","id":"#27","result":{},"extra": [1.10]}
    editor < {"jsonrpc":"2.0","id":4,"result":{},"extra": [1.10]}

    # MCP over ACP in several generations. The router treats these like any messages.
    agent > mcp/message 5 {"serverId":"u","requestId":"r","method":"tools/call","params":{"name":"x","_meta":{}}}
    editor < mcp/message #30 {"serverId":"u","requestId":"r","method":"tools/call","params":{"name":"x","_meta":{}}}
    editor > mcp/message {"serverId":"u","requestId":"r","method":"notifications/progress","params":{"progress":1.10}}
    agent < mcp/message {"serverId":"u","requestId":"r","method":"notifications/progress","params":{"progress":1.10}}
    editor > result #30 {"error":{"code":-32000,"message":"not ours"}}
    agent < result 5 {"error":{"code":-32000,"message":"not ours"}}
    agent > _mcp/connect 6 {"acp_url":"acp:u"}
    editor < _mcp/connect #33 {"acp_url":"acp:u"}
    editor > result #33 {"connection_id":"v"}
    agent < result 6 {"connection_id":"v"}
    agent > _mcp/request 7 {"connectionId":"v","method":"tools/list","params":{}}
    editor < _mcp/request #36 {"connectionId":"v","method":"tools/list","params":{}}
    editor > result #36 {"tools":[]}
    agent < result 7 {"tools":[]}
    agent > _mcp/client_to_server/request 8 {"url":"acp:u","message":{"jsonrpc":"2.0","id":"m1","method":"tools/list"}}
    editor < _mcp/client_to_server/request #39 {"url":"acp:u","message":{"jsonrpc":"2.0","id":"m1","method":"tools/list"}}
    editor > result #39 {"message":{"jsonrpc":"2.0","id":"m1","result":{"tools":[]}}}
    agent < result 8 {"message":{"jsonrpc":"2.0","id":"m1","result":{"tools":[]}}}
    editor > _mcp/server_to_client/notification {"url":"acp:u","message":{"jsonrpc":"2.0","method":"notifications/progress","params":{}}}
    agent < _mcp/server_to_client/notification {"url":"acp:u","message":{"jsonrpc":"2.0","method":"notifications/progress","params":{}}}
    agent > _mcp/disconnect {"connection_id":"v"}
    editor < _mcp/disconnect {"connection_id":"v"}
"##;

/// Messages without params. The documents of the two oldest generations know only messages with params, so
/// these generations are left out.
const WITHOUT_PARAMS: &str = r##"
    editor > _x/down
    agent < _x/down
    agent > _x/up
    editor < _x/up
    editor > _x/ask 9
    agent < _x/ask #42
    agent > result #42 []
    editor < result 9 []
"##;

const NAMES: [&str; 6] = ["P1", "P2", "P3", "P3t", "P4", "P5"];

#[test]
fn every_pair_of_generations_gives_the_same_conversation() {
    for first in NAMES {
        for second in NAMES {
            let old = ["P1", "P2"];
            let allows_missing_params = !old.contains(&first) && !old.contains(&second);
            let script = if allows_missing_params {
                format!("{CONVERSATION}{WITHOUT_PARAMS}")
            } else {
                CONVERSATION.into()
            };
            play([first, second], &script);
        }
    }
}

/// Forwards everything.
struct Transparent;
impl Proxy for Transparent {}

const EDITOR: Seat = Seat(0);
const AGENT: Seat = Seat(3);

/// A conductor with two proxies, and a log of what the editor and the agent send and receive.
struct TestRun {
    shell: Shell,
    proxies: [Driver<Transparent>; 2],
    log: Vec<String>,
}

#[track_caller]
fn play(names: [&str; 2], script: &str) {
    let facts =
        names.map(|name| Facts { generation: Generation::from_name(name), ..Facts::default() });
    let mut run = TestRun {
        shell: Shell::new(Setup { facts: facts.into(), ..setup(chain()) }),
        proxies: [Driver::new(Transparent), Driver::new(Transparent)],
        log: Vec::new(),
    };
    let lines: Vec<String> = script
        .lines()
        .map(|line| line.trim().to_owned())
        .filter(|line| !line.is_empty() && !line.starts_with("# "))
        .collect();
    for line in &lines {
        if let Some((who, what)) = line.split_once(" > ") {
            run.log.push(line.clone());
            let from = if who == "editor" { EDITOR } else { AGENT };
            run.send(from, notation::line(what, 0));
        }
    }
    let same = |line: &String, heard: &String| line == heard;
    if let Some(diff) = diff::diff(&lines, &run.log, same, Clone::clone) {
        panic!("through {names:?} the conversation differs (- expected, + actual):\n{diff}");
    }
}

fn chain() -> Chain {
    let component = |name: &str| Component::new(name, name);
    Chain {
        mode: Mode::Agent,
        components: ["first", "second", "agent"].map(component).to_vec(),
        order: Chain::first_order(3),
        initialize_timeout: 60_000,
        grace: 2_000,
        any_version: false,
    }
}

impl TestRun {
    /// Sends a line from `from`, then delivers the lines that the proxies send in response, until there are
    /// none.
    fn send(&mut self, from: Seat, line: Bytes) {
        let mut queue = vec![(from, line)];
        while !queue.is_empty() {
            let (from, line) = queue.remove(0);
            for effect in self.shell.line(Time(0), from, line) {
                match effect {
                    Effect::Line { to: LinkId { seat: Seat(proxy @ (1 | 2)), .. }, line } => {
                        let mut lines = Vec::new();
                        self.proxies[usize::from(proxy) - 1].handle(&line, &mut lines);
                        let lines = lines.split(|&byte| byte == b'\n').filter(|it| !it.is_empty());
                        queue.extend(lines.map(|it| (Seat(proxy), Bytes::copy_from_slice(it))));
                    }
                    Effect::Line { to, line } => {
                        let who = if to.seat == EDITOR { "editor" } else { "agent" };
                        self.log.push(format!("{who} < {}", notation::text(&line, 0)));
                    }
                    Effect::Output(Output::Start { .. }) => {}
                    Effect::Output(other) => self.log.push(format!("{other:?}")),
                }
            }
        }
    }
}
