//! The figures as Markdown, for the terminal and for `BENCHMARKS.md`.

use std::fmt::Write;

use super::PROXIES;
use super::contender::Contender;
use super::metric::Metric;
use super::probe::Effort;
use super::proxy_cost::{Costs, Kind};
use super::results::{BenchResults, median};
use super::target::TARGETS;

/// The whole of `BENCHMARKS.md`.
pub fn document(
    results: &BenchResults,
    costs: Option<&Costs>,
    effort: Effort,
    machine: &str,
) -> String {
    let version = std::env::var("BENCH_REFERENCE_VERSION").unwrap_or_default();
    let mut text = format!(
        "# Benchmarks

Written by `cargo xtask bench`; do not edit.

**Machine:** {machine}. **Reference:** `agent-client-protocol-conductor` {version} as published. \
{rounds} rounds, medians over the rounds; in each round a measurement is repeated for at least {budget} ms.
Updates in one stream: {streams} proxies.

{METHOD}
## Targets

The figure of each target, for 0, 1 and 2 proxies.

",
        rounds = effort.rounds,
        budget = effort.budget.as_millis(),
        streams = PROXIES.map(|it| format!("{} with {it}", number(effort.updates(it) as f64))).join(", "),
    );
    text.push_str(&targets(results));
    text.push('\n');
    text.push_str(&proxy_costs(costs));
    text.push_str("\n## Figures\n\n");
    text.push_str(&figures(results));
    text
}

const METHOD: &str = "\
## What is measured

The benchmark is the editor. Proxies and agent are stubs that cost almost nothing: they split lines at the top
level, keep values as bytes, and answer each read with one write. Each measurement starts its own chain. In each
round, for each number of proxies, conductor, reference and floor are measured one after the other, so that a slow
period of the machine affects all three.

- **Start-up**: from before the start of the process to the answer to `initialize`, all components included.
- **Prompt round trip**: a `session/prompt` that the agent answers at once.
- **Streaming**: a prompt to which the agent sends `session/update`s (`agent_message_chunk`, about 200 bytes) as fast
  as it can. Every update must arrive in order, before the answer. CPU and peak memory are those of the conductor's
  process only.
- **Prompts of 1 and 8 MiB**: source code in one text block, until the answer.
- **Requests of the agent**: `fs/read_text_file` from the agent, answered at once by the editor.
- **Prompts at once**: one prompt in each of many sessions, sent together. Updates are checked for each session.
- **Tool call**: the first proxy offers an MCP server. The agent does not support MCP over ACP, so the conductor declares
  `conductor mcp PORT` instead. The agent reports this declaration to the benchmark, which starts the program and is
  the MCP client. It sends one `tools/call` after the other, each of which is answered at once. A call goes from the
  client through that process and a socket to the conductor, through all other proxies to the first one, and
  back. With HTTP, the client connects to a socket of the conductor (one connection, one `POST` for each call, answered
  with `text/event-stream`). Memory is that of the conductor's process only. The reference has no bridge.
- **On one CPU**: editor, conductor and all components share one CPU, so the figures include all work. With several CPUs, a
  round trip also depends on the scheduler, and varies more.

The **floor** is a relay instead of the conductor, which copies bytes without parsing them: one process with one pipe to
and one pipe from each component, and the system calls `poll`, `read` and `write`. Its proxies copy bytes, too. A message
crosses the same pipes and wakes the same processes in the same order, but the floor does not find lines, parse JSON, add
or remove envelopes, or replace ids. Big prompts pass the floor in pieces, while a conductor must wait for the end of the
line. So no conductor can reach the floor with big prompts.

The floor of a tool call has the same pipes and processes: the client, a process that copies bytes both ways instead of
`conductor mcp`, the relay, copying proxies, and a stub that answers instead of the first proxy. Where a bridge needs a
socket (between that process and the conductor), the floor has a pipe. With HTTP, the first process is missing.
";

