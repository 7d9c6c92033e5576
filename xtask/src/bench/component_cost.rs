//! What each built-in component adds to a small message, on one CPU, beside a plain proxy.
//!
//! One chain runs for each component, and one with each plain proxy. All run at the same time and take turns, so that a slow
//! second of the machine meets all of them. A figure is the difference to the plain proxy in the same turn.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use testkit::peers::quote;

use super::chain::Chain;
use super::contender::Programs;
use super::machine::Pinned;
use super::probe::{Effort, prompt_params, repeat, stream_once};
use super::results::median;

/// The name that `--only` matches.
pub const NAME: &str = "component-cost";

/// The heading of the section in BENCHMARKS.md.
pub const HEADING: &str = "## What the built-in components add to a message";

/// What a component may add to a small message, in microseconds.
const MAX_ADDED: f64 = 15.0;

const PROMPTS_IN_A_TURN: usize = 20;
const UPDATES_IN_A_TURN: u64 = 1000;

/// The built-in components that are nearest to a proxy without any handler. The first handles only prompts, and after the
/// first one of a session it adds nothing. The second observes each message and writes nothing. The cheaper of the two
/// counts, for each figure.
const PLAIN: [&str; 2] = ["builtin:context --text x --optional x", "builtin:log --level error"];

/// The components, as the command line takes them. `FOLDER` is a folder with the files of [`FILES`]. `ROUND` is a new name
/// in each round: a recording grows, so each chain has its own.
const COMPONENTS: [(&str, &str); 9] = [
    ("permissions", "builtin:permissions --rules FOLDER/rules.toml"),
    (
        "permissions with an audit log",
        "builtin:permissions --rules FOLDER/rules.toml --audit FOLDER/audit.jsonl",
    ),
    ("hooks", "builtin:hooks --no-user-hooks --settings FOLDER/settings.json"),
    ("filter", "builtin:filter"),
    (
        "rate-limit",
        "builtin:rate-limit --prompts-per-minute 1000000 --tool-calls-per-minute 1000000",
    ),
    ("budget", "builtin:budget --tokens-per-day 1000000M --uncounted allow --ledger FOLDER/ledger"),
    ("metrics", "builtin:metrics --listen 127.0.0.1:0"),
    ("remind", "builtin:remind"),
    ("cache", "builtin:cache --mode record --file FOLDER/talk-ROUND.jsonl"),
];

/// The files that the components read.
const FILES: [(&str, &str); 2] = [
    (
        "rules.toml",
        "version = 1\n[[rule]]\ndecision = \"deny\"\nrun = [\"git push --force\"]\nread = [\".env\"]\n",
    ),
    // A hook that no message of the benchmark runs.
    (
        "settings.json",
        r#"{"hooks":{"PreToolUse":[{"matcher":"Bash","hooks":[{"type":"command","command":"true"}]}]}}"#,
    ),
];

/// The figures of one component, in microseconds.
#[derive(Debug, Default)]
struct Figures {
    /// For each message of a prompt without updates: the prompt and its answer.
    prompt: Vec<f64>,
    /// For each update of a stream.
    update: Vec<f64>,
}

/// The result of the benchmark.
pub struct Report {
    /// The section for BENCHMARKS.md.
    pub section: String,
    /// The figures that are higher than the target.
    pub missed: Vec<String>,
}

/// Measures all components.
pub fn measure(programs: &Programs, effort: Effort, stderr: &Path) -> Result<Report, String> {
    let _pinned = Pinned::to_one_cpu()?;
    let folder = std::env::temp_dir().join(format!("conductor-bench-{}", std::process::id()));
    let written = write_files(&folder);
    let figures = written.and_then(|()| measure_all(programs, effort, stderr, &folder));
    let _ = std::fs::remove_dir_all(&folder);
    Ok(report(&figures?))
}

fn write_files(folder: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    std::fs::create_dir_all(folder).map_err(failed)?;
    FILES
        .iter()
        .try_for_each(|(name, text)| std::fs::write(folder.join(name), text).map_err(failed))
}

fn measure_all(
    programs: &Programs,
    effort: Effort,
    stderr: &Path,
    folder: &Path,
) -> Result<Vec<(&'static str, Figures)>, String> {
    let mut all: Vec<(&str, Figures)> =
        COMPONENTS.iter().map(|(name, _)| (*name, Figures::default())).collect();
    for round in 0..effort.rounds {
        let start = |component: &str| {
            let component = component.replace("ROUND", &round.to_string());
            Measured::start(programs, &component, effort, stderr, folder)
        };
        let [mut context, mut log] = [start(PLAIN[0])?, start(PLAIN[1])?];
        let mut chains = Vec::new();
        for (name, component) in COMPONENTS {
            chains.push(start(component).map_err(|why| format!("{name}: {why}"))?);
        }
        let begin = Instant::now();
        while begin.elapsed() < effort.budget * 4 {
            let (one, other) = (context.turn()?, log.turn()?);
            let (prompt, update) = (one.0.min(other.0), one.1.min(other.1));
            for (chain, (name, figures)) in chains.iter_mut().zip(&mut all) {
                let turn = chain.turn().map_err(|why| format!("{name}: {why}"))?;
                figures.prompt.push((turn.0 - prompt) / 2.0);
                figures.update.push(turn.1 - update);
            }
        }
    }
    Ok(all)
}

