//! P3: the first published generation. The role is a capability. The envelope has two methods.
//!
//! ```json
//! {"jsonrpc":"2.0","id":"c","method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"_meta":{"symposium":{"version":"1.0","proxy":true}}}}}
//! {"jsonrpc":"2.0","id":1,"method":"_proxy/successor/request","params":{"method":"initialize","params":{"protocolVersion":1}}}
//! {"jsonrpc":"2.0","method":"_proxy/successor/notification","params":{"method":"session/cancel","params":null}}
//! ```
//!
//! A proxy must accept the offer in `agentCapabilities` of its answer. It exits on a malformed envelope,
//! and on one without `params`.

use super::generation::{GenerationTable, Greeting};
use super::updates::SCHEMA_0_6;

pub(crate) static P3: GenerationTable = GenerationTable {
    name: "P3",
    about: "sacp-proxy 0.1 to 3.0, sacp-conductor up to 4",
    greeting: Greeting::Capability,
    offer: &["clientCapabilities", "_meta", "symposium", "proxy"],
    acceptance: &["agentCapabilities", "_meta", "symposium", "proxy"],
    sends: ["_proxy/successor/request", "_proxy/successor/notification"],
    receives: ["_proxy/successor/request", "_proxy/successor/notification"],
    wrapped: false,
    no_params: Some(b"null"),
    must_accept: true,
    any_version: false,
    mcp_path: &["agentCapabilities", "_meta", "symposium", "mcp_acp_transport"],
    updates: Some(&SCHEMA_0_6),
};
