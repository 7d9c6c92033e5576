//! P1: the text of S/ACP and P/ACP, with different methods for sending and receiving.
//!
//! ```json
//! {"id":"p1","method":"_proxy/successor/send/request","params":{"message":{"method":"session/prompt","params":{}}}}
//! {"method":"_proxy/successor/send/notification","params":{"message":{"method":"session/cancel","params":{}}}}
//! {"id":"c1","method":"_proxy/successor/receive/request","params":{"message":{"method":"session/request_permission","params":{}}}}
//! {"method":"_proxy/successor/receive/notification","params":{"message":{"method":"session/update","params":{}}}}
//! ```

use super::generation::{GenerationTable, Greeting};

pub(crate) static P1: GenerationTable = GenerationTable {
    name: "P1",
    about: "the text of S/ACP and P/ACP",
    greeting: Greeting::Capability,
    offer: &["_meta", "symposium", "proxy"],
    acceptance: &["_meta", "symposium", "proxy"],
    sends: ["_proxy/successor/send/request", "_proxy/successor/send/notification"],
    receives: ["_proxy/successor/receive/request", "_proxy/successor/receive/notification"],
    wrapped: true,
    no_params: Some(b"{}"),
    must_accept: false,
    any_version: true,
    mcp_path: &["_meta", "mcp_acp_transport"],
    updates: None,
};
