//! What the client supports.

use serde_json::Value;

/// The protocol and the capabilities of the client.
#[derive(Debug, Clone, Copy)]
pub(super) struct Client {
    /// The version of ACP: 1 or 2.
    pub(super) version: u64,
    /// Whether it has `fs/read_text_file`.
    pub(super) reads_files: bool,
    /// Whether it has `fs/write_text_file`.
    pub(super) writes_files: bool,
    /// Whether it has the methods `terminal/…`.
    pub(super) has_terminals: bool,
    /// Whether it accepts the update `notice`.
    pub(super) notices: bool,
    /// Whether it accepts the updates about a compaction.
    pub(super) compactions: bool,
    /// Whether it accepts the updates of plans with ids.
    pub(super) plans: bool,
    /// Whether it accepts the updates about subagents.
    pub(super) subagents: bool,
    /// Whether it accepts options of a session that are on or off.
    pub(super) switches: bool,
}

impl Default for Client {
    fn default() -> Client {
        Client::new(&Value::Null)
    }
}

impl Client {
    /// The client that has sent these params of `initialize`.
    pub(super) fn new(params: &Value) -> Client {
        let version = if params["protocolVersion"].as_u64() >= Some(2) { 2 } else { 1 };
        let capabilities = &params["clientCapabilities"];
        // In version 1, `{}` means that the client has a capability. In version 2, the client needs none of these.
        let has = |value: &Value| version == 2 || value.is_object();
        let session = &capabilities["session"];
        Client {
            version,
            reads_files: capabilities["fs"]["readTextFile"] == true,
            writes_files: capabilities["fs"]["writeTextFile"] == true,
            has_terminals: capabilities["terminal"] == true,
            notices: has(&session["notices"]),
            compactions: has(&session["compaction"]),
            plans: has(&capabilities["plan"]),
            subagents: has(&capabilities["subagents"]),
            switches: has(&session["configOptions"]["boolean"]),
        }
    }

    pub(super) fn is_v2(&self) -> bool {
        self.version == 2
    }
}
