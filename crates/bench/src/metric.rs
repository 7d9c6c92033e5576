//! The metrics and their names.

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

/// The titles of the metrics, in the same order.
const TITLES: [&str; 24] = [
    "Start-up, to the answer to `initialize` (ms)",
    "Prompt round trip, median (µs)",
    "Prompt round trip, 99th percentile (µs)",
    "Prompt round trip on one CPU, median (µs)",
    "Prompt round trip on one CPU, 99th percentile (µs)",
    "Streaming (updates per second)",
    "Streaming on one CPU (updates per second)",
    "CPU seconds of the conductor per 100,000 updates",
    "CPU seconds of the conductor per 100,000 updates, on one CPU",
    "Peak memory of the conductor while streaming (MiB)",
    "Prompt of 1 MiB, to its answer (ms)",
    "Prompt of 8 MiB, to its answer (ms)",
    "Request of the agent to the editor, round trip (µs)",
    "64 prompts at once, 20 updates each, to the last answer (ms)",
    "Tool call through the bridge, median (µs)",
    "Tool call through the bridge, 99th percentile (µs)",
    "Tool call through the bridge on one CPU, median (µs)",
    "Tool call through the bridge on one CPU, 99th percentile (µs)",
    "Tool call through the bridge over HTTP, median (µs)",
    "Tool call through the bridge over HTTP on one CPU, median (µs)",
    "Peak memory of the conductor after 10,000 tool calls (MiB)",
    "Growth of the conductor between tool calls 1,000 and 10,000 (MiB)",
    "Peak memory of the conductor after 10,000 tool calls over HTTP (MiB)",
    "Growth of the conductor between tool calls 1,000 and 10,000 over HTTP (MiB)",
];

impl Metric {
    pub fn title(self) -> &'static str {
        TITLES[self as usize]
    }

    /// How many times as good `a` is as `b`. For all metrics but two, less is better.
    pub fn advantage(self, a: f64, b: f64) -> f64 {
        if matches!(self, Self::Stream | Self::StreamPinned) { a / b } else { b / a }
    }
}
