//! The few methods and shapes of ACP that a conductor reads or edits. Everything else is opaque to it.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;

use crate::json::Json;
use crate::message::{Call, Id};

/// Starts the handshake. The router sends `initialize` to every component. The dialect of a proxy's link
/// translates it for the proxy's generation.
pub const INITIALIZE: &str = "initialize";

/// Cancels a request by its id. The id is valid on one link only.
pub const CANCEL_REQUEST: &str = "$/cancel_request";

/// Starts a turn of a session.
pub const PROMPT: &str = "session/prompt";

/// Reports the progress of a session.
pub const UPDATE: &str = "session/update";

/// Cancels the turn of a session.
pub const CANCEL_SESSION: &str = "session/cancel";

/// Ends a session.
pub const CLOSE_SESSION: &str = "session/close";
/// Ends a session and deletes its history.
pub const DELETE_SESSION: &str = "session/delete";

/// What a method does. Only the methods that the conductor acts on have a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MethodKind {
    /// Sets up a session.
    SetUpSession,
    /// Ends a session.
    EndSession,
    /// Starts a turn of a session.
    Prompt,
    /// Authenticates the user.
    Authenticate,
    /// Ends the authentication.
    LogOut,
    /// Cancels the turn of a session.
    CancelSession,
    /// Cancels a request.
    CancelRequest,
}

impl MethodKind {
    /// The kind of a method. `None` for a method that the conductor does not act on.
    pub fn of(method: &str) -> Option<MethodKind> {
        match method {
            UPDATE => None,
            "session/new" | "session/load" | "session/resume" | "session/fork" => {
                Some(MethodKind::SetUpSession)
            }
            CLOSE_SESSION | DELETE_SESSION => Some(MethodKind::EndSession),
            PROMPT => Some(MethodKind::Prompt),
            CANCEL_SESSION => Some(MethodKind::CancelSession),
            "authenticate" | "auth/login" => Some(MethodKind::Authenticate),
            "logout" | "auth/logout" => Some(MethodKind::LogOut),
            CANCEL_REQUEST => Some(MethodKind::CancelRequest),
            _ => None,
        }
    }
}

/// The kind of the method of a request or notification.
pub fn method_kind(call: &Call) -> Option<MethodKind> {
    MethodKind::of(&call.method.name())
}

/// The id of a session, which the agent chooses. Empty while it is not known.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionId(String);

impl SessionId {
    /// The id as a JSON string.
    pub fn json(&self) -> Json {
        Json::string(&self.0)
    }
}

impl From<&str> for SessionId {
    fn from(text: &str) -> SessionId {
        SessionId(text.to_owned())
    }
}

impl Deref for SessionId {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for SessionId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The `sessionId` member of params or a result.
pub fn session_of(json: &Json) -> Option<SessionId> {
    Some(SessionId(json.member("sessionId")?.text()?.into_owned()))
}

/// The `sessionId` member of the params of a call.
pub fn session_of_call(call: &Call) -> Option<SessionId> {
    call.params.as_ref().and_then(session_of)
}

/// The highest protocol version that a conductor relays. If the editor requests a higher one, the conductor
/// lowers it to this version.
pub const HIGHEST_VERSION: u16 = 2;

/// The `protocolVersion` member of the params or the result of `initialize`. `None` unless it is a
/// non-negative integer.
pub fn protocol_version(json: &Json) -> Option<u16> {
    let version = json.member("protocolVersion")?;
    let digits = version.as_str();
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // A version that does not fit into `u16` is higher than any supported one. The exact number does not matter.
    Some(digits.parse().unwrap_or(u16::MAX))
}

/// The params of `initialize` with another protocol version.
pub fn with_protocol_version(params: &Json, version: u16) -> Json {
    params.with_member("protocolVersion", &Json::trusted(version.to_string()))
}

/// Whether this result of `initialize` selects ACP v2. Some v1 agents echo any version number, so the number
/// counts only together with `info`, a member that v2 requires and v1 does not have.
pub fn selects_v2(result: &Json) -> bool {
    protocol_version(result).is_some_and(|version| version >= 2) && result.member("info").is_some()
}

/// The id in the params of `$/cancel_request`.
pub fn cancelled_id(params: &Json) -> Option<Id> {
    Id::new(params.member("requestId")?)
}

/// The params of `$/cancel_request` with the id that the request has on another link.
pub fn with_cancelled_id(params: &Json, id: &Id) -> Json {
    params.with_member("requestId", id.json())
}

/// The params of `initialize` for a component that knows only ACP v1. Members that both versions have are
/// kept. Members that only v2 has are removed, because v1 gives some of them another meaning.
pub fn downgraded_to_v1(params: &Json) -> Json {
    if protocol_version(params).is_none_or(|version| version <= 1) {
        return params.clone();
    }
    let params = with_protocol_version(params, 1);
    if params.member("clientCapabilities").is_some() {
        return params;
    }
    let params = params.with_at(&["capabilities"], None);
    let info = params.member("info");
    let params =
        params.with_at(&["info"], None).with_at(&["clientCapabilities"], Some(&Json::EMPTY_OBJECT));
    match info {
        Some(info) => params.with_at(&["clientInfo"], Some(&info)),
        None => params,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.to_owned()).expect("JSON")
    }

