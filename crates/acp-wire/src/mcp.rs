//! The forms of MCP over ACP: the versions of the protocol between a consumer and a provider.
//!
//! The *provider* owns a server: a proxy, or the editor. The *consumer* uses it: the agent, or the
//! bridge in its place. A message of the consumer travels toward the editor until it reaches the
//! provider.
//!
//! | form | connect | message | disconnect |
//! |---|---|---|---|
//! | M0 | – | `_scp/mcp {name, message}` | – |
//! | M1 | – | `_mcp/client_to_server/{request,notification} {url, message}`, `_mcp/server_to_client/…` | – |
//! | M2 | `_mcp/connect {acp_url}` → `{connection_id}` | `_mcp/{request,notification} {connectionId, method, params}` | `_mcp/disconnect {connection_id}` |
//! | M3 | as M2, or `{acp_id}` | `_mcp/message {connectionId, method, params}` | as M2 |
//! | M3t | `_mcp/connect {connectionId, url}` | as M3 | as M2 |
//! | M4 | `mcp/connect {acpUrl}` → `{connectionId}` | `mcp/message {connectionId, method, params}` | `mcp/disconnect {connectionId}`, a request |
//! | M5 | `mcp/connect {acpId}` | as M4 | as M4 |
//! | M6 | `mcp/connect {serverId}` | as M4 | as M4 |
//! | M7 | – | `mcp/message {serverId, requestId, method, params}` → `{result}` or `{error}` | – |

use crate::{Call, Id, Json, Outcome};

mod decode;
mod strict;

pub use decode::{MESSAGE_METHODS, decode, validation_error};
pub use strict::mixed_forms;

/// One version of MCP over ACP. M0 to M6 carry MCP with connections, which begin with `initialize`.
/// M7 carries single requests of stateless MCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// SCP: a whole MCP message in `_scp/mcp`, addressed by the name of the server.
    M0,
    /// A whole MCP message in `_mcp/client_to_server/…`, addressed by the URL of the server.
    M1,
    /// Connections, with separate methods for requests and notifications.
    M2,
    /// Connections, with one method for all messages.
    M3,
    /// As M3, but the consumer chooses the id of the connection.
    M3t,
    /// As M3, with methods that have no underscore: `mcp/connect {acpUrl}`.
    M4,
    /// As M4, but a server has an `acpId`.
    M5,
    /// As M4, but a server has a `serverId`.
    M6,
    /// Stateless MCP: each request names its server and itself.
    M7,
}

/// What a message is addressed to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A server (M0, M1), by its id or name.
    Server(String),
    /// A connection, by its id (M2 to M6).
    Connection(String),
    /// A request to a stateless server (M7).
    Operation {
        /// The id of the server.
        server: String,
        /// The `requestId`.
        request_id: String,
    },
}

/// A decoded message of MCP over ACP.
#[derive(Debug, Clone, PartialEq)]
pub enum Frame {
    /// Opens a connection to a server.
    Connect {
        /// The id of the server.
        server: String,
        /// The id of the connection, if the consumer chooses it (M3t).
        proposed_id: Option<String>,
    },
    /// Closes a connection.
    Disconnect {
        /// The id of the connection.
        connection_id: String,
    },
    /// Carries an MCP message.
    Mcp {
        /// What the message is addressed to.
        target: Target,
        /// The method and params of the MCP message.
        call: Call,
        /// The id that the inner message has (M0, M1).
        id: Option<Id>,
    },
}

/// The server or connection that a message names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject<'a> {
    /// A server, by its id or name.
    Server(&'a str),
    /// A connection, by its id.
    Connection(&'a str),
}

impl Frame {
    /// The server or connection that the message names.
    pub fn subject(&self) -> Subject<'_> {
        match self {
            Frame::Connect { server: it, .. }
            | Frame::Mcp { target: Target::Server(it), .. }
            | Frame::Mcp { target: Target::Operation { server: it, .. }, .. } => {
                Subject::Server(it)
            }
            Frame::Disconnect { connection_id: it }
            | Frame::Mcp { target: Target::Connection(it), .. } => Subject::Connection(it),
        }
    }
}

/// The direction of an MCP message. Only M1 encodes the two directions differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the consumer to the provider.
    ToServer,
    /// From the provider to the consumer.
    ToClient,
}

