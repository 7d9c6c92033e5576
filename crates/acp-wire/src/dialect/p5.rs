//! P5, the current generation: the ACP RFD "Proxy Chains" and schema 1.15.
//!
//! ```json
//! {"jsonrpc":"2.0","id":"c","method":"proxy/initialize","params":{"protocolVersion":1}}
//! {"jsonrpc":"2.0","id":1,"method":"proxy/successor","params":{"method":"initialize","params":{"protocolVersion":1}}}
//! {"jsonrpc":"2.0","method":"proxy/successor","params":{"method":"session/update","params":{},"_meta":{"this":"hop"}}}
//! ```
//!
//! An envelope with an `id` is a request. Its `_meta` belongs to this link and is not forwarded.

use super::generation::{GenerationTable, Greeting};
use super::updates::SCHEMA_1_15;

pub(crate) static P5: GenerationTable = GenerationTable {
    name: "P5",
    about: "current: the proxy-chains RFD, agent-client-protocol 5",
    greeting: Greeting::Proxy,
    offer: &[],
    acceptance: &[],
    sends: ["proxy/successor"; 2],
    receives: ["proxy/successor"; 2],
    wrapped: false,
    no_params: None,
    must_accept: false,
    any_version: false,
    mcp_path: &["agentCapabilities", "mcpCapabilities", "acp"],
    updates: Some(&SCHEMA_1_15),
};
