//! Decodes messages of every form.

use super::{Form, Frame, Target, is_mcp_method, strip_acp_prefix, text, texts};
use crate::{Call, Id, Json};

/// The methods of the messages that carry an MCP message.
pub const MESSAGE_METHODS: [&str; 9] = [
    "mcp/message",
    "_mcp/message",
    "_mcp/request",
    "_mcp/notification",
    "_mcp/client_to_server/request",
    "_mcp/client_to_server/notification",
    "_mcp/server_to_client/request",
    "_mcp/server_to_client/notification",
    "_scp/mcp",
];

/// Decodes a message of any form. Returns `None` if it is another message, or if a member is
/// missing.
pub fn decode(call: &Call) -> Option<(Form, Frame)> {
    let method = call.method.name();
    if !is_mcp_method(&method) {
        return None;
    }
    let params = call.params.as_ref()?;
    let connection_id = || texts(params, &["connectionId", "connection_id"]);
    let mcp = |target| {
        let inner = params.member("params");
        let call = Call::new(&text(params, "method")?, inner);
        Some(Frame::Mcp { target, call, id: None })
    };
    let server = |key| text(params, key).map(|id| strip_acp_prefix(&id).to_owned());
    match &*method {
        "_scp/mcp" => {
            Some((Form::M0, decode_whole_message(Target::Server(text(params, "name")?), params)?))
        }
        "_mcp/client_to_server/request"
        | "_mcp/client_to_server/notification"
        | "_mcp/server_to_client/request"
        | "_mcp/server_to_client/notification" => {
            Some((Form::M1, decode_whole_message(Target::Server(server("url")?), params)?))
        }
        "_mcp/connect" => {
            let known = server("acp_url").or_else(|| server("acp_id"));
            match (known, connection_id()) {
                (Some(server), _) => Some((Form::M3, Frame::Connect { server, proposed_id: None })),
                (None, proposed_id @ Some(_)) => {
                    Some((Form::M3t, Frame::Connect { server: server("url")?, proposed_id }))
                }
                (None, None) => {
                    Some((Form::M3, Frame::Connect { server: server("url")?, proposed_id: None }))
                }
            }
        }
        "mcp/connect" => [("serverId", Form::M6), ("acpId", Form::M5), ("acpUrl", Form::M4)]
            .into_iter()
            .find_map(|(key, form)| {
                Some((form, Frame::Connect { server: server(key)?, proposed_id: None }))
            }),
        "_mcp/request" | "_mcp/notification" => {
            Some((Form::M2, mcp(Target::Connection(connection_id()?))?))
        }
        "_mcp/message" => Some((Form::M3, mcp(Target::Connection(connection_id()?))?)),
        "mcp/message" => match (server("serverId"), text(params, "requestId"), connection_id()) {
            (Some(server), Some(request_id), _) => {
                Some((Form::M7, mcp(Target::Operation { server, request_id })?))
            }
            (_, _, connection_id) => Some((Form::M6, mcp(Target::Connection(connection_id?))?)),
        },
        "_mcp/disconnect" => {
            Some((Form::M3, Frame::Disconnect { connection_id: connection_id()? }))
        }
        "mcp/disconnect" => Some((Form::M6, Frame::Disconnect { connection_id: connection_id()? })),
        _ => None,
    }
}

/// Describes what is wrong with a consumer's `mcp/message` of form M7. Returns `None` if it is
/// valid, or belongs to a connection.
pub fn validation_error(call: &Call) -> Option<&'static str> {
    if !call.is("mcp/message") {
        return None;
    }
    let Some(params) = call.params.as_ref().filter(|it| it.is_object()) else {
        return Some("params must be an object");
    };
    let stateless = params.member("serverId").is_some() || params.member("requestId").is_some();
    if texts(params, &["connectionId", "connection_id"]).is_some() && !stateless {
        return None;
    }
    let inner = params.member("params");
    match (text(params, "serverId"), text(params, "requestId"), text(params, "method")) {
        (None, ..) => Some("serverId must be a string"),
        (_, None, _) => Some("requestId must be a string"),
        (_, _, None) => Some("method must be a string"),
        _ if inner.is_some_and(|it| !it.is_object() && !it.is_null()) => {
            Some("the inner params must be an object")
        }
        _ => None,
    }
}

/// Decodes a message that contains a whole MCP message.
fn decode_whole_message(target: Target, params: &Json) -> Option<Frame> {
    let message = params.member("message")?;
    let call = Call::new(&text(&message, "method")?, message.member("params"));
    Some(Frame::Mcp { target, call, id: message.member("id").and_then(Id::new) })
}
