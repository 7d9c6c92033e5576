//! Many unanswered requests, and how many of them a client may have open.

use crate::harness::*;

const URL: &str = r#"{"type":"http","name":"N","url":"acp:U","headers":[]}"#;

/// The most requests that a client may have open.
const MOST: usize = 1000;

/// A chain whose provider answers connects and `initialize`, and this many clients after their
/// handshake.
fn clients(count: usize) -> (Harness, Vec<mcp::ClientId>) {
    let mut harness = Harness::new("p1:P4 agent", STDIO);
    harness.send_line("p1", &format!(r#"~session/new 1 {{"mcpServers":[{URL}]}}"#));
    harness.expect("agent", "session/new ? …");
    let clients = (0..count).map(|number| {
        let client = harness.connect_client(harness.tickets()[0]);
        harness.client_sends(client, "initialize 1 {}");
        let connect = harness.expect("p1", "~_mcp/connect ? …");
        harness.send_line("p1", &format!(r#"result {connect} {{"connection_id":"V{number}"}}"#));
        let initialize = harness.expect("p1", "~_mcp/message ? …");
        harness.send_line("p1", &format!("result {initialize} {{}}"));
        harness.expect_client(client, "result 1 {}");
        client
    });
    let clients = clients.collect();
    (harness, clients)
}

#[test]
fn many_unanswered_requests_of_many_clients_are_all_answered() {
    let (mut harness, clients) = clients(2);
    for number in 0..MOST {
        for client in &clients {
            harness.client_sends(*client, &format!("tools/list {} {{}}", 10_000 + number));
        }
        harness.discard_all("p1");
    }
    harness.wait(24_999);
    harness.discard_all("p1");
    harness.expect_nothing_more();
    harness.wait(1);
    harness.discard_all("p1");
    for client in clients {
        for number in 0..MOST {
            harness.expect_client(
                client,
                &format!("error {} …did not answer tools/list…", 10_000 + number),
            );
        }
    }
    harness.expect_nothing_more();
}

/// The requests of a client are answered or cancelled one by one.
#[test]
fn many_requests_can_be_answered_or_cancelled_one_by_one() {
    let (mut harness, clients) = clients(2);
    for round in 0..2 {
        let mut ids = Vec::new();
        for number in 0..MOST {
            for client in &clients {
                harness.client_sends(*client, &format!("tools/list {} {{}}", 10_000 + number));
                ids.push(harness.expect("p1", "~_mcp/message ? …"));
            }
        }
        if round == 0 {
            for id in ids {
                harness.send_line("p1", &format!("result {id} {{}}"));
            }
            for client in &clients {
                for number in 0..MOST {
                    harness.expect_client(*client, &format!("result {} {{}}", 10_000 + number));
                }
            }
        } else {
            for client in &clients {
                for number in 0..MOST {
                    let id = 10_000 + number;
                    harness.client_sends(
                        *client,
                        &format!(r#"notifications/cancelled {{"requestId":{id}}}"#),
                    );
                }
                harness.discard_all("p1");
            }
        }
        harness.expect_nothing_more();
    }
}

#[test]
fn a_client_cannot_have_more_than_1000_requests_open() {
    let (mut harness, clients) = clients(2);
    let client = clients[0];
    for number in 0..MOST {
        harness.client_sends(client, &format!("tools/list {} {{}}", 10_000 + number));
    }
    harness.discard_all("p1");
    for method in ["ping", "tools/list"] {
        harness.client_sends(client, &format!("{method} 7 {{}}"));
        harness.expect_client(
            client,
            r#"error 7 {"code":-32603,"message":"1000 requests wait for the MCP server 'N'…"#,
        );
        harness.expect_nothing_more();
    }
    // Other requests and other clients are not affected.
    harness.client_sends(client, "tools/call 8 {}");
    harness.expect("p1", r#"~_mcp/message ? {…"method":"tools/call"…"#);
    harness.client_sends(clients[1], "tools/list 9 {}");
    harness.expect("p1", r#"~_mcp/message ? {…"method":"tools/list"…"#);
    // After an answer, one more request is accepted.
    harness.client_sends(client, r#"notifications/cancelled {"requestId":10000}"#);
    harness.discard_all("p1");
    harness.client_sends(client, "tools/list 7 {}");
    harness.expect("p1", r#"~_mcp/message ? {…"method":"tools/list"…"#);

    let client = clients[1];
    for number in 0..64 {
        harness.client_sends(client, &format!("initialize {} {{}}", 10_000 + number));
    }
    harness.client_sends(client, "initialize 7 {}");
    harness.expect_client(client, "error 7 …");
}