/// Which targets are met, of those that this run was about.
pub fn targets(results: &BenchResults) -> String {
    let mut text = "| target | 0 | 1 | 2 | |\n|---|---:|---:|---:|---|\n".to_owned();
    for target in TARGETS {
        if !results.metrics().contains(&target.metric) {
            continue;
        }
        let target_results = target.judge(results);
        let cells = target_results.map(|it| it.map_or("–".to_owned(), |it| number(it.figure)));
        let outcome = if target_results.iter().any(|it| it.is_some_and(|it| !it.met)) {
            "**not met**"
        } else if target.is_judged(&target_results) {
            "met"
        } else {
            "not all measured"
        };
        line(&mut text, &format!("| {} | {} | {outcome} |", target.text, cells.join(" | ")));
    }
    text
}

/// What our SDK may add to a prompt, in microseconds.
const MAX_ADDED: f64 = 30.0;

/// What one proxy adds to a prompt, by kind. Empty if it was not measured.
pub fn proxy_costs(costs: Option<&Costs>) -> String {
    let Some(costs) = costs else { return String::new() };
    let mut text = format!(
        "\
## What one proxy adds to a prompt on one CPU

A chain with one proxy of each kind and a chain without a proxy run at the same time and take turns of some
prompts ({turns} turns); all are started anew several times. A figure is the median over all turns of the
difference to the chain without a proxy in the same turn, which takes {without} µs. The proxy on our SDK is the
built-in `log` at level `error`, which sees each message and writes nothing. The proxy on the official SDK, `agent-client-protocol` 5.0.0, passes everything
on. The proxies that handle prompts read each prompt into the schema's type and send it on: the built-in `context`
changes nothing after the first prompt, the official SDK's proxy appends a word. All are optimised builds.

| proxy | added (µs) | × bare stub |
|---|---:|---:|
",
        turns = number(costs.without.len() as f64),
        without = number(median(&costs.without)),
    );
    let stub = costs.added(Kind::Stub);
    let cell = |it: Option<f64>| it.map_or("–".to_owned(), number);
    for kind in Kind::ALL {
        let added = costs.added(kind);
        let ratio = added.zip(stub).map(|(added, stub)| added / stub);
        line(&mut text, &format!("| {} | {} | {} |", kind.title(), cell(added), cell(ratio)));
    }
    let ours: Option<Vec<f64>> =
        [Kind::Process, Kind::ProcessHandler].map(|kind| costs.added(kind)).into_iter().collect();
    if let Some(ours) = ours {
        let outcome = if ours.iter().all(|it| *it <= MAX_ADDED) { "met" } else { "**not met**" };
        let most = number(MAX_ADDED);
        line(
            &mut text,
            &format!("\nTarget: our SDK in its own process adds at most {most} µs: {outcome}."),
        );
    }
    text
}

/// One table for each metric, and the failed measurements.
pub fn figures(results: &BenchResults) -> String {
    let mut text = "\
*× reference*: how many times as good as the reference the conductor is (more is better). *× floor*: how many
times the floor's cost it has (1 is the best there can be).
"
    .to_owned();
    for metric in results.metrics() {
        line(&mut text, &format!("\n### {}\n", metric.title()));
        line(&mut text, "| proxies | conductor | reference | floor | × reference | × floor |");
        line(&mut text, "|---:|---:|---:|---:|---:|---:|");
        for proxies in PROXIES {
            line(&mut text, &row(results, metric, proxies));
        }
    }
    if !results.failures().is_empty() {
        line(&mut text, "\n### Failed\n");
    }
    for failure in results.failures() {
        line(&mut text, &format!("- {failure}"));
    }
    text
}

fn row(results: &BenchResults, metric: Metric, proxies: usize) -> String {
    let figure = |contender| results.figure(metric, proxies, contender);
    let (ours, reference, floor) =
        (figure(Contender::Ours), figure(Contender::Reference), figure(Contender::Floor));
    let ratio = |a: Option<f64>, b: Option<f64>| Some(metric.advantage(a?, b?));
    let cell = |it: Option<f64>| it.map_or("–".to_owned(), number);
    format!(
        "| {proxies} | {} | {} | {} | {} | {} |",
        cell(ours),
        cell(reference),
        cell(floor),
        cell(ratio(ours, reference)),
        cell(ratio(floor, ours)),
    )
}

