//! Why a request failed.

use std::fmt;

use acp_wire::message::error_object;
use acp_wire::{Json, Outcome, code};

/// A JSON-RPC error. One that came from a peer keeps what it said, byte for byte.
#[derive(Clone, PartialEq)]
pub struct Error(Json);

pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub fn new(code: i64, message: impl AsRef<str>) -> Error {
        Error(error_object(code, message.as_ref(), None))
    }

    /// With something for programs to read.
    pub fn with_data(code: i64, message: impl AsRef<str>, data: &impl serde::Serialize) -> Error {
        let data = crate::typed::to_json(data).ok();
        Error(error_object(code, message.as_ref(), data.as_ref()))
    }

    pub fn invalid_params(message: impl AsRef<str>) -> Error {
        Error::new(code::INVALID_PARAMS, message)
    }

    pub fn internal(message: impl AsRef<str>) -> Error {
        Error::new(code::INTERNAL_ERROR, message)
    }

    pub fn method_not_found(method: &str) -> Error {
        Error::new(code::METHOD_NOT_FOUND, format!("method not found: {method}"))
    }

    pub fn code(&self) -> Option<i64> {
        self.0.member("code")?.integer()
    }

    pub fn message(&self) -> String {
        let message = self.0.member("message");
        message.and_then(|it| it.text().map(|it| it.into_owned())).unwrap_or_default()
    }

    pub(crate) fn from_json(json: Json) -> Error {
        Error(json)
    }

    pub(crate) fn json(&self) -> &Json {
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

/// So that `?` works on whatever goes wrong in a handler. (That is why `Error` itself is no
/// `std::error::Error`.)
impl<E: std::error::Error> From<E> for Error {
    fn from(error: E) -> Error {
        Error::internal(error.to_string())
    }
}

pub(crate) fn outcome(result: Result<Json>) -> Outcome {
    match result {
        Ok(json) => Outcome::Result(json),
        Err(error) => error.into_outcome(),
    }
}
