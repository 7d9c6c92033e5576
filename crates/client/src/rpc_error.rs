//! The JSON-RPC errors that a client answers with.

use serde_json::{Value, json};

/// A file does not exist.
pub const RESOURCE_NOT_FOUND: i64 = -32002;
/// The agent has cancelled its request.
pub const CANCELLED: i64 = -32800;

/// An error about the parameters of a request.
pub fn invalid_params(message: &str) -> Value {
    json!({ "code": -32602, "message": message })
}

/// An error when performing a request.
pub fn internal(message: &str) -> Value {
    json!({ "code": -32603, "message": message })
}

/// The method is unknown.
pub fn method_not_found(method: &str) -> Value {
    json!({ "code": -32601, "message": format!("method not found: {method}") })
}

/// The request was cancelled with `$/cancel_request`.
pub fn cancelled() -> Value {
    json!({ "code": CANCELLED, "message": "the request was cancelled" })
}
