//! A tool call of the agent, with everything that is known about it.

use std::path::PathBuf;

use acp_proxy_core::Json;
use agent_client_protocol_schema::v1::{ToolCallStatus, ToolKind};
use serde::de::DeserializeOwned;

/// A tool call of the agent. It has everything that the agent has reported about the call in this turn.
///
/// A detail is `None` if the agent has not reported it, or if programs may read it differently.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    session: String,
    call: Json,
}

impl ToolCall {
    pub(crate) fn new(session: String, call: Json) -> ToolCall {
        ToolCall { session, call }
    }

    /// The id of the session.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// The id of the tool call.
    pub fn id(&self) -> Option<String> {
        self.text("toolCallId")
    }

    /// What the tool does. [`ToolKind::Other`] if the schema does not know the kind.
    pub fn kind(&self) -> Option<ToolKind> {
        let kind = self.call.member("kind").filter(Json::is_string)?;
        serde_json::from_slice(kind.as_bytes()).ok()
    }

    /// The title for the user.
    pub fn title(&self) -> Option<String> {
        self.text("title")
    }

    /// How far the tool call is.
    pub fn status(&self) -> Option<ToolCallStatus> {
        self.read("status")
    }

    /// The files that the agent has named for the tool call: its locations, and the files of its diffs. An agent need
    /// not name every file that the tool touches.
    pub fn paths(&self) -> Vec<PathBuf> {
        let elements = |member| self.call.member(member).unwrap_or(Json::NULL).elements();
        let mut paths = Vec::new();
        for item in elements("locations").iter().chain(&elements("content")) {
            if let Some(path) = item.member("path").as_ref().and_then(Json::text) {
                let path = PathBuf::from(path.into_owned());
                if !paths.contains(&path) {
                    paths.push(path);
                }
            }
        }
        paths
    }

    /// The arguments of the tool.
    pub fn raw_input(&self) -> Option<serde_json::Value> {
        self.read("rawInput")
    }

    /// Everything that is known, with the names of the schema.
    pub fn json(&self) -> &Json {
        &self.call
    }

    fn text(&self, member: &str) -> Option<String> {
        self.call.member(member)?.text().map(|text| text.into_owned())
    }

    fn read<T: DeserializeOwned>(&self, member: &str) -> Option<T> {
        serde_json::from_slice(self.call.member(member)?.as_bytes()).ok()
    }
}
