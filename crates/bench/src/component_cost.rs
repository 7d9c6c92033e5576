//! What each built-in component adds to a small message, on one CPU, beside a plain proxy.
//!
//! One chain runs for each component, and one with each plain proxy. All run at the same time and take turns, so that a slow
//! second of the machine meets all of them. A figure is the difference to the plain proxy in the same turn.

use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use super::contender::Programs;
use super::machine::Pinned;
use super::one_component::OneComponent;
use super::probe::{Effort, answer_requests, prompt_params, stream_once};
use super::results::median;

/// The name that `--only` matches.
pub const NAME: &str = "component-cost";

/// The heading of the section in BENCHMARKS.md.
pub const HEADING: &str = "## What the built-in components add to a message";

/// What a component may add to a small message, in microseconds.
const MAX_ADDED: f64 = 15.0;

const PROMPTS_IN_A_TURN: usize = 20;
const UPDATES_IN_A_TURN: u64 = 1000;
const REQUESTS_IN_A_TURN: u64 = 20;

/// How many ids a chain learns before it is measured, if its row says so.
const IDS: u64 = 4000;

/// What is measured, as the headings of the table.
const MESSAGES: [&str; 6] =
    ["prompt", "update", "tool call update", "file read", "permission", "terminal"];

/// The requests of the agent: the last word of the prompt, and the result of the editor.
const REQUESTS: [(&str, &str); 3] = [
    ("", r#"{"content":"fn main() {}"}"#),
    ("permission", r#"{"outcome":{"outcome":"selected","optionId":"yes"}}"#),
    ("terminal", r#"{"terminalId":"t"}"#),
];

/// The row whose decisions are on the disk before they are carried out.
const AUDITED: &str = "permissions with an audit log";

/// The row with many ids.
const WITH_IDS: &str = "cache after 4,000 ids";

/// The built-in components that are nearest to a proxy without any handler. The first handles only prompts, and after the
/// first one of a session it adds nothing. The second observes each message and writes nothing. The cheaper of the two
/// counts, for each figure.
const PLAIN: [&str; 2] = ["builtin:context --text x --optional x", "builtin:log --level error"];

/// The components, as the command line takes them. `FOLDER` is a folder with the files of [`FILES`]. `ROUND` is a new name
/// in each round: a recording grows, so each chain has its own.
const COMPONENTS: [(&str, &str); 10] = [
    ("permissions", "builtin:permissions --rules FOLDER/rules.toml"),
    (AUDITED, "builtin:permissions --rules FOLDER/rules.toml --audit FOLDER/audit.jsonl"),
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
    (WITH_IDS, "builtin:cache --mode record --file FOLDER/ids-ROUND.jsonl"),
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
        r#"{"hooks":{"PreToolUse":[{"matcher":"WebFetch","hooks":[{"type":"command","command":"true"}]}]}}"#,
    ),
];

/// The figures of one component, in microseconds, in the order of [`MESSAGES`].
type Figures = [Vec<f64>; MESSAGES.len()];

/// The times of one turn, in microseconds, in the order of [`MESSAGES`].
type Times = [f64; MESSAGES.len()];

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
            let mut chain = start(component).map_err(|why| format!("{name}: {why}"))?;
            if name == WITH_IDS {
                chain.learn_ids().map_err(|why| format!("{name}: {why}"))?;
            }
            chains.push(chain);
        }
        let begin = Instant::now();
        while begin.elapsed() < effort.budget * 4 {
            let (one, other) = (context.turn()?, log.turn()?);
            for (chain, (name, figures)) in chains.iter_mut().zip(&mut all) {
                let turn = chain.turn().map_err(|why| format!("{name}: {why}"))?;
                for (index, figures) in figures.iter_mut().enumerate() {
                    figures.push(turn[index] - one[index].min(other[index]));
                }
            }
        }
    }
    Ok(all)
}

/// A chain with one component.
struct Measured(OneComponent);

impl Measured {
    fn start(
        programs: &Programs,
        component: &str,
        effort: Effort,
        stderr: &Path,
        folder: &Path,
    ) -> Result<Measured, String> {
        let component = component.replace("FOLDER", &folder.display().to_string());
        let limit = effort.limit * 10;
        let chain = OneComponent::start(programs, Some(&component), folder, stderr, limit)?;
        let mut measured = Measured(chain);
        measured.turn()?;
        Ok(measured)
    }

