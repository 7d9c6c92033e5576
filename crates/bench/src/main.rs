//! `cargo xtask bench` builds and runs this: it compares the conductor with the reference conductor and with the floor (bare
//! pipes), in one run.
//!
//! # Layout
//! - [`contender`]: the compared programs, and how each is started
//! - [`chain`]: one running chain, with the benchmark as its editor
//! - [`probe`], [`tool`]: the measurements; [`proxy_cost`]: what one proxy adds to a prompt; [`component_cost`]: what
//!   each built-in component adds to a message
//! - [`one_component`]: the chain of these two
//! - [`metric`], [`results`]: the metrics, and their figures from all rounds
//! - [`target`], [`report`]: the targets for the figures, and `BENCHMARKS.md`
//! - [`machine`]: CPU affinity, CPU time and memory
//!
//! The benchmark never hangs: each chain is killed after a timeout. A failed measurement is reported, and the others go
//! on.
#![allow(clippy::print_stdout)] // standard output is the protocol in the conductor, not here

mod chain;
mod component_cost;
mod contender;
mod machine;
mod metric;
mod one_component;
mod probe;
mod proxy_cost;
mod report;
mod results;
mod target;
mod tool;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;
use std::{env, fs};

use chain::Chain;
use contender::{Contender, Programs};
use machine::Pinned;
use metric::Metric;
use probe::{Effort, Probe};
use proxy_cost::Costs;
use results::BenchResults;

/// The numbers of proxies that are measured.
const PROXIES: [usize; 5] = [0, 1, 2, 4, 8];

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match Options::parse(&arguments).and_then(|options| run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// A program that `cargo xtask bench` has installed.
fn installed(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).map(PathBuf::from)
}

fn run(options: &Options) -> Result<(), String> {
    let bin = bin_directory()?;
    let reference = installed("BENCH_REFERENCE");
    let ours = options.ours.clone().unwrap_or_else(|| bin.join("conductor"));
    let programs = Programs { ours, reference, stubs: bin.clone() };
    let effort = if options.quick { Effort::QUICK } else { Effort::FULL };
    let machine = machine::describe();
    let stderr = bin.join("bench-stderr.txt");
    if options.only_components() {
        return measure_components(&programs, options, effort, &stderr);
    }
    let mut results = measure(&programs, options, effort, &stderr);
    let costs = measure_proxy_cost(&programs, options, effort, &stderr).unwrap_or_else(|error| {
        results.fail(format!("{}: {error}", proxy_cost::NAME));
        None
    });
    println!("{machine}\n");
    if !results.is_empty() {
        println!("{}\n{}", report::figures(&results), report::targets(&results));
    }
    println!("{}", report::proxy_costs(costs.as_ref()));
    if options.writes() {
        let document = report::document(&results, costs.as_ref(), effort, &machine);
        rewrite(|old| match old.split_once(component_cost::HEADING) {
            Some((_, section)) => {
                let section = format!("{}{section}", component_cost::HEADING);
                component_cost::replace_section(&document, &section)
            }
            None => document,
        })?;
    }
    Ok(())
}

/// Changes the text of `BENCHMARKS.md`.
fn rewrite(change: impl FnOnce(&str) -> String) -> Result<(), String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../BENCHMARKS.md");
    let failed = |it: std::io::Error| format!("{}: {it}", path.display());
    let old = fs::read_to_string(&path).map_err(failed)?;
    fs::write(&path, change(&old)).map_err(failed)
}

/// Measures the built-in components, and writes their section. Fails if the target is missed.
fn measure_components(
    programs: &Programs,
    options: &Options,
    effort: Effort,
    stderr: &Path,
) -> Result<(), String> {
    let component_cost::Report { section, missed } =
        component_cost::measure(programs, effort, stderr)?;
    println!("{section}");
    if !options.no_write && options.ours.is_none() {
        rewrite(|old| component_cost::replace_section(old, &section))?;
    }
    match missed.is_empty() {
        true => Ok(()),
        false => Err(format!("the target is missed: {}", missed.join("; "))),
    }
}

