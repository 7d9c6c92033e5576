//! The error that handlers return.

use std::fmt;

use acp_wire::message::error_object;
use acp_wire::{Json, Outcome, code};

/// A JSON-RPC error: a code, a message, and optional data.
///
/// `?` converts every standard error, `anyhow::Error`, `Box<dyn std::error::Error>` and plain text into an
/// internal error (-32603) whose message has the whole chain of causes. An error that came from the editor or
/// the agent keeps every byte when a handler returns it.
///
/// ```
/// use acp_proxy::{Error, Result};
///
/// fn limit(text: &str) -> Result<u32> {
///     let limit: u32 = text.parse()?; // a standard error
///     if limit == 0 {
///         return Err(Error::invalid_params("the limit must not be 0"));
///     }
///     Ok(limit)
/// }
///
/// assert_eq!(limit("x").unwrap_err().code(), Some(-32603));
/// assert_eq!(limit("0").unwrap_err().message(), "the limit must not be 0");
/// ```
///
/// `Error` does not implement [`std::error::Error`], because `?` could not convert every standard error then. In a
/// function that returns `anyhow::Result`, write `.map_err(anyhow::Error::msg)?`.
#[derive(Clone, PartialEq)]
pub struct Error(Json);

/// The result of a handler.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error with this JSON-RPC code.
    pub fn new(code: i64, message: impl AsRef<str>) -> Error {
        Error(error_object(code, message.as_ref(), None))
    }

    /// An error with this JSON-RPC code, and data for programs to read.
    pub fn with_data(code: i64, message: impl AsRef<str>, data: &impl serde::Serialize) -> Error {
        let data = crate::typed::to_json(data).ok();
        Error(error_object(code, message.as_ref(), data.as_ref()))
    }

    /// Invalid params (-32602): the request is wrong.
    pub fn invalid_params(message: impl AsRef<str>) -> Error {
        Error::new(code::INVALID_PARAMS, message)
    }

    /// Internal error (-32603): this component failed.
    pub fn internal(message: impl AsRef<str>) -> Error {
        Error::new(code::INTERNAL_ERROR, message)
    }

    /// Method not found (-32601).
    pub fn method_not_found(method: &str) -> Error {
        Error::new(code::METHOD_NOT_FOUND, format!("method not found: {method}"))
    }

    /// The JSON-RPC code. `None` if a peer sent an error without one.
    pub fn code(&self) -> Option<i64> {
        self.0.member("code")?.integer()
    }

    /// The message. Empty if a peer sent an error without one.
    pub fn message(&self) -> String {
        let message = self.0.member("message");
        message.and_then(|it| it.text().map(|it| it.into_owned())).unwrap_or_default()
    }

    /// An error from a whole error object, as [`json`](Error::json) returns it.
    pub fn from_json(json: Json) -> Error {
        Error(json)
    }

    /// The whole error object: `code`, `message`, and everything else that a peer has sent.
    pub fn json(&self) -> &Json {
        &self.0
    }

    pub(crate) fn into_outcome(self) -> Outcome {
        Outcome::Error(self.0)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({})", self.0)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message())
    }
}

impl<E: Into<Box<dyn std::error::Error>>> From<E> for Error {
    fn from(error: E) -> Error {
        let error = error.into();
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            // Some errors already repeat their cause.
            if !text.contains(&cause_text) {
                text = format!("{text}: {cause_text}");
            }
            source = cause.source();
        }
        Error::internal(text)
    }
}

pub(crate) fn outcome(result: Result<Json>) -> Outcome {
    match result {
        Ok(json) => Outcome::Result(json),
        Err(error) => error.into_outcome(),
    }
}
