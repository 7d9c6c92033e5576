//! MCP requests that pass a proxy on their way to the server of another component, in every form.

use acp_proxy::prelude::*;
use acp_proxy::{Json, script};

/// Logs what it sees, refuses the tool `drop`, changes the arguments of `edit`, and the result of `see`.
fn guard() -> Proxy {
    Proxy::new("guard").strict().on_mcp_request(async |mut request, next| {
        let seen = format!(
            "{} {} {}",
            request.server().unwrap_or("?"),
            request.session().unwrap_or("?"),
            request.method()
        );
        match request.tool().as_deref() {
            Some("drop") => Err(Error::new(-32000, format!("guard: {seen}"))),
            Some("edit") => {
                let params =
                    request.params().with_at(&["arguments"], Some(&Json::trusted("{\"x\":2}")));
                request.set_params(params);
                next.run(request).await
            }
            Some("see") => {
                let result = next.run(request).await?;
                Ok(result.with_at(&["content"], Some(&Json::string(&seen))))
            }
            _ => next.run(request).await,
        }
    })
}

fn play(text: &str) {
    script::play(guard(), text);
}

fn in_session(entry: &str, rest: &str) {
    let request = format!(r#"{{"cwd":"/","mcpServers":[{entry}]}}"#);
    play(&format!(
        r#"
        editor > {{"id":1,"method":"session/new","params":{request}}}
        agent  < {{"id":1,"method":"session/new","params":{request}}}
        agent  > {{"id":1,"result":{{"sessionId":"s"}}}}
        editor < {{"id":1,"result":{{"sessionId":"s"}}}}
        {rest}"#
    ));
}

/// Protocol form M7: the answer has a member `result` or `error`.
#[test]
fn a_request_to_a_stateless_server_can_be_refused_and_changed() {
    in_session(
        r#"{"type":"acp","name":"files","serverId":"U"}"#,
        r#"
        agent  > {"id":2,"method":"mcp/message","params":{"serverId":"U","requestId":"r","method":"tools/call","params":{"name":"drop"}}}
        agent  < {"id":2,"result":{"error":{"code":-32000,"message":"guard: files s tools/call"}}}
        agent  > {"id":3,"method":"mcp/message","params":{"serverId":"U","requestId":"r","method":"tools/call","params":{"name":"edit","arguments":{"x":1},"_meta":{"a":1}}}}
        editor < {"id":9,"method":"mcp/message","params":{"serverId":"U","requestId":"r","method":"tools/call","params":{"name":"edit","arguments":{"x":2},"_meta":{"a":1}}}}
        editor > {"id":9,"result":{"error":{"code":1,"message":"no"},"other":2}}
        agent  < {"id":3,"result":{"error":{"code":1,"message":"no"},"other":2}}
        agent  > {"id":4,"method":"mcp/message","params":{"serverId":"U","requestId":"r","method":"tools/call","params":{"name":"see"}}}
        editor < {"id":9,"method":"mcp/message","params":{"serverId":"U","requestId":"r","method":"tools/call","params":{"name":"see"}}}
        editor > {"id":9,"result":{"result":{"content":[],"big":12345678901234567890},"other":2}}
        agent  < {"id":4,"result":{"result":{"content":"files s tools/call","big":12345678901234567890},"other":2}}"#,
    );
}

/// Protocol forms M2 to M6: connections.
#[test]
fn a_connection_leads_to_the_name_of_its_server() {
    for (entry, connect, id, message) in [
        (
            r#"{"type":"acp","name":"files","serverId":"U"}"#,
            r#""mcp/connect","params":{"serverId":"U"}"#,
            "connectionId",
            "mcp/message",
        ),
        (
            r#"{"type":"acp","name":"files","id":"U"}"#,
            r#""mcp/connect","params":{"acpId":"U"}"#,
            "connectionId",
            "mcp/message",
        ),
        (
            r#"{"type":"http","name":"files","url":"acp:U","headers":[]}"#,
            r#""_mcp/connect","params":{"acp_url":"acp:U"}"#,
            "connection_id",
            "_mcp/message",
        ),
        (
            r#"{"type":"http","name":"files","url":"acp:U","headers":[]}"#,
            r#""_mcp/connect","params":{"url":"acp:U","connectionId":"V"}"#,
            "none",
            "_mcp/message",
        ),
        (
            r#"{"type":"http","name":"files","url":"acp:U","headers":[]}"#,
            r#""_mcp/connect","params":{"acp_url":"acp:U"}"#,
            "connection_id",
            "_mcp/request",
        ),
    ] {
        in_session(
            entry,
            &format!(
                r#"
                agent  > {{"id":2,"method":{connect}}}
                editor < {{"id":2,"method":{connect}}}
                editor > {{"id":2,"result":{{"{id}":"V"}}}}
                agent  < {{"id":2,"result":{{"{id}":"V"}}}}
                agent  > {{"id":3,"method":"{message}","params":{{"connectionId":"V","method":"tools/call","params":{{"name":"drop"}}}}}}
                agent  < {{"id":3,"error":{{"code":-32000,"message":"guard: files s tools/call"}}}}"#
            ),
        );
    }
}

/// Protocol forms M0 and M1: a whole MCP message inside.
#[test]
fn a_whole_mcp_message_is_answered_with_one() {
    in_session(
        r#"{"type":"scp","name":"files"}"#,
        r#"
        agent  > {"id":3,"method":"_scp/mcp","params":{"name":"files","message":{"jsonrpc":"2.0","id":"m","method":"tools/call","params":{"name":"drop"}}}}
        agent  < {"id":3,"result":{"name":"files","message":{"jsonrpc":"2.0","id":"m","error":{"code":-32000,"message":"guard: files s tools/call"}}}}"#,
    );
    in_session(
        r#"{"type":"http","name":"files","url":"acp:U","headers":[]}"#,
        r#"
        agent  > {"id":3,"method":"_mcp/client_to_server/request","params":{"url":"acp:U","message":{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"see"}}}}
        editor < {"id":3,"method":"_mcp/client_to_server/request","params":{"url":"acp:U","message":{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"see"}}}}
        editor > {"id":3,"result":{"message":{"jsonrpc":"2.0","id":7,"result":{"content":[]}}}}
        agent  < {"id":3,"result":{"message":{"jsonrpc":"2.0","id":7,"result":{"content":"files s tools/call"}}}}"#,
    );
}

