//! What one proxy adds to a prompt, on one CPU.
//!
//! One chain runs for each kind of proxy, and one without a proxy. All run at the same time and take turns of a
//! few prompts, so that a slow second of the machine meets all of them. What a proxy adds is the difference to
//! the chain without a proxy in the same turn. All chains are started anew several times.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::contender::{Programs, word};
use super::machine::Pinned;
use super::one_component::OneComponent;
use super::probe::Effort;
use super::results::median;

/// The name that `--only` matches.
pub const NAME: &str = "proxy-cost";

/// How many prompts a chain gets in one turn.
const PROMPTS_IN_A_TURN: usize = 25;

/// How often all chains are started in one round of the benchmark.
const STARTS: usize = 4;

/// A proxy, and where it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The proxy of the other measurements.
    Stub,
    /// A proxy on our SDK that passes everything on, in its own process.
    Process,
    /// The same proxy inside the conductor.
    InConductor,
    /// A proxy on the official SDK that passes everything on, in its own process.
    Official,
    /// A proxy on our SDK with a handler for prompts, in its own process.
    ProcessHandler,
    /// The same proxy inside the conductor.
    InConductorHandler,
    /// A proxy on the official SDK with a handler for prompts, in its own process.
    OfficialHandler,
}

impl Kind {
    pub const ALL: [Self; 7] = [
        Self::Stub,
        Self::Process,
        Self::InConductor,
        Self::Official,
        Self::ProcessHandler,
        Self::InConductorHandler,
        Self::OfficialHandler,
    ];

    pub fn title(self) -> &'static str {
        match self {
            Self::Stub => "bare stub",
            Self::Process => "our SDK, own process",
            Self::InConductor => "our SDK, inside the conductor",
            Self::Official => "official SDK, own process",
            Self::ProcessHandler => "our SDK, own process, handles prompts",
            Self::InConductorHandler => "our SDK, inside the conductor, handles prompts",
            Self::OfficialHandler => "official SDK, own process, handles prompts",
        }
    }

    /// The component as the conductor's command line takes it. `None` without the official SDK's proxy.
    fn component(self, programs: &Programs, official: Option<&Path>) -> Option<String> {
        // At this level the built-in `log` sees each message and writes none of them. `context` adds nothing to
        // any but the first prompt of a session.
        let (log, context) = ("log --level error", "context --text x --optional x");
        let process = |component| format!("{} component {component}", word(&programs.ours));
        Some(match self {
            Self::Stub => word(&programs.stubs.join("stub_proxy")),
            Self::Process => process(log),
            Self::InConductor => format!("builtin:{log}"),
            Self::Official => word(official?),
            Self::ProcessHandler => process(context),
            Self::InConductorHandler => format!("builtin:{context}"),
            Self::OfficialHandler => format!("{} --mark x", word(official?)),
        })
    }
}

/// What each kind of proxy adds to a prompt, in microseconds: one figure for each turn.
#[derive(Debug, Default)]
pub struct Costs {
    /// Whole round trips without a proxy.
    pub without: Vec<f64>,
    pub added: Vec<(Kind, Vec<f64>)>,
}

impl Costs {
    /// The median of what this kind adds.
    pub fn added(&self, kind: Kind) -> Option<f64> {
        let (_, figures) = self.added.iter().find(|(it, _)| *it == kind)?;
        Some(median(figures))
    }
}

/// Measures all kinds, the official SDK's only if its proxy is given.
pub fn measure(
    programs: &Programs,
    official: Option<PathBuf>,
    effort: Effort,
    stderr: &Path,
) -> Result<Costs, String> {
    let _pinned = Pinned::to_one_cpu()?;
    let components: Vec<(Kind, String)> = Kind::ALL
        .into_iter()
        .filter_map(|kind| Some((kind, kind.component(programs, official.as_deref())?)))
        .collect();
    let added = components.iter().map(|(kind, _)| (*kind, Vec::new())).collect();
    let mut costs = Costs { without: Vec::new(), added };
    // The same program is a few percent faster or slower each time it is started.
    for _ in 0..STARTS * effort.rounds {
        measure_chains(programs, &components, &mut costs, effort, stderr)?;
    }
    Ok(costs)
}

/// Starts all chains, and measures them for some time.
fn measure_chains(
    programs: &Programs,
    components: &[(Kind, String)],
    costs: &mut Costs,
    effort: Effort,
    stderr: &Path,
) -> Result<(), String> {
    let start = |component: Option<&str>| -> Result<OneComponent, String> {
        let folder = std::env::temp_dir();
        let mut chain = OneComponent::start(programs, component, &folder, stderr, effort.limit)?;
        chain.prompts(4 * PROMPTS_IN_A_TURN)?;
        Ok(chain)
    };
    let failed = |kind: Kind| move |why: String| format!("{}: {why}", kind.title());
    let mut without = start(None)?;
    let mut chains = Vec::new();
    for (kind, component) in components {
        chains.push(start(Some(component)).map_err(failed(*kind))?);
    }
    let begin = Instant::now();
    while begin.elapsed() < effort.budget {
        let base = without.prompts(PROMPTS_IN_A_TURN)?;
        costs.without.push(base);
        for (chain, (kind, figures)) in chains.iter_mut().zip(&mut costs.added) {
            figures.push(chain.prompts(PROMPTS_IN_A_TURN).map_err(failed(*kind))? - base);
        }
    }
    Ok(())
}