/// A chain with one component.
struct Measured {
    chain: Chain,
    session: String,
    params: String,
}

impl Measured {
    fn start(
        programs: &Programs,
        component: &str,
        effort: Effort,
        stderr: &Path,
        folder: &Path,
    ) -> Result<Measured, String> {
        let agent: PathBuf = programs.stubs.join("stub_agent");
        let component = component.replace("FOLDER", &folder.display().to_string());
        let mut command = Command::new(&programs.ours);
        command.arg("agent").arg(component).arg(quote(&agent.display().to_string()));
        // A developer's log filter would be measured too.
        command.env_remove("RUST_LOG").env("XDG_STATE_HOME", folder);
        let mut chain = Chain::start(command, stderr, effort.limit * 10)?;
        let session = chain.session()?;
        let params = prompt_params(&session, "How do I read a file line by line?");
        let mut measured = Measured { chain, session, params };
        measured.turn()?;
        Ok(measured)
    }

    /// The time of a prompt and of an update, in microseconds.
    fn turn(&mut self) -> Result<(f64, f64), String> {
        let once = || self.chain.round_trip("session/prompt", &self.params);
        let prompt = median(&repeat(Duration::ZERO, PROMPTS_IN_A_TURN, once)?) * 1e6;
        let stream = stream_once(&mut self.chain, &self.session, UPDATES_IN_A_TURN)?;
        Ok((prompt, stream.as_secs_f64() * 1e6 / UPDATES_IN_A_TURN as f64))
    }
}

fn report(figures: &[(&str, Figures)]) -> Report {
    let turns = figures.first().map_or(0, |(_, it)| it.prompt.len());
    let mut section = format!(
        "\
{HEADING}

Written by `cargo xtask bench --only {NAME}`; do not edit. A chain with each component and chains with a plain proxy run at
the same time on one CPU and take turns ({turns} turns). The plain proxy is the cheaper of two built-in components: `context`
after the first prompt, which handles prompts and adds nothing to them, and `log` at level `error`, which observes each
message and writes nothing. A figure is the median over all turns of the difference to the plain proxy in the same turn, for
each message of a prompt without updates (request and answer), and for each update of a stream. The components run inside the
conductor. `cache` records each message in a file.

| component | message of a prompt (µs) | update (µs) |
|---|---:|---:|
"
    );
    let mut missed = Vec::new();
    for (name, figures) in figures {
        let (prompt, update) = (median(&figures.prompt), median(&figures.update));
        let all = [("each message of a prompt", prompt), ("each update", update)];
        let above = all.into_iter().filter(|(_, figure)| *figure > MAX_ADDED);
        missed.extend(above.map(|(what, figure)| format!("{name}: {figure:.1} µs for {what}")));
        let _ = writeln!(section, "| {name} | {prompt:.1} | {update:.2} |");
    }
    let outcome = if missed.is_empty() { "met" } else { "**not met**" };
    let _ = writeln!(section, "\nTarget: at most {MAX_ADDED} µs for each message: {outcome}.");
    Report { section, missed }
}

/// Replaces the section in the text of BENCHMARKS.md, or adds it at the end.
pub fn replace_section(document: &str, section: &str) -> String {
    let (before, after) = match document.split_once(HEADING) {
        Some((before, rest)) => (before, rest.split_once("\n## ").map(|(_, after)| after)),
        None => (document, None),
    };
    let after = after.map(|after| format!("\n## {after}")).unwrap_or_default();
    format!("{}\n\n{}{after}", before.trim_end(), section)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_above_the_target_is_reported() {
        let figures = |prompt, update| Figures { prompt: vec![prompt], update: vec![update] };
        assert!(report(&[("a", figures(15.0, 0.1))]).missed.is_empty());
        let Report { section, missed } =
            report(&[("a", figures(1.0, 0.1)), ("b", figures(1.0, 16.0))]);
        assert_eq!(missed, ["b: 16.0 µs for each update"]);
        assert!(section.contains("**not met**"), "{section}");
    }

    #[test]
    fn the_section_is_replaced_or_added() {
        let new = format!("{HEADING}\n\nnew\n");
        assert_eq!(replace_section("# A\n\nb\n", &new), format!("# A\n\nb\n\n{new}"));
        let old = format!("# A\n\n{HEADING}\n\nold\n\n## B\n\nc\n");
        assert_eq!(replace_section(&old, &new), format!("# A\n\n{new}\n## B\n\nc\n"));
    }
}
