//! Conversion between the two kinds of MCP: connections that begin with `initialize`, and
//! *stateless* MCP (version 2026-07-28), whose requests are self-contained. Form M7 carries
//! stateless MCP.

use acp_wire::message::error_object;
use acp_wire::{Call, Json, Outcome, code};

pub(crate) const INITIALIZE: &str = "initialize";
pub(crate) const INITIALIZED: &str = "notifications/initialized";
pub(crate) const CANCELLED: &str = "notifications/cancelled";
pub(crate) const PROGRESS: &str = "notifications/progress";
pub(crate) const DISCOVER: &str = "server/discover";
pub(crate) const PING: &str = "ping";

/// The MCP version that M7 carries.
const STATELESS_VERSION: &str = "2026-07-28";
/// The last MCP version with connections.
const LAST_CONNECTION_VERSION: &str = "2025-11-25";

const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const META_INFO: &str = "io.modelcontextprotocol/clientInfo";

fn complete() -> Json {
    Json::string("complete")
}

fn params_of(call: &Call) -> Json {
    call.params.clone().filter(Json::is_object).unwrap_or(Json::EMPTY_OBJECT)
}

/// What a client declares about itself in its `initialize`.
#[derive(Debug, Clone)]
pub(crate) struct ClientInfo {
    version: Option<Json>,
    capabilities: Json,
    info: Option<Json>,
}

impl ClientInfo {
    /// A client that has not sent `initialize`.
    pub(crate) fn unknown() -> ClientInfo {
        ClientInfo { version: None, capabilities: Json::EMPTY_OBJECT, info: None }
    }

    /// Reads the params of `initialize`.
    pub(crate) fn of(initialize: &Call) -> ClientInfo {
        let params = params_of(initialize);
        ClientInfo {
            version: params.member("protocolVersion").map(|json| json.detached()),
            capabilities: params
                .member("capabilities")
                .filter(Json::is_object)
                .map_or(Json::EMPTY_OBJECT, |json| json.detached()),
            info: params.member("clientInfo").map(|json| json.detached()),
        }
    }

    /// Whether the client supports this request of a server.
    fn supports(&self, method: &str) -> bool {
        let capability = match method {
            "sampling/createMessage" => "sampling",
            "elicitation/create" => "elicitation",
            "roots/list" => "roots",
            _ => return false,
        };
        self.capabilities.member(capability).is_some()
    }
}

/// Whether a request is self-contained, as stateless MCP requires.
pub(crate) fn is_stateless_request(call: &Call) -> bool {
    call.params.as_ref().is_some_and(|params| params.at(&["_meta", META_VERSION]).is_some())
}

/// Makes a request of a connection self-contained: adds the version, and what the client declared.
pub(crate) fn to_stateless_request(call: &Call, client: &ClientInfo) -> Call {
    let mut params = params_of(call);
    if params.at(&["_meta", META_VERSION]).is_none() {
        params = params.with_at(&["_meta", META_VERSION], Some(&Json::string(STATELESS_VERSION)));
    }
    if params.at(&["_meta", META_CAPABILITIES]).is_none() {
        params = params.with_at(&["_meta", META_CAPABILITIES], Some(&client.capabilities));
    }
    if let Some(info) = client.info.as_ref().filter(|_| params.at(&["_meta", META_INFO]).is_none())
    {
        params = params.with_at(&["_meta", META_INFO], Some(info));
    }
    Call { params: Some(params), ..call.clone() }
}

/// Converts a stateless request for a connection: removes the members that a connection declares
/// once, in `initialize`.
pub(crate) fn to_connection_request(call: &Call) -> Call {
    let Some(mut params) = call.params.clone().filter(Json::is_object) else { return call.clone() };
    for key in [META_VERSION, META_CAPABILITIES, META_INFO] {
        params = params.with_at(&["_meta", key], None);
    }
    if params.member("_meta").is_some_and(|meta| meta.is_empty_object()) {
        params = params.with_at(&["_meta"], None);
    }
    Call { params: Some(params), ..call.clone() }
}

/// Adds the `resultType` that a stateless consumer expects.
pub(crate) fn with_result_type(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Result(result) if result.is_object() && result.member("resultType").is_none() => {
            Outcome::Result(result.with_at(&["resultType"], Some(&complete())))
        }
        outcome => outcome,
    }
}

/// The outcome of a stateless request, decoded for a consumer that uses a connection.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum StatelessOutcome {
    /// The request is answered.
    Done(Outcome),
    /// The server sends requests to the client first, and needs their answers.
    InputRequired {
        /// Each request, with its name.
        requests: Vec<(String, Call)>,
        /// The state that the client has to send back.
        state: Option<Json>,
    },
}