fn measure(programs: &Programs, options: &Options, effort: Effort, stderr: &Path) -> BenchResults {
    let probes = Probe::ALL.into_iter().filter(|(name, _)| options.wants(name));
    let probes: Vec<Probe> = probes.map(|(_, probe)| probe).collect();
    if probes.is_empty() {
        return BenchResults::default();
    }
    let begin = Instant::now();
    let mut results = BenchResults::default();
    // A failed measurement is not repeated in later rounds: a hanging one would cost its whole timeout each time.
    let mut failed = Vec::new();
    for round in 1..=effort.rounds {
        for proxies in PROXIES {
            for &probe in &probes {
                for contender in programs.contenders(round) {
                    let run = Run { programs, effort, stderr, probe, proxies, contender };
                    if !probe.concerns(contender, proxies)
                        || failed.contains(&(probe, proxies, contender))
                    {
                        continue;
                    }
                    match run.run() {
                        Ok(figures) => {
                            for (metric, figure) in figures {
                                results.add(metric, proxies, contender, figure);
                            }
                        }
                        Err(error) => {
                            results.fail(run.complain(&error));
                            failed.push((probe, proxies, contender));
                        }
                    }
                }
            }
        }
        eprintln!("round {round} of {}, {} s", effort.rounds, begin.elapsed().as_secs());
    }
    results
}

fn measure_proxy_cost(
    programs: &Programs,
    options: &Options,
    effort: Effort,
    stderr: &Path,
) -> Result<Option<Costs>, String> {
    if !options.wants(proxy_cost::NAME) {
        return Ok(None);
    }
    let official = installed("BENCH_OFFICIAL_PROXY");
    proxy_cost::measure(programs, official, effort, stderr).map(Some)
}

/// One measurement of one contender.
struct Run<'a> {
    programs: &'a Programs,
    effort: Effort,
    stderr: &'a Path,
    probe: Probe,
    proxies: usize,
    contender: Contender,
}

impl Run<'_> {
    fn run(&self) -> Result<Vec<(Metric, f64)>, String> {
        let _pinned = if self.probe.is_pinned() { Some(Pinned::to_one_cpu()?) } else { None };
        let start = || {
            Chain::start(
                self.programs.command(self.contender, self.proxies, self.probe.purpose()),
                self.stderr,
                self.effort.limit,
            )
        };
        self.probe.run(start, self.contender, self.proxies, self.effort)
    }

    fn complain(&self, error: &str) -> String {
        let Self { probe, proxies, contender, .. } = self;
        let log = fs::read_to_string(self.stderr).unwrap_or_default();
        let last = log.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let last =
            if last.is_empty() { String::new() } else { format!("; its last output: {last}") };
        let complaint = format!(
            "{} of {} with {proxies} proxies: {error}{last}",
            probe.name(),
            contender.name()
        );
        eprintln!("failed: {complaint}");
        complaint
    }
}

#[derive(Debug, Default)]
struct Options {
    quick: bool,
    no_reference: bool,
    no_write: bool,
    only: Option<String>,
    ours: Option<PathBuf>,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value =
                || arguments.next().cloned().ok_or_else(|| format!("{argument} needs a value"));
            match argument.as_str() {
                "--quick" => options.quick = true,
                "--no-reference" => options.no_reference = true,
                "--no-write" => options.no_write = true,
                // `cargo xtask bench` has built the programs, or not.
                "--no-build" => {}
                "--only" => options.only = Some(value()?),
                "--ours" => options.ours = Some(value()?.into()),
                other => return Err(format!("unknown: {other}; `cargo xtask` lists the options")),
            }
        }
        let mut names = Probe::ALL
            .map(|(name, _)| name)
            .into_iter()
            .chain([proxy_cost::NAME, component_cost::NAME]);
        if !names.any(|it| options.wants(it)) {
            return Err("no measurement has this text in its name: `cargo xtask` lists them".into());
        }
        Ok(options)
    }

    /// Whether the measurement with this name is to run.
    fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|word| name.contains(word.as_str()))
    }

    /// Whether only the built-in components are measured.
    fn only_components(&self) -> bool {
        self.only.as_deref() == Some(component_cost::NAME)
    }

    /// Whether `BENCHMARKS.md` may be written: not with a part of the figures, or with those of another program.
    fn writes(&self) -> bool {
        !self.no_write && !self.no_reference && self.only.is_none() && self.ours.is_none()
    }
}

fn bin_directory() -> Result<PathBuf, String> {
    let program = env::current_exe().map_err(|error| format!("the path of bench: {error}"))?;
    program.parent().map(Path::to_owned).ok_or_else(|| "a program without a folder".to_owned())
}
