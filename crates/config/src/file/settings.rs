//! The options of the command line, in a file.

use schemars::JsonSchema;
use serde::Deserialize;

use super::values::{Delay, Limit, McpBridge, OnCrash, Restarts, Seconds, Size, Updates};
use crate::source::{Place, Placed};

/// The options of a chain, with the names of the command line. An option that is not set has the value of the layer below.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Settings {
    /// How to offer MCP-over-ACP servers to an agent that does not support MCP over ACP. Default: `auto`.
    pub mcp_bridge: Option<Placed<McpBridge>>,
    /// What to do if a component crashes. It does not apply to a component with an `on-crash` of its own. `bypass` does not
    /// apply to guards and the agent.
    pub on_crash: Option<Placed<OnCrash>>,
    /// Which kinds of `session/update` the proxies receive.
    pub updates: Option<Placed<Updates>>,
    /// The maximum number of restarts within a number of seconds. Default: `5/60`.
    pub restarts: Option<Placed<Restarts>>,
    /// The delay before a restart, in seconds. Default: `0.1..10`.
    pub restart_delay: Option<Placed<Delay>>,
    /// Restart a component that does not answer a request within this many seconds. Default: `off`.
    pub answer_limit: Option<Placed<Limit>>,
    /// Restart a component that is silent for this many seconds during a long request. Default: `off`.
    pub prompt_limit: Option<Placed<Limit>>,
    /// Answer a cancelled request if the component has not answered it after this many seconds. Default: 120.
    pub cancel_limit: Option<Placed<Limit>>,
    /// Whether the editor shows notices about failed components. Default: true.
    pub notices: Option<Placed<bool>>,
    /// The timeout for each component to answer `initialize`, in seconds. Default: 60.
    pub init_timeout: Option<Placed<Seconds>>,
    /// The grace period at shutdown, in seconds. Default: 2.
    pub grace: Option<Placed<Seconds>>,
    /// Whether `conductor status` shows the chain. Default: true.
    pub status: Option<Placed<bool>>,
    /// The maximum length of a line, in bytes (suffixes K, M, G). Default: `256M`.
    pub max_line: Option<Placed<Size>>,
    /// What to log: error, warn, info, debug, trace, off, or a filter. Default: `warn`.
    pub log: Option<Placed<String>>,
    /// Write the log to this file instead of standard error.
    pub log_file: Option<Placed<String>>,
}

macro_rules! for_each_setting {
    ($with:ident) => {
        $with!(
            "mcp-bridge" mcp_bridge,
            "on-crash" on_crash,
            "updates" updates,
            "restarts" restarts,
            "restart-delay" restart_delay,
            "answer-limit" answer_limit,
            "prompt-limit" prompt_limit,
            "cancel-limit" cancel_limit,
            "notices" notices,
            "init-timeout" init_timeout,
            "grace" grace,
            "status" status,
            "max-line" max_line,
            "log" log,
            "log-file" log_file
        )
    };
}

impl Settings {
    /// Adds the settings of another layer, which win.
    pub fn merge(&mut self, over: Settings) {
        macro_rules! merge {
            ($($name:literal $field:ident),*) => {
                $(self.$field = over.$field.or(self.$field.take());)*
            };
        }
        for_each_setting!(merge);
    }

    /// The settings that are set: the key, the value as it is written in a file, and the place.
    pub fn rows(&self) -> Vec<(&'static str, String, &Place)> {
        let mut rows = Vec::new();
        macro_rules! add {
            ($($name:literal $field:ident),*) => {
                $(if let Some(value) = &self.$field {
                    rows.push(($name, value.as_toml(), &value.place));
                })*
            };
        }
        use super::values::AsToml;
        for_each_setting!(add);
        rows
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::source::Source;

    const ALL: &str = r#"mcp-bridge = "auto"
on-crash = "restart,bypass"
updates = "known"
restarts = "5/60"
restart-delay = "0.1..10"
answer-limit = "off"
prompt-limit = 30
cancel-limit = 0.5
notices = true
init-timeout = 60
grace = 2
status = false
max-line = "256M"
log = "warn"
log-file = "x.log"
"#;

    #[test]
    fn each_setting_is_read_merged_and_listed() {
        let source = Source::from_bytes(Path::new("c.toml"), ALL.into()).expect("text");
        let settings: Settings = source.parse().expect("settings");
        let mut merged = Settings::default();
        merged.merge(settings.clone());
        merged.merge(Settings::default());
        let text: String =
            merged.rows().iter().map(|(name, value, _)| format!("{name} = {value}\n")).collect();
        assert_eq!(text, ALL);
        let schema = schemars::schema_for!(Settings);
        let properties = schema.get("properties").and_then(|it| it.as_object()).expect("an object");
        assert_eq!(properties.len(), merged.rows().len());
    }
}