/// Decodes the outcome of a stateless request. A request that the client does not support is an
/// error.
pub(crate) fn read_outcome(outcome: Outcome, client: &ClientInfo) -> StatelessOutcome {
    let Outcome::Result(result) = &outcome else { return StatelessOutcome::Done(outcome) };
    let kind = result.member("resultType");
    match kind.as_ref().and_then(Json::text).as_deref() {
        Some("input_required") => {
            let requests = result.member("inputRequests").map(|json| json.members());
            let requests: Vec<(String, Call)> = requests
                .unwrap_or_default()
                .into_iter()
                .filter_map(|(name, request)| {
                    let method = request.member("method")?.text()?.into_owned();
                    let params = request.member("params").map(|json| json.detached());
                    Some((name, Call::new(&method, params)))
                })
                .collect();
            let refused =
                requests.iter().find(|(_, request)| !client.supports(&request.method.name()));
            match refused {
                Some((_, request)) => {
                    let why = format!(
                        "the MCP server needs '{}' from its client, which does not support it",
                        request.method.name()
                    );
                    StatelessOutcome::Done(Outcome::error(code::INTERNAL_ERROR, &why))
                }
                None => StatelessOutcome::InputRequired {
                    requests,
                    state: result.member("requestState").map(|json| json.detached()),
                },
            }
        }
        Some("complete") => {
            StatelessOutcome::Done(Outcome::Result(result.with_at(&["resultType"], None)))
        }
        _ => StatelessOutcome::Done(outcome),
    }
}

/// Repeats a request with the answers to the input requests of its server.
pub(crate) fn with_input_responses(
    call: &Call,
    answers: &[(String, Json)],
    state: Option<&Json>,
) -> Call {
    let answers =
        Json::object(answers.iter().map(|(name, answer)| (name.as_str(), Some(answer.clone()))));
    let params = params_of(call)
        .with_at(&["inputResponses"], Some(&answers))
        .with_at(&["requestState"], state);
    Call { params: Some(params), ..call.clone() }
}

/// The answer of a stateless server to `initialize`, made from its answer to `server/discover`. If
/// that is not known, the server is assumed to have tools.
pub(crate) fn initialize_result(
    discovered: Option<&Json>,
    client: &ClientInfo,
    name: &str,
) -> Json {
    let tools = || Json::object([("tools", Some(Json::EMPTY_OBJECT))]);
    let of = |key: &str| discovered.and_then(|result| result.member(key));
    let info = of("serverInfo")
        .or_else(|| discovered?.at(&["_meta", "io.modelcontextprotocol/serverInfo"]));
    let unnamed = || {
        let version = Json::string(env!("CARGO_PKG_VERSION"));
        Json::object([("name", Some(Json::string(name))), ("version", Some(version))])
    };
    let version = client.version.clone().filter(Json::is_string);
    Json::object([
        ("protocolVersion", Some(version.unwrap_or_else(|| Json::string(LAST_CONNECTION_VERSION)))),
        ("capabilities", Some(of("capabilities").unwrap_or_else(tools))),
        ("serverInfo", Some(info.unwrap_or_else(unnamed))),
        ("instructions", of("instructions").filter(|it| it.is_string())),
    ])
}

/// The answer of a server with connections to `server/discover`, made from its answer to
/// `initialize`.
pub(crate) fn discover_result(initialized: &Json) -> Json {
    let versions = Json::array([&Json::string(STATELESS_VERSION)]);
    let of = |key: &str| initialized.member(key);
    Json::object([
        ("resultType", Some(complete())),
        ("supportedVersions", Some(versions)),
        ("capabilities", Some(of("capabilities").unwrap_or(Json::EMPTY_OBJECT))),
        ("serverInfo", of("serverInfo")),
        ("instructions", of("instructions").filter(|it| it.is_string())),
        ("ttlMs", Some(Json::trusted("0"))),
        ("cacheScope", Some(Json::string("private"))),
    ])
}

/// An `initialize` for a server with connections, on behalf of a stateless consumer. `first` is the
/// first request of that consumer.
pub(crate) fn initialize_request(first: Option<&Call>) -> Call {
    let of = |key: &str| first?.params.as_ref()?.at(&["_meta", key]);
    let ours = || {
        let version = Json::string(env!("CARGO_PKG_VERSION"));
        Json::object([("name", Some(Json::string("conductor"))), ("version", Some(version))])
    };
    let params = Json::object([
        ("protocolVersion", Some(Json::string(LAST_CONNECTION_VERSION))),
        ("capabilities", Some(Json::EMPTY_OBJECT)),
        ("clientInfo", Some(of(META_INFO).unwrap_or_else(ours))),
    ]);
    Call::new(INITIALIZE, params)
}

/// Marks the `server/discover` of a conductor that prefers a connection. An inner conductor answers
/// it with an error if its server has connections. The outer conductor then opens a connection, so
/// that the server can send requests to its client.
const PREFERS_CONNECTION: &str = "conductor/connects";

/// A `server/discover` request that the broker itself sends. `prefers_connection` is true if the consumer has
/// connections.
pub(crate) fn discover_request(prefers_connection: bool) -> Call {
    let call = to_stateless_request(&Call::new(DISCOVER, None), &ClientInfo::unknown());
    let marked = |it: Json| it.with_at(&["_meta", PREFERS_CONNECTION], Some(&Json::TRUE));
    Call { params: call.params.map(|it| if prefers_connection { marked(it) } else { it }), ..call }
}

