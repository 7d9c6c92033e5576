//! P2: the walk-throughs of S/ACP and P/ACP. The inner message is the member `message`.
//!
//! ```json
//! {"id":"I0","method":"initialize","params":{"protocolVersion":"0.1.0","capabilities":{"_meta":{"symposium":{"version":"1.0","proxy":true}}}}}
//! {"id":"I1","method":"_proxy/successor/request","params":{"message":{"method":"initialize","params":{"protocolVersion":"0.1.0","capabilities":{}}}}}
//! {"method":"_proxy/successor/notification","params":{"message":{"method":"session/cancel","params":{"sessionId":"S1"}}}}
//! ```

use super::generation::{GenerationTable, Greeting};

pub(crate) static P2: GenerationTable = GenerationTable {
    name: "P2",
    about: "the walk-throughs of S/ACP and P/ACP",
    greeting: Greeting::Capability,
    offer: &["capabilities", "_meta", "symposium", "proxy"],
    acceptance: &["capabilities", "_meta", "symposium", "proxy"],
    sends: ["_proxy/successor/request", "_proxy/successor/notification"],
    receives: ["_proxy/successor/request", "_proxy/successor/notification"],
    wrapped: true,
    no_params: Some(b"{}"),
    must_accept: false,
    any_version: true,
    mcp_path: &["_meta", "mcp_acp_transport"],
    updates: None,
};