/// The addressing data of a message. Each form uses a part of it.
#[derive(Debug, Clone, Copy)]
pub struct Address<'a> {
    /// The id of the server, as its provider knows it.
    pub server: &'a str,
    /// The id of the connection (M2 to M6).
    pub connection_id: &'a str,
    /// The `requestId` (M7).
    pub request_id: &'a str,
}

/// The answer to an MCP request.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The server answered, with a result or an MCP error.
    FromServer(Outcome),
    /// The request did not reach the server. This is the ACP error.
    NotDelivered(Json),
}

const ACP: &str = "acp:";

/// Removes one leading `acp:` from a server id. Some declarations have it, and ids are compared
/// without it.
pub fn strip_acp_prefix(id: &str) -> &str {
    id.strip_prefix(ACP).unwrap_or(id)
}

/// Adds a second `acp:` to an id that begins with one, so that [`strip_acp_prefix`] returns this
/// id.
pub fn escape_acp_prefix(id: &str) -> String {
    match id.starts_with(ACP) {
        true => format!("{ACP}{id}"),
        false => id.to_owned(),
    }
}

/// The server id in a message, exactly as written there.
pub fn raw_server_id(call: &Call) -> Option<String> {
    texts(
        call.params.as_ref()?,
        &["serverId", "acpId", "acpUrl", "acp_url", "acp_id", "url", "name"],
    )
}

/// The URL of a server: `acp:` and its id.
pub fn acp_url(server: &str) -> Json {
    Json::string(&format!("{ACP}{server}"))
}

fn text(params: &Json, key: &str) -> Option<String> {
    params.member(key)?.text().map(|text| text.into_owned())
}

fn texts(params: &Json, keys: &[&str]) -> Option<String> {
    keys.iter().find_map(|key| text(params, key))
}

/// Whether a method may belong to MCP over ACP.
pub fn is_mcp_method(method: &str) -> bool {
    method.starts_with("mcp/") || method.starts_with("_mcp/") || method == "_scp/mcp"
}

/// The connection id in the answer to a connect, in any form.
pub fn connection_id_of(result: &Json) -> Option<String> {
    texts(result, &["connectionId", "connection_id"])
}

impl Form {
    /// Whether this form has a message that opens a connection.
    pub fn has_connections(self) -> bool {
        !matches!(self, Form::M0 | Form::M1 | Form::M7)
    }

    /// Whether two forms encode the messages of an open connection in the same way.
    pub fn shares_messages_with(self, other: Form) -> bool {
        let kind = |form| match form {
            Form::M3t => Form::M3,
            Form::M4 | Form::M5 => Form::M6,
            form => form,
        };
        kind(self) == kind(other)
    }

    /// Encodes the request that opens a connection. Unknown members are ignored everywhere, so M2,
    /// M3 and M3t share one encoding with the members of all three.
    pub fn encode_connect(self, server: &str, proposed_id: &str) -> Call {
        let bare = Json::string(server);
        match self {
            Form::M4 => Call::new("mcp/connect", Json::object([("acpUrl", Some(acp_url(server)))])),
            Form::M5 => Call::new("mcp/connect", Json::object([("acpId", Some(bare))])),
            Form::M6 => Call::new("mcp/connect", Json::object([("serverId", Some(bare))])),
            _ => {
                let proposed_id = (!proposed_id.is_empty()).then(|| Json::string(proposed_id));
                let members = ["acp_url", "acp_id", "url"].map(|key| (key, Some(acp_url(server))));
                let members = members.into_iter().chain([("connectionId", proposed_id)]);
                Call::new("_mcp/connect", Json::object(members))
            }
        }
    }

    /// Adds the server id to a connect under every key of M2 and M3. A component between the
    /// consumer and the provider may know only one of the keys, and drops the others when it passes
    /// the request on.
    pub fn with_all_server_keys(self, call: Call, server: &str) -> Call {
        if !matches!(self, Form::M2 | Form::M3) {
            return call;
        }
        let missing = |params: &Json, key: &str| params.member(key).is_none();
        let params = call.params.map(|params| {
            let keys = ["acp_url", "acp_id", "url"].into_iter().filter(|key| missing(&params, key));
            keys.fold(params.clone(), |it, key| it.with_at(&[key], Some(&acp_url(server))))
        });
        Call { params, ..call }
    }

    /// Encodes the result of a connect for a consumer of this form.
    pub fn encode_connect_result(self, connection_id: &str) -> Json {
        let id = || Some(Json::string(connection_id));
        match self {
            Form::M4 | Form::M5 | Form::M6 => Json::object([("connectionId", id())]),
            _ => Json::object([("connection_id", id()), ("connectionId", id())]),
        }
    }