#[test]
fn an_unknown_server_has_no_name() {
    play(
        r#"
        agent  > {"id":2,"method":"mcp/message","params":{"serverId":"X","requestId":"r","method":"tools/call","params":{"name":"drop"}}}
        agent  < {"id":2,"result":{"error":{"code":-32000,"message":"guard: ? ? tools/call"}}}
        # Without a method it cannot be judged, so it does not pass.
        agent  > {"id":3,"method":"mcp/message","params":{"serverId":"X","requestId":"r"}}
        agent  < {"id":3,"error":{"code":-32602,"message":"guard refuses this mcp/message, because it passes on only what it can read: it has no MCP method, or names no server"}}"#,
    );
}

/// An error on the way to the server stays an error of ACP.
#[test]
fn an_error_on_the_way_is_passed_on() {
    in_session(
        r#"{"type":"acp","name":"files","serverId":"U"}"#,
        r#"
        agent  > {"id":2,"method":"mcp/message","params":{"serverId":"U","requestId":"r","method":"tools/list"}}
        editor < {"id":2,"method":"mcp/message","params":{"serverId":"U","requestId":"r","method":"tools/list"}}
        editor > {"id":2,"error":{"code":-32002,"message":"gone"}}
        agent  < {"id":2,"error":{"code":-32002,"message":"gone"}}"#,
    );
}

const TWO_SERVERS: &str = r#"{"type":"acp","name":"files","serverId":"U"},{"type":"acp","name":"harmless","serverId":"W"}"#;

/// A connection `V` to the server `files`.
const CONNECTED: &str = r#"
        agent  > {"id":2,"method":"_mcp/connect","params":{"acp_url":"acp:U"}}
        editor < {"id":2,"method":"_mcp/connect","params":{"acp_url":"acp:U"}}
        editor > {"id":2,"result":{"connectionId":"V"}}
        agent  < {"id":2,"result":{"connectionId":"V"}}"#;