    #[test]
    fn methods_have_the_kinds_that_the_core_acts_on() {
        for (method, kind) in [
            ("session/new", Some(MethodKind::SetUpSession)),
            ("session/load", Some(MethodKind::SetUpSession)),
            ("session/resume", Some(MethodKind::SetUpSession)),
            ("session/fork", Some(MethodKind::SetUpSession)),
            ("session/close", Some(MethodKind::EndSession)),
            ("session/delete", Some(MethodKind::EndSession)),
            ("session/prompt", Some(MethodKind::Prompt)),
            ("session/cancel", Some(MethodKind::CancelSession)),
            ("authenticate", Some(MethodKind::Authenticate)),
            ("auth/login", Some(MethodKind::Authenticate)),
            ("logout", Some(MethodKind::LogOut)),
            ("auth/logout", Some(MethodKind::LogOut)),
            ("$/cancel_request", Some(MethodKind::CancelRequest)),
            ("session/update", None),
            ("session/list", None),
            ("initialize", None),
        ] {
            assert_eq!(method_kind(&Call::new(method, Json::EMPTY_OBJECT)), kind, "{method}");
        }
    }

    #[test]
    fn a_session_id_is_a_string() {
        let call = |params: &str| session_of_call(&Call::new("x", json(params)));
        assert_eq!(call(r#"{"sessionId":"s\u0031"}"#).as_deref(), Some("s1"));
        assert_eq!(call(r#"{"sessionId":1}"#), None);
        assert_eq!(call("{}"), None);
        assert_eq!(session_of(&json(r#"{"sessionId":""}"#)).as_deref(), Some(""));
    }

    /// Checklist 12, 13: a version is an integer of any size.
    #[test]
    fn only_non_negative_integers_are_versions() {
        let version =
            |value: &str| protocol_version(&json(&format!(r#"{{"protocolVersion":{value}}}"#)));
        assert_eq!([version("0"), version("1"), version("99")], [Some(0), Some(1), Some(99)]);
        assert_eq!(version("70000"), Some(u16::MAX));
        for value in ["-1", "1.0", "1e2", "null", r#""1""#, r#""0.1.0""#, "[]"] {
            assert_eq!(version(value), None, "{value}");
        }
        assert_eq!(protocol_version(&Json::EMPTY_OBJECT), None);
    }

    /// Some agents of version 1 echo any version number.
    #[test]
    fn a_v2_connection_needs_the_version_number_and_the_v2_member() {
        assert!(selects_v2(&json(r#"{"protocolVersion":2,"info":{}}"#)));
        assert!(selects_v2(&json(r#"{"protocolVersion":3,"info":{}}"#)));
        assert!(!selects_v2(&json(r#"{"protocolVersion":1,"info":{}}"#)));
        assert!(!selects_v2(&json(r#"{"protocolVersion":2}"#)));
        assert!(!selects_v2(&json(r#"{"info":{}}"#)));
    }

    #[test]
    fn the_id_of_a_cancellation_is_read_and_replaced() {
        let params = json(r#"{"requestId":7,"x": 1.10}"#);
        assert_eq!(cancelled_id(&params), Some(Id::from(7)));
        assert_eq!(cancelled_id(&json(r#"{"requestId":{}}"#)), None);
        assert_eq!(cancelled_id(&Json::EMPTY_OBJECT), None);
        let rewritten = with_cancelled_id(&params, &Id::string("c:1"));
        assert_eq!(rewritten.as_str(), r#"{"requestId":"c:1","x": 1.10}"#);
    }

    #[test]
    fn lowering_to_version_1_keeps_the_common_members() {
        for same in [r#"{"protocolVersion":1,"info":{}}"#, r#"{"protocolVersion":"0.1.0"}"#, "{}"] {
            assert_eq!(downgraded_to_v1(&json(same)), json(same));
        }
        let v2 = r#"{"protocolVersion":2,"capabilities":{"x":1},"_meta":{"t":1}}"#;
        let v1 = r#"{"protocolVersion":1,"_meta":{"t":1},"clientCapabilities":{}}"#;
        assert_eq!(downgraded_to_v1(&json(v2)).as_str(), v1);
        let both = r#"{"protocolVersion":2,"clientCapabilities":{"fs":{}},"info":{}}"#;
        assert_eq!(downgraded_to_v1(&json(both)).as_str(), both.replace(":2", ":1"));
    }
}
