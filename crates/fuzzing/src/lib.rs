//! What the fuzz targets do with their bytes, and what must hold whatever these are.
//!
//! A target is a plain function that panics if something does not hold. The fuzzer calls it with
//! what it makes up (`fuzz/fuzz_targets`); a test calls it with what was kept (`tests/kept.rs`), so
//! that what a fuzzer has found once is looked at by everybody ever after, without one.
//!
//! # Layout
//! - [`lines`]: bytes into lines: pipes, first lines, HTTP bodies
//! - [`mod@line`]: any bytes as one line, from anybody
//! - [`dialects`]: a conversation on one link, in every generation
//! - [`mcp_framing`]: MCP clients, consumers and providers around the broker
//! - [`router_ops`]: a schedule of the router's simulation
//! - [`story`]: how a fuzzer's bytes become a conversation

pub mod dialects;
pub mod line;
pub mod lines;
pub mod mcp_framing;
pub mod router_ops;
pub mod story;

/// A target: it takes any bytes, and panics if something does not hold.
pub type Check = fn(&[u8]);

/// All of them, by the names of their files in `fuzz/fuzz_targets`.
pub const TARGETS: [(&str, Check); 5] = [
    ("lines", lines::check),
    ("line", line::check),
    ("dialects", dialects::check),
    ("mcp_framing", mcp_framing::check),
    ("router_ops", router_ops::check),
];
