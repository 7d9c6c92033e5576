//! Very many requests that nobody answers, and how many a client may have.

use crate::stage::*;

const URL: &str = r#"{"type":"http","name":"N","url":"acp:U","headers":[]}"#;

/// As many requests as a client may have open.
const MOST: usize = 1000;

/// A chain whose provider answers connects and `initialize`, and this many clients that have said hello.
fn clients(count: usize) -> (Stage, Vec<mcp::ClientId>) {
    let mut stage = Stage::new("p1:P4 agent", STDIO);
    stage.say("p1", &format!(r#"~session/new 1 {{"mcpServers":[{URL}]}}"#));
    stage.see("agent", "session/new ? …");
    let clients = (0..count).map(|number| {
        let client = stage.call(stage.tickets()[0]);
        stage.hear(client, "initialize 1 {}");
        let connect = stage.see("p1", "~_mcp/connect ? …");
        stage.say("p1", &format!(r#"result {connect} {{"connection_id":"V{number}"}}"#));
        let hello = stage.see("p1", "~_mcp/message ? …");
        stage.say("p1", &format!("result {hello} {{}}"));
        stage.told(client, "result 1 {}");
        client
    });
    let clients = clients.collect();
    (stage, clients)
}

#[test]
fn many_unanswered_requests_of_many_clients_are_all_answered() {
    let (mut stage, clients) = clients(2);
    for number in 0..MOST {
        for client in &clients {
            stage.hear(*client, &format!("tools/list {} {{}}", 10_000 + number));
        }
        stage.drop_all("p1");
    }
    stage.wait(24_999);
    stage.drop_all("p1");
    stage.quiet();
    stage.wait(1);
    stage.drop_all("p1");
    for client in clients {
        for number in 0..MOST {
            stage.told(client, &format!("error {} …did not answer tools/list…", 10_000 + number));
        }
    }
    stage.quiet();
}

/// A client has its requests answered, or takes them back, one by one.
#[test]
fn many_requests_end_one_by_one() {
    let (mut stage, clients) = clients(2);
    for round in 0..2 {
        let mut asked = Vec::new();
        for number in 0..MOST {
            for client in &clients {
                stage.hear(*client, &format!("tools/list {} {{}}", 10_000 + number));
                asked.push(stage.see("p1", "~_mcp/message ? …"));
            }
        }
        if round == 0 {
            for id in asked {
                stage.say("p1", &format!("result {id} {{}}"));
            }
            for client in &clients {
                for number in 0..MOST {
                    stage.told(*client, &format!("result {} {{}}", 10_000 + number));
                }
            }
        } else {
            for client in &clients {
                for number in 0..MOST {
                    let id = 10_000 + number;
                    stage
                        .hear(*client, &format!(r#"notifications/cancelled {{"requestId":{id}}}"#));
                }
                stage.drop_all("p1");
            }
        }
        stage.quiet();
    }
}

#[test]
fn a_client_may_have_so_many_requests_open_and_no_more() {
    let (mut stage, clients) = clients(2);
    let client = clients[0];
    for number in 0..MOST {
        stage.hear(client, &format!("tools/list {} {{}}", 10_000 + number));
    }
    stage.drop_all("p1");
    for method in ["ping", "tools/list"] {
        stage.hear(client, &format!("{method} 7 {{}}"));
        stage.told(
            client,
            r#"error 7 {"code":-32603,"message":"1000 requests wait for the MCP server 'N'…"#,
        );
        stage.quiet();
    }
    // Other requests, and other clients, are not concerned.
    stage.hear(client, "tools/call 8 {}");
    stage.see("p1", r#"~_mcp/message ? {…"method":"tools/call"…"#);
    stage.hear(clients[1], "tools/list 9 {}");
    stage.see("p1", r#"~_mcp/message ? {…"method":"tools/list"…"#);
    // An answer makes room for another.
    stage.hear(client, r#"notifications/cancelled {"requestId":10000}"#);
    stage.drop_all("p1");
    stage.hear(client, "tools/list 7 {}");
    stage.see("p1", r#"~_mcp/message ? {…"method":"tools/list"…"#);

    let client = clients[1];
    for number in 0..64 {
        stage.hear(client, &format!("initialize {} {{}}", 10_000 + number));
    }
    stage.hear(client, "initialize 7 {}");
    stage.told(client, "error 7 …");
}
