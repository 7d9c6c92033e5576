//! The few shapes of ACP that a conductor reads or edits. Everything else is opaque.

use crate::json::Json;
use crate::message::{Call, Id};

/// The handshake. Inside the conductor every component is sent `initialize`; how a proxy's
/// generation spells it is its dialect's business.
pub const INITIALIZE: &str = "initialize";

/// Cancels a request by its id, which is known on one link only.
pub const CANCEL_REQUEST: &str = "$/cancel_request";

pub const PROMPT: &str = "session/prompt";

/// The requests and notifications of ACP that the core acts on, by what they do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topic {
    /// Sets a session up.
    SetUp,
    /// Ends a session.
    End,
    Prompt,
    Authenticate,
    LogOut,
    /// Stops the turn of a session.
    CancelSession,
    CancelRequest,
}

impl Topic {
    /// The topic of a method; most methods have none.
    pub fn of(method: &str) -> Option<Topic> {
        match method {
            "session/update" => None,
            "session/new" | "session/load" | "session/resume" | "session/fork" => {
                Some(Topic::SetUp)
            }
            "session/close" | "session/delete" => Some(Topic::End),
            PROMPT => Some(Topic::Prompt),
            "session/cancel" => Some(Topic::CancelSession),
            "authenticate" | "auth/login" => Some(Topic::Authenticate),
            "logout" | "auth/logout" => Some(Topic::LogOut),
            CANCEL_REQUEST => Some(Topic::CancelRequest),
            _ => None,
        }
    }
}

pub fn topic(call: &Call) -> Option<Topic> {
    Topic::of(&call.method.name())
}

/// The session that params, or a result, name.
pub fn session_of(json: &Json) -> Option<String> {
    json.member("sessionId")?.text().map(|text| text.into_owned())
}

/// The session that the params of a call name.
pub fn session_of_call(call: &Call) -> Option<String> {
    call.params.as_ref().and_then(session_of)
}

/// The highest protocol version a conductor relays. It understands neither 1 nor 2, it carries both.
pub const HIGHEST_VERSION: u16 = 2;

/// `protocolVersion` of the params or the result of `initialize`; `None` if it is not a version.
pub fn protocol_version(json: &Json) -> Option<u16> {
    let version = json.member("protocolVersion")?;
    let digits = version.as_str();
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // However large: it is lowered anyway.
    Some(digits.parse().unwrap_or(u16::MAX))
}

/// The same params, asking for another version.
pub fn with_protocol_version(params: &Json, version: u16) -> Json {
    params.with_member("protocolVersion", &Json::trusted(version.to_string()))
}

/// Does this result of `initialize` open a v2 connection? Some v1 agents echo any number, so the
/// number counts only with `info`, a field that v2 requires and v1 does not have.
pub fn speaks_v2(result: &Json) -> bool {
    protocol_version(result).is_some_and(|version| version >= 2) && result.member("info").is_some()
}

/// Which request `$/cancel_request` is about.
pub fn cancelled_id(params: &Json) -> Option<Id> {
    Id::new(params.member("requestId")?)
}

/// The same cancellation, for the id that the request has on another link.
pub fn cancel_params(params: &Json, id: &Id) -> Json {
    params.with_member("requestId", id.json())
}

/// Params of `initialize` for a component that knows ACP v1 only. What both versions have is kept;
/// what only v2 has is left out, since it would be taken for something else.
pub fn lowered_to_v1(params: &Json) -> Json {
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
        params.with_at(&["info"], None).with_at(&["clientCapabilities"], Some(&Json::EMPTY));
    match info {
        Some(info) => params.with_at(&["clientInfo"], Some(&info)),
        None => params,
    }
}
