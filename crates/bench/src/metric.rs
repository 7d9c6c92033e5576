//! The metrics and their names.

use super::probe::{SESSIONS, UPDATES_PER_SESSION};

/// The metrics, in the order of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    StartUp,
    Prompt,
    PromptTail,
    PromptPinned,
    PromptTailPinned,
    Stream,
    StreamPinned,
    Cpu,
    CpuPinned,
    Memory,
    Prompt1MiB,
    Prompt8MiB,
    AgentAsks,
    Sessions,
    Tool,
    ToolTail,
    ToolPinned,
    ToolTailPinned,
    ToolHttp,
    ToolHttpPinned,
    ToolMemory,
    ToolGrowth,
    ToolHttpMemory,
    ToolHttpGrowth,
}

impl Metric {
    pub fn title(self) -> String {
        let title = match self {
            Self::StartUp => "Start-up, to the answer to `initialize` (ms)",
            Self::Prompt => "Prompt round trip, median (µs)",
            Self::PromptTail => "Prompt round trip, 99th percentile (µs)",
            Self::PromptPinned => "Prompt round trip on one CPU, median (µs)",
            Self::PromptTailPinned => "Prompt round trip on one CPU, 99th percentile (µs)",
            Self::Stream => "Streaming (updates per second)",
            Self::StreamPinned => "Streaming on one CPU (updates per second)",
            Self::Cpu => "CPU seconds of the conductor per 100,000 updates",
            Self::CpuPinned => "CPU seconds of the conductor per 100,000 updates, on one CPU",
            Self::Memory => "Peak memory of the conductor while streaming (MiB)",
            Self::Prompt1MiB => "Prompt of 1 MiB, to its answer (ms)",
            Self::Prompt8MiB => "Prompt of 8 MiB, to its answer (ms)",
            Self::AgentAsks => "Request of the agent to the editor, round trip (µs)",
            Self::Tool => "Tool call through the bridge, median (µs)",
            Self::ToolTail => "Tool call through the bridge, 99th percentile (µs)",
            Self::ToolPinned => "Tool call through the bridge on one CPU, median (µs)",
            Self::ToolTailPinned => "Tool call through the bridge on one CPU, 99th percentile (µs)",
            Self::ToolHttp => "Tool call through the bridge over HTTP, median (µs)",
            Self::ToolHttpPinned => {
                "Tool call through the bridge over HTTP on one CPU, median (µs)"
            }
            Self::ToolMemory => "Peak memory of the conductor after 10,000 tool calls (MiB)",
            Self::ToolGrowth => "Growth of the conductor between tool calls 1,000 and 10,000 (MiB)",
            Self::ToolHttpMemory => {
                "Peak memory of the conductor after 10,000 tool calls over HTTP (MiB)"
            }
            Self::ToolHttpGrowth => {
                "Growth of the conductor between tool calls 1,000 and 10,000 over HTTP (MiB)"
            }
            Self::Sessions => {
                return format!(
                    "{SESSIONS} prompts at once, {UPDATES_PER_SESSION} updates each, to the last answer (ms)"
                );
            }
        };
        title.to_owned()
    }

    /// Whether more is better. For all other metrics, less is better.
    pub fn more_is_better(self) -> bool {
        matches!(self, Self::Stream | Self::StreamPinned)
    }

    /// How many times as good `a` is as `b`.
    pub fn advantage(self, a: f64, b: f64) -> f64 {
        if self.more_is_better() { a / b } else { b / a }
    }
}
