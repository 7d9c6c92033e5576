//! P3t: P3 with the capability at the top level, as in the SACP architecture overview.
//!
//! ```json
//! {"jsonrpc":"2.0","id":"c","method":"initialize","params":{"protocolVersion":1,"_meta":{"proxy":true}}}
//! {"jsonrpc":"2.0","id":"c","result":{"protocolVersion":1,"_meta":{"proxy":true}}}
//! ```

use super::generation::GenerationTable;
use super::p3::P3;

pub(crate) static P3T: GenerationTable = GenerationTable {
    name: "P3t",
    about: "the SACP overview, @thinkwell/conductor",
    greeting: P3.greeting,
    offer: &["_meta", "proxy"],
    acceptance: &["_meta", "proxy"],
    sends: P3.sends,
    receives: P3.receives,
    wrapped: P3.wrapped,
    no_params: P3.no_params,
    must_accept: P3.must_accept,
    any_version: P3.any_version,
    mcp_path: &["capabilities", "mcp_acp_transport"],
    updates: None,
};
