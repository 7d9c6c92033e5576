//! `cargo xtask bench`: compares the conductor with the reference conductor and with the floor (bare pipes), in one
//! run.
//!
//! # Layout
//! - [`contender`]: the compared programs, and how each is started
//! - [`chain`]: one running chain, with the benchmark as its editor
//! - [`probe`], [`tool`]: the measurements; [`proxy_cost`]: what one proxy adds to a prompt; [`component_cost`]: what
//!   each built-in component adds to a message
//! - [`metric`], [`results`]: the metrics, and their figures from all rounds
//! - [`target`], [`report`]: the targets for the figures, and `BENCHMARKS.md`
//! - [`machine`]: CPU affinity, CPU time and memory
//!
//! The benchmark never hangs: each chain is killed after a timeout. A failed measurement is reported, and the others go
//! on.

mod chain;
mod component_cost;
mod contender;
mod machine;
mod metric;
mod probe;
mod proxy_cost;
mod report;
mod results;
mod target;
mod tool;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use std::{env, fs};

use chain::Chain;
use contender::{Contender, Programs, REFERENCE};
use machine::Pinned;
use metric::Metric;
use probe::{Effort, Probe};
use proxy_cost::Costs;
use results::BenchResults;

use crate::peers;

pub const USAGE: &str = "[--quick] [--no-reference] [--only WORD] [--no-write] [--no-build] [--ours PROGRAM]

  --quick          fewer and shorter rounds: two minutes instead of ten
  --no-reference   ours and the floor only; writes nothing
  --only WORD      only measurements with WORD in their name (start-up, prompt-pinned, prompt-unpinned,
                   stream-pinned, stream-unpinned, big-1, big-8, asks, sessions, tool-pinned,
                   tool-unpinned, tool-http-pinned, tool-http-unpinned, tool-memory,
                   tool-http-memory, proxy-cost); writes nothing. component-cost, the cost of the
                   built-in components, is measured only by name, and writes its section
  --no-write       leave BENCHMARKS.md as it is
  --no-build       measure the release binaries as they are
  --ours PROGRAM   measure another program in our place; writes nothing";

/// The numbers of proxies that are measured.
const PROXIES: [usize; 5] = [0, 1, 2, 4, 8];

pub fn run(arguments: &[String]) -> Result<(), String> {
    let options = Options::parse(arguments)?;
    if !options.no_build {
        build()?;
    }
    if cfg!(debug_assertions) {
        return run_optimised(arguments);
    }
    let bin = bin_directory()?;
    let reference = if options.no_reference || options.only_components() {
        None
    } else {
        Some(REFERENCE.installed()?)
    };
    let ours = options.ours.clone().unwrap_or_else(|| bin.join("conductor"));
    let programs = Programs { ours, reference, stubs: bin.clone() };
    let effort = if options.quick { Effort::QUICK } else { Effort::FULL };
    let machine = machine::describe();
    let stderr = bin.join("bench-stderr.txt");
    if options.only_components() {
        return measure_components(&programs, &options, effort, &stderr);
    }
    let mut results = measure(&programs, &options, effort, &stderr);
    let costs = measure_proxy_cost(&programs, &options, effort, &stderr).unwrap_or_else(|error| {
        results.fail(format!("{}: {error}", proxy_cost::NAME));
        None
    });
    println!("{machine}\n");
    if !results.is_empty() {
        println!("{}\n{}", report::figures(&results), report::targets(&results));
    }
    println!("{}", report::proxy_costs(costs.as_ref()));
    if options.writes() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("BENCHMARKS.md");
        let failed = |it: std::io::Error| format!("{}: {it}", path.display());
        let old = fs::read_to_string(&path).map_err(failed)?;
        let mut document = report::document(&results, costs.as_ref(), effort, &machine);
        if let Some((_, section)) = old.split_once(component_cost::HEADING) {
            let section = format!("{}{section}", component_cost::HEADING);
            document = component_cost::replace_section(&document, &section);
        }
        fs::write(&path, document).map_err(failed)?;
    }
    Ok(())
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
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("BENCHMARKS.md");
        let failed = |it: std::io::Error| format!("{}: {it}", path.display());
        let old = fs::read_to_string(&path).map_err(failed)?;
        fs::write(&path, component_cost::replace_section(&old, &section)).map_err(failed)?;
    }
    match missed.is_empty() {
        true => Ok(()),
        false => Err(format!("the target is missed: {}", missed.join("; "))),
    }
}

fn measure(programs: &Programs, options: &Options, effort: Effort, stderr: &Path) -> BenchResults {
    let probes: Vec<Probe> = Probe::ALL.into_iter().filter(|it| options.wants(it.name())).collect();
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
    let official = (!options.no_reference).then(peers::optimised_proxy).transpose()?;
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
    no_build: bool,
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
                "--no-build" => options.no_build = true,
                "--only" => options.only = Some(value()?),
                "--ours" => options.ours = Some(value()?.into()),
                other => return Err(format!("unknown: {other}\nusage: cargo xtask bench {USAGE}")),
            }
        }
        let mut names =
            Probe::ALL.map(Probe::name).into_iter().chain([proxy_cost::NAME, component_cost::NAME]);
        if !names.any(|it| options.wants(it)) {
            return Err(format!(
                "no measurement has this text in its name\nusage: cargo xtask bench {USAGE}"
            ));
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

fn build() -> Result<(), String> {
    let status = Command::new(cargo())
        .args(["build", "--release", "-p", "acp-conductor", "-p", "testkit", "-p", "xtask"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .map_err(|error| format!("cargo build: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("cargo build: {status}")) }
}

/// Runs the benchmark in a release build, because the editor's side is part of the measurement.
fn run_optimised(arguments: &[String]) -> Result<(), String> {
    let program = bin_directory()?.with_file_name("release").join("xtask");
    let status = Command::new(&program)
        .args(["bench", "--no-build"])
        .args(arguments)
        .status()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    if status.success() { Ok(()) } else { Err(format!("the benchmark ended with {status}")) }
}

fn bin_directory() -> Result<PathBuf, String> {
    let program = env::current_exe().map_err(|error| format!("the path of xtask: {error}"))?;
    program.parent().map(Path::to_owned).ok_or_else(|| "a program without a folder".to_owned())
}

fn cargo() -> std::ffi::OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}