    /// Encodes the message that closes a connection. The boolean says whether it is a request.
    pub fn encode_disconnect(self, connection_id: &str) -> (Call, bool) {
        let id = || Some(Json::string(connection_id));
        match self {
            Form::M4 | Form::M5 | Form::M6 => {
                (Call::new("mcp/disconnect", Json::object([("connectionId", id())])), true)
            }
            _ => {
                let members = [("connection_id", id()), ("connectionId", id())];
                (Call::new("_mcp/disconnect", Json::object(members)), false)
            }
        }
    }

    /// Encodes a message that carries an MCP message. `id` is the id of a request, or `None` for a
    /// notification.
    pub fn encode_message(
        self,
        direction: Direction,
        address: Address<'_>,
        id: Option<&Id>,
        call: &Call,
    ) -> Call {
        let is_request = id.is_some();
        let message = || {
            Json::object([
                ("jsonrpc", Some(Json::string("2.0"))),
                ("id", id.map(|id| id.json().clone())),
                ("method", Some(call.method.json().clone())),
                ("params", call.params.clone()),
            ])
        };
        let flat = |method: &str, target: [(&str, Option<Json>); 2]| {
            // Programs of these forms cannot read a message without params.
            let must = matches!(self, Form::M2 | Form::M3 | Form::M3t);
            let params = call.params.clone().or_else(|| must.then_some(Json::EMPTY_OBJECT));
            let inner = [("method", Some(call.method.json().clone())), ("params", params)];
            Call::new(method, Json::object(target.into_iter().chain(inner)))
        };
        let connection_id =
            || [("connectionId", Some(Json::string(address.connection_id))), ("", None)];
        match self {
            Form::M0 => {
                let name = Some(Json::string(address.server));
                Call::new("_scp/mcp", Json::object([("name", name), ("message", Some(message()))]))
            }
            Form::M1 => {
                let method = match (direction, is_request) {
                    (Direction::ToServer, true) => "_mcp/client_to_server/request",
                    (Direction::ToServer, false) => "_mcp/client_to_server/notification",
                    (Direction::ToClient, true) => "_mcp/server_to_client/request",
                    (Direction::ToClient, false) => "_mcp/server_to_client/notification",
                };
                let members =
                    [("url", Some(acp_url(address.server))), ("message", Some(message()))];
                Call::new(method, Json::object(members))
            }
            Form::M2 => {
                flat(if is_request { "_mcp/request" } else { "_mcp/notification" }, connection_id())
            }
            Form::M3 | Form::M3t => flat("_mcp/message", connection_id()),
            Form::M4 | Form::M5 | Form::M6 => flat("mcp/message", connection_id()),
            Form::M7 => flat(
                "mcp/message",
                [
                    ("serverId", Some(Json::string(address.server))),
                    ("requestId", Some(Json::string(address.request_id))),
                ],
            ),
        }
    }

    /// Whether the server answered a request with a result.
    pub fn is_success(self, outcome: &Outcome) -> bool {
        matches!(self.decode_answer(outcome.clone()), Answer::FromServer(Outcome::Result(_)))
    }

    /// Decodes the answer to a message in this form.
    pub fn decode_answer(self, outcome: Outcome) -> Answer {
        let Outcome::Result(result) = &outcome else {
            let Outcome::Error(error) = outcome else { unreachable!("an outcome is one of two") };
            return match self {
                // In these forms an MCP error is inside the result. The outer error is an ACP
                // error.
                Form::M0 | Form::M1 | Form::M7 => Answer::NotDelivered(error),
                _ => Answer::FromServer(Outcome::Error(error)),
            };
        };
        let inner = match self {
            Form::M1 => result.member("message"),
            Form::M0 => Some(result.member("message").unwrap_or_else(|| result.clone())),
            Form::M7 => Some(result.clone()),
            _ => return Answer::FromServer(outcome),
        };
        let mcp_outcome = inner.as_ref().and_then(|inner| {
            let result = inner.member("result").map(Outcome::Result);
            result.or_else(|| inner.member("error").map(Outcome::Error))
        });
        match (mcp_outcome, self) {
            (Some(mcp_outcome), _) => Answer::FromServer(mcp_outcome),
            // The answer is the MCP result itself.
            (None, Form::M0) => Answer::FromServer(outcome),
            (None, _) => {
                let why = "the provider's answer holds neither a result nor an error";
                Answer::NotDelivered(crate::message::error_object(
                    crate::code::INTERNAL_ERROR,
                    why,
                    None,
                ))
            }
        }
    }

