//! What the agent does in a recording. Parameters and answers are JSON texts.

use acp_proxy::Json;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// A message of the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Got {
    Notification {
        method: String,
        params: Option<String>,
    },
    /// A request, with its number in the session.
    Request {
        number: u32,
        method: String,
        params: Option<String>,
    },
    /// The agent no longer needs the answer to its request.
    Withdrawn {
        number: u32,
    },
    /// The answer to a request of the editor, by its number in the session: a result or an error.
    Answer {
        number: u32,
        answer: Result<String, String>,
    },
}

/// The members of a message in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Members<'a> {
    notification: Option<String>,
    request: Option<u32>,
    withdrawn: Option<u32>,
    answer: Option<u32>,
    method: Option<String>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

impl Got {
    /// Reads a message as it stands in the file.
    pub(super) fn parse(text: &str) -> Result<Got, String> {
        let members: Members<'_> = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let raw = |it: Option<&RawValue>| it.map(|it| it.get().to_owned());
        let Members { notification, request, withdrawn, answer, method, params, result, error } =
            members;
        let params = raw(params);
        match (notification, request, withdrawn, answer) {
            (Some(method), None, None, None) => Ok(Got::Notification { method, params }),
            (None, Some(number), None, None) => {
                let method = method.ok_or("a request without a method")?;
                Ok(Got::Request { number, method, params })
            }
            (None, None, Some(number), None) => Ok(Got::Withdrawn { number }),
            (None, None, None, Some(number)) => {
                let result = raw(result).unwrap_or_else(|| "null".to_owned());
                Ok(Got::Answer { number, answer: raw(error).map_or(Ok(result), Err) })
            }
            _ => Err("it is neither a notification, a request nor an answer".to_owned()),
        }
    }

    /// The message as it stands in the file.
    pub(super) fn text(&self) -> String {
        let params = |it: &Option<String>| {
            it.as_ref().map(|it| format!(",\"params\":{it}")).unwrap_or_default()
        };
        let text = |it: &String| Value::from(it.as_str());
        match self {
            Got::Notification { method, params: it } => {
                format!("{{\"notification\":{}{}}}", text(method), params(it))
            }
            Got::Request { number, method, params: it } => {
                format!("{{\"request\":{number},\"method\":{}{}}}", text(method), params(it))
            }
            Got::Withdrawn { number } => format!("{{\"withdrawn\":{number}}}"),
            Got::Answer { number, answer: Ok(it) } => {
                format!("{{\"answer\":{number},\"result\":{it}}}")
            }
            Got::Answer { number, answer: Err(it) } => {
                format!("{{\"answer\":{number},\"error\":{it}}}")
            }
        }
    }

    /// Whether the session is idle from now on, if this is an update of its state in ACP version 2.
    pub(super) fn is_idle(&self) -> Option<bool> {
        match self {
            Got::Notification { params: Some(params), .. } => is_idle(params),
            _ => None,
        }
    }
}

/// Whether a session is idle, if these are the parameters of an update of its state.
pub(super) fn is_idle(params: &str) -> Option<bool> {
    if !params.contains("state_update") {
        return None;
    }
    let params = Json::parse(params.to_owned()).ok()?;
    params.at(&["update", "sessionUpdate"]).filter(|it| it.equals_text("state_update"))?;
    Some(params.at(&["update", "state"]).is_some_and(|it| it.equals_text("idle")))
}