/// Three significant digits, with separated thousands.
fn number(figure: f64) -> String {
    let decimals = match figure.abs() {
        it if it >= 100.0 => 0,
        it if it >= 10.0 => 1,
        it if it >= 1.0 => 2,
        _ => 4,
    };
    let text = format!("{figure:.decimals$}");
    let (whole, rest) = text.find('.').map_or((text.as_str(), ""), |at| text.split_at(at));
    let mut apart = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            apart.push(',');
        }
        apart.push(digit);
    }
    apart + rest
}

fn line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("a String takes every write");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_says_what_is_met_and_what_failed() {
        let mut results = BenchResults::default();
        for proxies in [0, 1, 2] {
            results.add(Metric::PromptPinned, proxies, Contender::Ours, 15.0);
            results.add(Metric::PromptPinned, proxies, Contender::Reference, 60.0);
            results.add(Metric::PromptPinned, proxies, Contender::Floor, 12.0);
        }
        results.fail("asks of reference with 8 proxies: the conductor ended".to_owned());
        let text = document(&results, None, Effort::QUICK, "2 cores");
        for line in [
            "| prompt round trip on one CPU: at most 1/5 of it | 4.00 | 4.00 | 4.00 | **not met** |",
            "| prompt round trip on one CPU: at most 1.6 times the floor | 1.25 | 1.25 | 1.25 | met |",
            "| 1 | 15.0 | 60.0 | 12.0 | 4.00 | 1.25 |",
            "| 8 | – | – | – | – | – |",
            "- asks of reference with 8 proxies: the conductor ended",
        ] {
            assert!(text.lines().any(|it| it == line), "no line {line:?} in:\n{text}");
        }
    }

    /// Tools are not measured without a proxy and for the reference, which has no bridge. These cells are no gaps.
    #[test]
    fn what_cannot_be_measured_is_not_missed() {
        let mut results = BenchResults::default();
        for (proxies, ours) in [(1, 30.0), (2, 60.0)] {
            results.add(Metric::Tool, proxies, Contender::Ours, ours);
            results.add(Metric::Tool, proxies, Contender::Floor, 20.0);
            results.add(Metric::ToolGrowth, proxies, Contender::Ours, 0.0);
        }
        let text = document(&results, None, Effort::QUICK, "2 cores");
        for line in [
            "| tool call: at most 2 times the floor | – | 1.50 | 3.00 | **not met** |",
            "| growth from 1,000 to 10,000 tool calls: at most 1 MiB | – | 0.0000 | 0.0000 | met |",
            "| 0 | – | – | – | – | – |",
            "| 1 | 30.0 | – | 20.0 | – | 1.50 |",
        ] {
            assert!(text.lines().any(|it| it == line), "no line {line:?} in:\n{text}");
        }
    }

    #[test]
    fn what_a_proxy_adds_is_compared_with_the_bare_stub() {
        let added = vec![
            (Kind::Stub, vec![20.0]),
            (Kind::Process, vec![50.0, 28.0, 30.0]),
            (Kind::ProcessHandler, vec![30.5]),
        ];
        let text = proxy_costs(Some(&Costs { without: vec![18.0], added }));
        for line in [
            "| our SDK, own process | 30.0 | 1.50 |",
            "| official SDK, own process | – | – |",
            "Target: our SDK in its own process adds at most 30.0 µs: **not met**.",
        ] {
            assert!(text.lines().any(|it| it == line), "no line {line:?} in:\n{text}");
        }
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(number(1_234_567.8), "1,234,568");
        assert_eq!(number(123.4), "123");
        assert_eq!(number(12.34), "12.3");
        assert_eq!(number(0.04567), "0.0457");
    }
}
