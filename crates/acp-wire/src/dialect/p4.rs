//! P4: the same messages as P5, with an underscore before the methods because they were not standard yet.
//!
//! ```json
//! {"jsonrpc":"2.0","id":"c","method":"_proxy/initialize","params":{"protocolVersion":1}}
//! {"jsonrpc":"2.0","id":1,"method":"_proxy/successor","params":{"method":"initialize","params":{"protocolVersion":1}}}
//! {"jsonrpc":"2.0","method":"_proxy/successor","params":{"method":"session/cancel","params":null}}
//! ```
//!
//! Older programs (P4a) call the envelope's metadata `meta`, newer ones (P4b) `_meta`. The metadata is not
//! forwarded. Some programs exit on an envelope without `params`, so it is always written.

use super::generation::{GenerationTable, Greeting};
use super::updates::SCHEMA_0_6;

pub(crate) static P4: GenerationTable = GenerationTable {
    name: "P4",
    about: "sacp 3 to 11, agent-client-protocol 0.11 to 3.6",
    greeting: Greeting::Underscore,
    offer: &[],
    acceptance: &[],
    sends: ["_proxy/successor"; 2],
    receives: ["_proxy/successor"; 2],
    wrapped: false,
    no_params: Some(b"null"),
    must_accept: false,
    any_version: false,
    mcp_path: &["agentCapabilities", "_meta", "symposium", "mcp_acp_transport"],
    updates: Some(&SCHEMA_0_6),
};