/// A provider could read the message in the other form, and perform what the proxy has not seen.
#[test]
fn a_strict_proxy_refuses_a_message_with_members_of_two_forms() {
    for (method, params, member) in [
        (
            "_mcp/message",
            r#"{"connectionId":"V","method":"tools/call","params":{"name":"drop"},"message":{"method":"ping"}}"#,
            "message",
        ),
        (
            "_mcp/message",
            r#"{"connectionId":"V","method":"tools/call","params":{"name":"drop"},"serverId":"W"}"#,
            "serverId",
        ),
        (
            "mcp/message",
            r#"{"connectionId":"V","method":"tools/call","params":{"name":"drop"},"acpId":"W"}"#,
            "acpId",
        ),
        (
            "mcp/message",
            r#"{"connectionId":"V","serverId":"W","requestId":"r","method":"tools/call","params":{"name":"drop"}}"#,
            "connectionId",
        ),
        (
            "_mcp/client_to_server/request",
            r#"{"url":"acp:U","acpId":"W","message":{"id":1,"method":"tools/call","params":{"name":"drop"}}}"#,
            "acpId",
        ),
        ("_mcp/connect", r#"{"acp_url":"acp:W","url":"acp:U"}"#, "url"),
    ] {
        in_session(
            TWO_SERVERS,
            &format!(
                r#"{CONNECTED}
                agent  > {{"id":3,"method":"{method}","params":{params}}}
                agent  < {{"id":3,"error":{{"code":-32602,"message":"guard refuses this {method}, because it passes on only what it can read: its member \"{member}\" belongs to another form of MCP over ACP"}}}}"#
            ),
        );
    }
}

/// The method of the message alone says how Conductor reads it.
#[test]
fn a_message_is_read_in_the_form_of_its_method() {
    let deny = Proxy::new("lenient").on_mcp_request(async |request, next| {
        match request.tool().as_deref() {
            Some("drop") => Err(Error::new(-32000, format!("{:?}", request.server()))),
            _ => next.run(request).await,
        }
    });
    script::play(
        deny,
        &format!(
            r#"
            editor > {{"id":1,"method":"session/new","params":{{"cwd":"/","mcpServers":[{TWO_SERVERS}]}}}}
            agent  < {{"id":1,"method":"session/new","params":{{"cwd":"/","mcpServers":[{TWO_SERVERS}]}}}}
            agent  > {{"id":1,"result":{{"sessionId":"s"}}}}
            editor < {{"id":1,"result":{{"sessionId":"s"}}}}
            {CONNECTED}
            agent  > {{"id":3,"method":"_mcp/message","params":{{"connectionId":"V","method":"tools/call","params":{{"name":"drop"}},"serverId":"W","message":{{"method":"ping"}}}}}}
            agent  < {{"id":3,"error":{{"code":-32000,"message":"Some(\"files\")"}}}}"#
        ),
    );
}

/// Conductor delivers these to the server as well.
#[test]
fn requests_with_unusual_methods_are_seen() {
    in_session(
        TWO_SERVERS,
        &format!(
            r#"{CONNECTED}
            agent  > {{"id":3,"method":"_mcp/notification","params":{{"connectionId":"V","method":"tools/call","params":{{"name":"drop"}}}}}}
            agent  < {{"id":3,"error":{{"code":-32000,"message":"guard: files s tools/call"}}}}
            agent  > {{"id":4,"method":"_mcp/server_to_client/request","params":{{"url":"acp:U","message":{{"id":7,"method":"tools/call","params":{{"name":"drop"}}}}}}}}
            agent  < {{"id":4,"result":{{"message":{{"jsonrpc":"2.0","id":7,"error":{{"code":-32000,"message":"guard: files s tools/call"}}}}}}}}"#
        ),
    );
}

#[test]
fn a_strict_proxy_drops_a_notification_that_carries_an_mcp_request() {
    in_session(
        TWO_SERVERS,
        &format!(
            r#"{CONNECTED}
            agent  > {{"method":"_mcp/message","params":{{"connectionId":"V","method":"tools/call","params":{{"name":"drop"}}}}}}
            agent  > {{"method":"_mcp/client_to_server/notification","params":{{"url":"acp:U","message":{{"id":5,"method":"notifications/x"}}}}}}
            agent  > {{"method":"_mcp/message","params":{{"connectionId":"V","method":"notifications/x","serverId":"W"}}}}
            agent  > {{"method":"_mcp/message","params":{{"connectionId":"V","method":"notifications/initialized"}}}}
            editor < {{"method":"_mcp/message","params":{{"connectionId":"V","method":"notifications/initialized"}}}}"#
        ),
    );
}

/// An agent chooses the id of a connection in form M3t.
#[test]
fn an_id_that_is_used_again_does_not_lead_to_the_old_server() {
    in_session(
        TWO_SERVERS,
        r#"
        agent  > {"id":2,"method":"_mcp/connect","params":{"connectionId":"V","url":"acp:W"}}
        editor < {"id":2,"method":"_mcp/connect","params":{"connectionId":"V","url":"acp:W"}}
        # The id can be used before the answer.
        agent  > {"id":3,"method":"_mcp/message","params":{"connectionId":"V","method":"tools/call","params":{"name":"drop"}}}
        agent  < {"id":3,"error":{"code":-32000,"message":"guard: harmless s tools/call"}}
        editor > {"id":2,"result":{}}
        agent  < {"id":2,"result":{}}
        # It is in use, so it may lead to either server until the answer.
        agent  > {"id":4,"method":"_mcp/connect","params":{"connectionId":"V","url":"acp:U"}}
        editor < {"id":4,"method":"_mcp/connect","params":{"connectionId":"V","url":"acp:U"}}
        agent  > {"id":5,"method":"_mcp/message","params":{"connectionId":"V","method":"tools/call","params":{"name":"drop"}}}
        agent  < {"id":5,"error":{"code":-32000,"message":"guard: ? ? tools/call"}}
        editor > {"id":4,"result":{}}
        agent  < {"id":4,"result":{}}
        agent  > {"id":6,"method":"_mcp/message","params":{"connectionId":"V","method":"tools/call","params":{"name":"drop"}}}
        agent  < {"id":6,"error":{"code":-32000,"message":"guard: files s tools/call"}}
        agent  > {"method":"_mcp/disconnect","params":{"connectionId":"V"}}
        editor < {"method":"_mcp/disconnect","params":{"connectionId":"V"}}
        agent  > {"id":7,"method":"_mcp/message","params":{"connectionId":"V","method":"tools/call","params":{"name":"drop"}}}
        agent  < {"id":7,"error":{"code":-32000,"message":"guard: ? ? tools/call"}}"#,
    );
}

/// A message of SCP has only the name of the server.
#[test]
fn a_server_of_two_sessions_belongs_to_neither() {
    let entry = r#"{"type":"scp","name":"files"}"#;
    let call = |id: u8, seen: &str| {
        format!(
            r#"
        agent  > {{"id":{id},"method":"_scp/mcp","params":{{"name":"files","message":{{"id":1,"method":"tools/call","params":{{"name":"drop"}}}}}}}}
        agent  < {{"id":{id},"result":{{"name":"files","message":{{"jsonrpc":"2.0","id":1,"error":{{"code":-32000,"message":"guard: {seen} tools/call"}}}}}}}}"#
        )
    };
    let set_up = |answer: &str| {
        format!(
            r#"
        editor > {{"id":8,"method":"session/new","params":{{"mcpServers":[{entry}]}}}}
        agent  < {{"id":8,"method":"session/new","params":{{"mcpServers":[{entry}]}}}}
        agent  > {{"id":8,{answer}}}
        editor < {{"id":8,{answer}}}"#
        )
    };
    // A set-up request that fails declares nothing.
    play(&format!(
        "{}{}{}{}{}{}",
        set_up(r#""error":{"code":-32000,"message":"log in first"}"#),
        call(2, "? ?"),
        set_up(r#""result":{"sessionId":"a"}"#),
        call(3, "files a"),
        set_up(r#""result":{"sessionId":"b"}"#),
        call(4, "files ?"),
    ));
}