    /// Encodes the answer to a message in this form.
    pub fn encode_answer(self, address: Address<'_>, id: Option<&Id>, answer: Answer) -> Outcome {
        let mcp_outcome = match answer {
            Answer::NotDelivered(error) => return Outcome::Error(error),
            Answer::FromServer(mcp_outcome) => mcp_outcome,
        };
        let (key, value) = match &mcp_outcome {
            Outcome::Result(value) => ("result", value.clone()),
            Outcome::Error(value) => ("error", value.clone()),
        };
        let message = || {
            let id = id.map_or(Json::NULL, |id| id.json().clone());
            let version = Json::string("2.0");
            Json::object([("jsonrpc", Some(version)), ("id", Some(id)), (key, Some(value.clone()))])
        };
        match self {
            Form::M0 => {
                let name = Some(Json::string(address.server));
                Outcome::Result(Json::object([("name", name), ("message", Some(message()))]))
            }
            Form::M1 => Outcome::Result(Json::object([("message", Some(message()))])),
            Form::M7 => Outcome::Result(Json::object([(key, Some(value))])),
            _ => mcp_outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Message;

    const ADDRESS: Address<'static> =
        Address { server: "U", connection_id: "V", request_id: "r-1" };

    fn call(line: &str) -> Call {
        match Message::parse(&line.to_owned().into()).unwrap() {
            Message::Request { call, .. } | Message::Notification(call) => call,
            Message::Response { .. } => panic!("not a call: {line}"),
        }
    }

    /// The examples of the protocol documents.
    #[test]
    fn messages_of_every_form_are_decoded() {
        let tools = || Call::new("tools/list", None);
        let mcp =
            |target, id: Option<&str>| Frame::Mcp { target, call: tools(), id: id.map(Id::string) };
        let connection_id = || Target::Connection("V".into());
        let connect = || Frame::Connect { server: "U".into(), proposed_id: None };
        for (line, form, frame) in [
            (
                r#"{"id":1,"method":"_scp/mcp","params":{"name":"U","message":{"jsonrpc":"2.0","id":"m1","method":"tools/list"}}}"#,
                Form::M0,
                mcp(Target::Server("U".into()), Some("m1")),
            ),
            (
                r#"{"id":1,"method":"_mcp/client_to_server/request","params":{"url":"acp:U","message":{"jsonrpc":"2.0","id":"m1","method":"tools/list"}}}"#,
                Form::M1,
                mcp(Target::Server("U".into()), Some("m1")),
            ),
            (
                r#"{"id":2,"method":"_mcp/connect","params":{"acp_url":"acp:U"}}"#,
                Form::M3,
                connect(),
            ),
            (
                r#"{"id":2,"method":"_mcp/connect","params":{"acp_id":"acp:U"}}"#,
                Form::M3,
                connect(),
            ),
            (
                r#"{"id":2,"method":"_mcp/connect","params":{"connectionId":"W","url":"acp:U"}}"#,
                Form::M3t,
                Frame::Connect { server: "U".into(), proposed_id: Some("W".into()) },
            ),
            (r#"{"id":2,"method":"mcp/connect","params":{"acpUrl":"acp:U"}}"#, Form::M4, connect()),
            (r#"{"id":2,"method":"mcp/connect","params":{"acpId":"U"}}"#, Form::M5, connect()),
            (r#"{"id":2,"method":"mcp/connect","params":{"serverId":"U"}}"#, Form::M6, connect()),
            (
                r#"{"id":3,"method":"_mcp/request","params":{"connectionId":"V","method":"tools/list"}}"#,
                Form::M2,
                mcp(connection_id(), None),
            ),
            (
                r#"{"id":3,"method":"_mcp/message","params":{"connectionId":"V","method":"tools/list"}}"#,
                Form::M3,
                mcp(connection_id(), None),
            ),
            (
                r#"{"id":3,"method":"mcp/message","params":{"connectionId":"V","method":"tools/list"}}"#,
                Form::M6,
                mcp(connection_id(), None),
            ),
            (
                r#"{"id":9,"method":"mcp/message","params":{"serverId":"U","requestId":"r-1","method":"tools/list"}}"#,
                Form::M7,
                mcp(Target::Operation { server: "U".into(), request_id: "r-1".into() }, None),
            ),
            (
                r#"{"method":"_mcp/disconnect","params":{"connection_id":"V"}}"#,
                Form::M3,
                Frame::Disconnect { connection_id: "V".into() },
            ),
            (
                r#"{"id":8,"method":"mcp/disconnect","params":{"connectionId":"V"}}"#,
                Form::M6,
                Frame::Disconnect { connection_id: "V".into() },
            ),
        ] {
            assert_eq!(decode(&call(line)), Some((form, frame)), "{line}");
        }
    }

    #[test]
    fn other_messages_and_incomplete_messages_are_not_decoded() {
        for line in [
            r#"{"id":1,"method":"session/new","params":{}}"#,
            r#"{"id":1,"method":"mcp/message"}"#,
            r#"{"id":1,"method":"mcp/message","params":{"serverId":"U","method":"x"}}"#,
            r#"{"id":1,"method":"mcp/connect","params":{"serverId":7}}"#,
            r#"{"id":1,"method":"_mcp/other","params":{"connectionId":"V","method":"x"}}"#,
        ] {
            assert_eq!(decode(&call(line)), None, "{line}");
        }
    }

    const ALL: [Form; 9] =
        [Form::M0, Form::M1, Form::M2, Form::M3, Form::M3t, Form::M4, Form::M5, Form::M6, Form::M7];

    #[test]
    fn a_form_decodes_what_it_encodes() {
        let inner = Call::new("tools/call", Json::trusted(r#"{"n": 1.10}"#));
        for form in ALL {
            for (direction, id) in [
                (Direction::ToServer, Some(Id::string("c:1"))),
                (Direction::ToServer, None),
                (Direction::ToClient, Some(Id::string("c:1"))),
                (Direction::ToClient, None),
            ] {
                let encoded = form.encode_message(direction, ADDRESS, id.as_ref(), &inner);
                let Some((read_as, Frame::Mcp { call, .. })) = decode(&encoded) else {
                    panic!("{form:?}: {encoded:?}")
                };
                assert!(read_as.shares_messages_with(form));
                assert_eq!(call, inner);
            }
            if form.has_connections() {
                let connect = form.encode_connect("U", "V");
                let (_, frame) = decode(&connect).unwrap();
                assert_eq!(frame, Frame::Connect { server: "U".into(), proposed_id: None });
                assert_eq!(
                    connection_id_of(&form.encode_connect_result("V")).as_deref(),
                    Some("V")
                );
                let (_, frame) = decode(&form.encode_disconnect("V").0).unwrap();
                assert_eq!(frame, Frame::Disconnect { connection_id: "V".into() });
            }
        }
    }

    #[test]
    fn mcp_errors_and_acp_errors_are_kept_apart() {
        let result = Outcome::Result(Json::trusted(r#"{"tools":[]}"#));
        let error = Outcome::Error(Json::trusted(r#"{"code":-32000,"message":"no"}"#));
        for form in ALL {
            for mcp_outcome in [&result, &error] {
                let closed =
                    form.encode_answer(ADDRESS, None, Answer::FromServer(mcp_outcome.clone()));
                assert_eq!(
                    form.decode_answer(closed),
                    Answer::FromServer(mcp_outcome.clone()),
                    "{form:?}"
                );
            }
        }
        let Outcome::Error(error) = error else { unreachable!() };
        for form in [Form::M0, Form::M1, Form::M7] {
            let failed = Outcome::Error(error.clone());
            assert_eq!(form.decode_answer(failed), Answer::NotDelivered(error.clone()), "{form:?}");
        }
    }

    #[test]
    fn an_scp_answer_may_omit_its_envelope() {
        for answer in [
            r#"{"name":"U","message":{"jsonrpc":"2.0","id":"m1","result":{"tools":[]}}}"#,
            r#"{"message":{"jsonrpc":"2.0","id":"m1","result":{"tools":[]}}}"#,
            r#"{"jsonrpc":"2.0","id":"m1","result":{"tools":[]}}"#,
            r#"{"tools":[]}"#,
        ] {
            let mcp_answer = Answer::FromServer(Outcome::Result(Json::trusted(r#"{"tools":[]}"#)));
            assert_eq!(
                Form::M0.decode_answer(Outcome::Result(Json::trusted(answer))),
                mcp_answer,
                "{answer}"
            );
        }
    }
}