/// Whether this is the `server/discover` of a conductor that prefers a connection.
pub(crate) fn prefers_connection(call: &Call) -> bool {
    let params = call.params.as_ref();
    call.is(DISCOVER) && params.is_some_and(|it| it.at(&["_meta", PREFERS_CONNECTION]).is_some())
}

/// The token that identifies progress notifications about a request.
pub(crate) fn progress_token(call: &Call) -> Option<Json> {
    call.params.as_ref()?.at(&["_meta", "progressToken"]).map(|token| token.detached())
}

/// The error for a method that the server does not have.
pub(crate) fn method_not_found(method: &str) -> Json {
    let why = format!("method not found: {method}");
    error_object(code::METHOD_NOT_FOUND, &why, None)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_discover_request_can_say_that_it_prefers_a_connection() {
        assert!(super::prefers_connection(&super::discover_request(true)));
        assert!(!super::prefers_connection(&super::discover_request(false)));
        let other = super::Call { method: "tools/list".into(), ..super::discover_request(true) };
        assert!(!super::prefers_connection(&other));
    }

    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.to_owned()).unwrap()
    }

    /// Checklist 82.
    #[test]
    fn a_stateless_request_contains_what_the_client_declared() {
        let initialize = Call::new(
            INITIALIZE,
            json(
                r#"{"protocolVersion":"2025-06-18","capabilities":{"roots":{}},"clientInfo":{"name":"c"}}"#,
            ),
        );
        let client = ClientInfo::of(&initialize);
        let call = Call::new(
            "tools/call",
            json(r#"{"name":"x","arguments":{"n":1.10},"_meta":{"progressToken":7}}"#),
        );
        let alone = to_stateless_request(&call, &client);
        assert_eq!(
            alone.params.clone().unwrap().as_str(),
            r#"{"name":"x","arguments":{"n":1.10},"_meta":{"progressToken":7,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"roots":{}},"io.modelcontextprotocol/clientInfo":{"name":"c"}}}"#
        );
        assert_eq!(to_connection_request(&alone), call);
        assert_eq!(
            to_stateless_request(&alone, &ClientInfo::unknown()),
            alone,
            "a stateless request stays unchanged"
        );
        let bare = Call::new("tools/list", None);
        assert_eq!(
            to_connection_request(&to_stateless_request(&bare, &client)).params.unwrap().as_str(),
            "{}"
        );
    }

    #[test]
    fn input_requests_of_a_server_are_decoded_and_answered() {
        let outcome = Outcome::Result(json(
            r#"{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"},"b":{"method":"sampling/createMessage","params":{"x":1}}},"requestState":"s"}"#,
        ));
        let able = ClientInfo {
            capabilities: json(r#"{"roots":{},"sampling":{}}"#),
            ..ClientInfo::unknown()
        };
        let StatelessOutcome::InputRequired { requests, state } =
            read_outcome(outcome.clone(), &able)
        else {
            panic!()
        };
        assert_eq!(requests[1].1, Call::new("sampling/createMessage", json(r#"{"x":1}"#)));
        let call = Call::new("tools/call", json(r#"{"name":"t"}"#));
        let retry =
            with_input_responses(&call, &[("a".into(), json(r#"{"roots":[]}"#))], state.as_ref());
        assert_eq!(
            retry.params.unwrap().as_str(),
            r#"{"name":"t","inputResponses":{"a":{"roots":[]}},"requestState":"s"}"#
        );
        let StatelessOutcome::Done(Outcome::Error(error)) =
            read_outcome(outcome, &ClientInfo::unknown())
        else {
            panic!()
        };
        assert!(error.as_str().contains("roots/list"));
    }

    #[test]
    fn the_result_type_is_added_and_removed() {
        let plain = Outcome::Result(json(r#"{"content":[]}"#));
        let typed = with_result_type(plain.clone());
        assert_eq!(typed, Outcome::Result(json(r#"{"content":[],"resultType":"complete"}"#)));
        assert_eq!(read_outcome(typed, &ClientInfo::unknown()), StatelessOutcome::Done(plain));
    }

    #[test]
    fn the_results_of_discover_and_initialize_are_made_from_each_other() {
        let found = json(
            r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"prompts":{}},"serverInfo":{"name":"s","version":"1"},"instructions":"i"}"#,
        );
        let client =
            ClientInfo::of(&Call::new(INITIALIZE, json(r#"{"protocolVersion":"2025-06-18"}"#)));
        let made = initialize_result(Some(&found), &client, "n");
        assert_eq!(
            made.as_str(),
            r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"prompts":{}},"serverInfo":{"name":"s","version":"1"},"instructions":"i"}"#
        );
        let back = discover_result(&made);
        assert!(back.as_str().contains(r#""capabilities":{"tools":{},"prompts":{}},"serverInfo":{"name":"s","version":"1"},"instructions":"i""#));
        let guessed = initialize_result(None, &ClientInfo::unknown(), "n");
        assert!(
            guessed.as_str().contains(r#""capabilities":{"tools":{}},"serverInfo":{"name":"n""#),
            "{guessed}"
        );
    }
}
