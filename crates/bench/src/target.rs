//! The targets for the figures.

use super::contender::Contender;
use super::metric::Metric;
use super::results::BenchResults;

/// The numbers of proxies in the targets.
pub const PROXIES: [usize; 3] = [0, 1, 2];

#[derive(Debug, Clone, Copy)]
pub struct Target {
    pub text: &'static str,
    pub metric: Metric,
    /// For 0, 1 and 2 proxies. `None` if it is not measured.
    bounds: [Option<Bound>; 3],
}

#[derive(Debug, Clone, Copy)]
enum Bound {
    /// At least this many times as good as the reference.
    TimesReference(f64),
    /// At most this many times the cost of the floor.
    TimesFloor(f64),
    /// At most this.
    AtMost(f64),
}

#[derive(Debug, Clone, Copy)]
pub struct TargetResult {
    pub figure: f64,
    pub met: bool,
}

use Bound::{AtMost, TimesFloor, TimesReference};

pub const TARGETS: [Target; 14] = [
    all("streaming: at least 40 times the reference's rate", Metric::Stream, TimesReference(40.0)),
    all(
        "streaming on one CPU: at least 20 times its rate",
        Metric::StreamPinned,
        TimesReference(20.0),
    ),
    all("CPU per update: at most 1/30 of the reference's", Metric::Cpu, TimesReference(30.0)),
    all("CPU per update on one CPU: at most 1/30 of it", Metric::CpuPinned, TimesReference(30.0)),
    all("prompt round trip: at most 1/5 of the reference's", Metric::Prompt, TimesReference(5.0)),
    all(
        "prompt round trip on one CPU: at most 1/5 of it",
        Metric::PromptPinned,
        TimesReference(5.0),
    ),
    all(
        "prompt round trip on one CPU: at most 1.6 times the floor",
        Metric::PromptPinned,
        TimesFloor(1.6),
    ),
    Target {
        text: "prompt of 8 MiB: 2 times as fast as the reference, 3 times with proxies",
        metric: Metric::Prompt8MiB,
        bounds: [Some(TimesReference(2.0)), Some(TimesReference(3.0)), Some(TimesReference(3.0))],
    },
    all("peak memory while streaming: at most 16 MiB", Metric::Memory, AtMost(16.0)),
    // Two measurements of the same program differ by a few percent.
    all(
        "start-up: no slower than the reference (5 % for noise)",
        Metric::StartUp,
        TimesReference(0.95),
    ),
    with_proxies("tool call: at most 2 times the floor", Metric::Tool, TimesFloor(2.0)),
    with_proxies(
        "tool call on one CPU: at most 2 times the floor",
        Metric::ToolPinned,
        TimesFloor(2.0),
    ),
    with_proxies(
        "growth from 1,000 to 10,000 tool calls: at most 1 MiB",
        Metric::ToolGrowth,
        AtMost(1.0),
    ),
    with_proxies("the same over HTTP: at most 1 MiB", Metric::ToolHttpGrowth, AtMost(1.0)),
];

const fn all(text: &'static str, metric: Metric, bound: Bound) -> Target {
    Target { text, metric, bounds: [Some(bound); 3] }
}

const fn with_proxies(text: &'static str, metric: Metric, bound: Bound) -> Target {
    Target { text, metric, bounds: [None, Some(bound), Some(bound)] }
}

impl Target {
    /// For 0, 1 and 2 proxies. `None` if a figure is missing.
    pub fn judge(&self, results: &BenchResults) -> [Option<TargetResult>; 3] {
        [0, 1, 2].map(|index| self.judge_one(results, PROXIES[index], self.bounds[index]?))
    }

    /// Whether all bounds have a result.
    pub fn is_judged(&self, target_results: &[Option<TargetResult>; 3]) -> bool {
        self.bounds.iter().zip(target_results).all(|(bound, it)| bound.is_none() || it.is_some())
    }

    fn judge_one(
        &self,
        results: &BenchResults,
        proxies: usize,
        bound: Bound,
    ) -> Option<TargetResult> {
        let figure = |contender| results.figure(self.metric, proxies, contender);
        let ours = figure(Contender::Ours)?;
        Some(match bound {
            TimesReference(bound) => {
                let figure = self.metric.advantage(ours, figure(Contender::Reference)?);
                TargetResult { figure, met: figure >= bound }
            }
            TimesFloor(bound) => {
                let figure = self.metric.advantage(figure(Contender::Floor)?, ours);
                TargetResult { figure, met: figure <= bound }
            }
            AtMost(bound) => TargetResult { figure: ours, met: ours <= bound },
        })
    }
}
