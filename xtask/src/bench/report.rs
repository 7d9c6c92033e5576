//! The figures as Markdown, for the terminal and for `BENCHMARKS.md`.

use std::fmt::Write;

use super::PROXIES;
use super::contender::{Contender, REFERENCE};
use super::metric::Metric;
use super::probe::Effort;
use super::proxy_cost::{Costs, Kind};
use super::tally::{Tally, median};
use super::target::TARGETS;
use crate::cache::Published;

/// The whole of `BENCHMARKS.md`.
pub fn document(tally: &Tally, costs: Option<&Costs>, effort: Effort, machine: &str) -> String {
    let Published { name, version, .. } = REFERENCE;
    let mut text = format!(
        "# Benchmarks

Written by `cargo xtask bench`; do not edit.

**Machine:** {machine}. **Reference:** `{name}` {version} as published. \
{rounds} rounds, medians over the rounds; in each round a measurement is repeated for at least {budget} ms.
Updates in one stream: {streams} proxies.

{METHOD}
## Targets

The figure that the target is about, for 0, 1 and 2 proxies.

",
        rounds = effort.rounds,
        budget = effort.budget.as_millis(),
        streams = PROXIES.map(|it| format!("{} with {it}", number(effort.updates(it) as f64))).join(", "),
    );
    text.push_str(&targets(tally));
    text.push('\n');
    text.push_str(&proxy_costs(costs));
    text.push_str("\n## Figures\n\n");
    text.push_str(&figures(tally));
    text
}

const METHOD: &str = "\
## What is measured

The editor is the benchmark itself; proxies and agent are stubs that cost next to nothing (they split lines
at the top level, keep values as bytes and answer each read with one write). Each measurement starts a chain
of its own. In each round, for each length of chain, conductor, reference and floor take turns, so that a
slow minute of the machine meets all three.

- **Start-up**: from before the process is started to the answer to `initialize`, all components included.
- **Prompt round trip**: a `session/prompt` that the agent answers at once.
- **Streaming**: a prompt to which the agent sends `session/update`s (`agent_message_chunk`, about 200 bytes)
  as fast as it can; every update must arrive, in order, and the answer last. CPU and peak memory are those of
  the conductor's process alone.
- **Prompts of 1 and 8 MiB**: source code in one text block, to the answer.
- **Questions of the agent**: `fs/read_text_file` from the agent, answered at once by the editor.
- **Prompts at once**: one prompt in each of many sessions, sent together; updates are checked per session.
- **Tool call**: the first proxy offers an MCP server. The agent does not speak MCP over ACP, so it is told to
  start `conductor mcp PORT` in its place; the agent passes that on to the benchmark, which starts it and is
  the MCP client: one `tools/call` after the other, each answered at once. A call goes from the client through
  that process and a socket to the conductor, through all proxies but the first, to the first one, and back.
  Over HTTP the client is on a socket of the conductor (one connection, one `POST` for each call, answered
  with `text/event-stream`). Memory is that of the conductor's process alone. The reference has no bridge.
- **On one CPU**: editor, conductor and all components share one CPU, so that every bit of work counts.
  Without that, a round trip also depends on where the scheduler wakes whom, and swings more.

The **floor** is a relay in the conductor's place that looks at nothing: one process with one pipe to and one
pipe from each component, `poll`, `read`, `write`; the proxies copy bytes. A message crosses the same pipes
and wakes the same processes in the same order, but no line is looked for, no JSON read, no envelope put on or
taken off, no id replaced. Big prompts go through it in pieces, while a conductor has to wait for the end of
the line, so there the floor is out of reach.

The floor of a tool call is as many pipes and processes: the client, a process that copies bytes both ways in
the place of `conductor mcp`, the relay, copying proxies, and a stub that answers in the place of the first
proxy. Where a bridge needs a socket (between that process and the conductor) the floor has a pipe. Over HTTP
it is the same without the first process.
";

/// Which targets are met, of those that this run was about.
pub fn targets(tally: &Tally) -> String {
    let mut text = "| target | 0 | 1 | 2 | |\n|---|---:|---:|---:|---|\n".to_owned();
    for target in TARGETS {
        if !tally.metrics().contains(&target.metric) {
            continue;
        }
        let verdicts = target.judge(tally);
        let cells = verdicts.map(|it| it.map_or("–".to_owned(), |it| number(it.figure)));
        let outcome = if verdicts.iter().any(|it| it.is_some_and(|it| !it.met)) {
            "**not met**"
        } else if target.is_judged(&verdicts) {
            "met"
        } else {
            "not all measured"
        };
        line(&mut text, &format!("| {} | {} | {outcome} |", target.text, cells.join(" | ")));
    }
    text
}

/// What our SDK may add to a prompt, in microseconds.
const MOST_ADDED: f64 = 30.0;

/// What one proxy adds to a prompt, by kind; empty if it was not measured.
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
        let outcome = if ours.iter().all(|it| *it <= MOST_ADDED) { "met" } else { "**not met**" };
        let most = number(MOST_ADDED);
        line(
            &mut text,
            &format!("\nTarget: our SDK in its own process adds at most {most} µs: {outcome}."),
        );
    }
    text
}

/// One table per metric, and what failed.
pub fn figures(tally: &Tally) -> String {
    let mut text = "\
*× reference*: how many times as good as the reference the conductor is (more is better). *× floor*: how many
times the floor's cost it has (1 is the best there can be).
"
    .to_owned();
    for metric in tally.metrics() {
        line(&mut text, &format!("\n### {}\n", metric.title()));
        line(&mut text, "| proxies | conductor | reference | floor | × reference | × floor |");
        line(&mut text, "|---:|---:|---:|---:|---:|---:|");
        for proxies in PROXIES {
            line(&mut text, &row(tally, metric, proxies));
        }
    }
    if !tally.failures().is_empty() {
        line(&mut text, "\n### Failed\n");
    }
    for failure in tally.failures() {
        line(&mut text, &format!("- {failure}"));
    }
    text
}

fn row(tally: &Tally, metric: Metric, proxies: usize) -> String {
    let figure = |contender| tally.figure(metric, proxies, contender);
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

/// Three significant digits, thousands apart.
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
        let mut tally = Tally::default();
        for proxies in [0, 1, 2] {
            tally.add(Metric::PromptPinned, proxies, Contender::Ours, 15.0);
            tally.add(Metric::PromptPinned, proxies, Contender::Reference, 60.0);
            tally.add(Metric::PromptPinned, proxies, Contender::Floor, 12.0);
        }
        tally.fail("asks of reference with 8 proxies: the conductor ended".to_owned());
        let text = document(&tally, None, Effort::QUICK, "2 cores");
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

    /// Without a proxy there are no tools, and the reference has no bridge: that is not a gap.
    #[test]
    fn what_cannot_be_measured_is_not_missed() {
        let mut tally = Tally::default();
        for (proxies, ours) in [(1, 30.0), (2, 60.0)] {
            tally.add(Metric::Tool, proxies, Contender::Ours, ours);
            tally.add(Metric::Tool, proxies, Contender::Floor, 20.0);
            tally.add(Metric::ToolGrowth, proxies, Contender::Ours, 0.0);
        }
        let text = document(&tally, None, Effort::QUICK, "2 cores");
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