    /// The agent names many terminals.
    fn learn_ids(&mut self) -> Result<(), String> {
        let params = prompt_params(&self.0.session, &format!("ids {IDS}"));
        self.0.chain.ask("session/prompt", &params).map(drop)
    }

    /// The time of each message, in microseconds.
    fn turn(&mut self) -> Result<Times, String> {
        let prompt = self.0.prompts(PROMPTS_IN_A_TURN)? / 2.0;
        let per_update = |time: Duration| time.as_secs_f64() * 1e6 / UPDATES_IN_A_TURN as f64;
        let OneComponent { chain, session, .. } = &mut self.0;
        let text = stream_once(chain, session, "stream", UPDATES_IN_A_TURN)?;
        let tools = stream_once(chain, session, "tools", UPDATES_IN_A_TURN)?;
        let [read, permission, terminal] = REQUESTS;
        Ok([
            prompt,
            per_update(text),
            per_update(tools),
            self.requests(read)?,
            self.requests(permission)?,
            self.requests(terminal)?,
        ])
    }

    /// The time of each message of the agent's requests: a request or its answer.
    fn requests(&mut self, (kind, result): (&str, &str)) -> Result<f64, String> {
        let text = format!("ask {REQUESTS_IN_A_TURN} {kind}");
        let params = prompt_params(&self.0.session, text.trim_end());
        let time = answer_requests(&mut self.0.chain, &params, REQUESTS_IN_A_TURN, result)?;
        Ok(time.as_secs_f64() * 1e6 / 2.0)
    }
}

/// Whether a figure contains the time that the disk needs for a record of a decision.
fn waits_for_disk(component: &str, message: usize) -> bool {
    component == AUDITED && message >= MESSAGES.len() - REQUESTS.len()
}

fn report(figures: &[(&str, Figures)]) -> Report {
    let turns = figures.first().map_or(0, |(_, it)| it[0].len());
    let mut section = format!(
        "\
{HEADING}

Written by `cargo xtask bench --only {NAME}`; do not edit. A chain with each component and chains with a plain proxy run at
the same time on one CPU and take turns ({turns} turns). The plain proxy is the cheaper of two built-in components: `context`
after the first prompt, which handles prompts and adds nothing to them, and `log` at level `error`, which observes each
message and writes nothing. A figure is the median over all turns of the difference to the plain proxy in the same turn, in
microseconds for each message: of a prompt without updates (request and answer), an update with text, an update of a tool
call, and requests of the agent and their answers (`fs/read_text_file`, `session/request_permission`, `terminal/create`). The
components run inside the conductor. `cache` records each message in a file. The second row of `cache` is a session in which the
agent has named {IDS} terminals. A decision with an audit log (*) is on the disk before it is carried out, so these figures are
the time of the disk. The target does not apply to them.

| component | {} |
|---|{}
",
        MESSAGES.join(" | "),
        "---:|".repeat(MESSAGES.len()),
    );
    let mut missed = Vec::new();
    for (name, figures) in figures {
        let mut row = format!("| {name} |");
        for (index, figures) in figures.iter().enumerate() {
            let (figure, message) = (median(figures), MESSAGES[index]);
            let on_disk = waits_for_disk(name, index);
            if figure > MAX_ADDED && !on_disk {
                missed.push(format!("{name}: {figure:.1} µs for each message: {message}"));
            }
            let _ = write!(row, " {figure:.1}{} |", if on_disk { "*" } else { "" });
        }
        let _ = writeln!(section, "{row}");
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
        let figures = |update, read| [1.0, update, 0.1, read, 0.1, 0.1].map(|it| vec![it]);
        // What waits for the disk has no target.
        assert!(
            report(&[("a", figures(15.0, 0.1)), (AUDITED, figures(0.1, 900.0))]).missed.is_empty()
        );
        let Report { section, missed } =
            report(&[("a", figures(1.0, 0.1)), ("b", figures(16.0, 0.1))]);
        assert_eq!(missed, ["b: 16.0 µs for each message: update"]);
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
