//! Simulates the whole core under failures: router, MCP broker, session replay and watchdog, with real dialects on every
//! link and simulated participants around it.
//!
//! Every case can be run again, with a full trace:
//! `CASE='editor context:P5 agent+load | short | restart | die@17:1' cargo test -p acp-conductor-engine --test simulation`.
//! `SEED=7` runs one of the random cases, `SEEDS=100000` runs that many of them, and `EVERY=1` runs all enumerated cases. By
//! default, only a sample of the enumerated cases is run.
//!
//! # Layout
//! - `cases`: which cases are run
//! - `case`: the text form of a case
//! - `run`: runs a case, and checks what must hold at its end
//! - `world`: the core, the participants and the clock; `link`: the pipes between them
//! - `shell`: performs the outputs of the core; `endpoints`: the endpoints for MCP clients
//! - `message_log`: all messages that were sent, and the rules for what may be received
//! - `editor`, `proxy` with `provider`, `agent` with `tool`: the participants; `outbox`: what they send
//! - `greeting`: proxies whose generation the core has to detect
//! - `fault_injection`: injects faults into the core, to prove that the simulation finds them

mod agent;
mod case;
mod cases;
mod editor;
mod endpoints;
mod fault_injection;
mod greeting;
mod link;
mod message_log;
mod outbox;
mod participant;
mod provider;
mod proxy;
mod run;
mod shell;
mod tool;
mod world;

use std::collections::BTreeMap;

use case::{Case, FailureKind};
use cases::TOPOLOGIES;
use fault_injection::{Fault, Injector};

fn setting(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} must be a number, not {value:?}")))
}

/// Every `one_in`th case, or all of them with `EVERY=1`.
fn sample(cases: Vec<Case>, one_in: usize) -> Vec<Case> {
    let one_in = setting("EVERY").map_or(one_in, |it| it as usize);
    cases.into_iter().step_by(one_in.max(1)).collect()
}

/// Runs all cases. Similar errors are shown once.
fn run_all(name: &str, cases: impl IntoIterator<Item = Case>) {
    let mut count = 0;
    let mut failures = BTreeMap::<String, (usize, Case, String)>::new();
    for case in cases {
        count += 1;
        if let Err(why) = run::run(&case, None) {
            let similar = why.chars().filter(|it| !it.is_ascii_digit()).take(80).collect();
            failures.entry(similar).or_insert_with(|| (0, case, why)).0 += 1;
        }
    }
    eprintln!("{name}: {count} cases");
    let Some((_, first, _)) = failures.values().next() else { return };
    let trace = run::trace(first, None);
    let mut text = String::new();
    for (count, case, why) in failures.values() {
        let replay = format!("CASE='{case}' cargo test -p acp-conductor-engine --test simulation");
        text.push_str(&format!("{count} times: {why}\n    to run it again: {replay}\n"));
    }
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("simulation.journal");
    if std::fs::write(&path, run::record(first)).is_ok() {
        text.push_str(&format!("the first of them, step by step: cargo xtask replay {path:?}\n"));
    }
    panic!("{trace}\n\n{text}");
}

#[test]
fn the_case_in_the_environment_passes() {
    if let Ok(text) = std::env::var("CASE") {
        let case = Case::parse(&text);
        eprintln!("{}", run::trace(&case, None));
        run_all("the given case", [case]);
    }
}

#[test]
fn without_failures_every_request_succeeds() {
    let mut cases = Vec::new();
    for topology in TOPOLOGIES {
        for scenario in ["short", "usage", "tool", "turns", "load", "linger", "panels", "options"] {
            if scenario != "load" || topology.contains("+load") {
                cases.push(Case::new(topology, scenario, "restart", &[]));
                cases.push(Case::new(topology, scenario, "restart timeouts notices", &[]));
            }
        }
    }
    run_all("without failures", cases);
}

#[test]
fn the_generation_of_each_proxy_is_detected() {
    let mut cases = Vec::new();
    for topology in TOPOLOGIES {
        for reaction in ["forwards", "refuses", "exits"] {
            for scenario in ["short", "tool", "turns"] {
                let policy = format!("restart {reaction}");
                cases.push(Case::new(topology, scenario, &policy, &[]));
            }
        }
        for reaction in ["forwards", "refuses"] {
            let policy = format!("restart {reaction}");
            let kills = cases::singles(topology, "short", &policy, &[FailureKind::Die]);
            cases.extend(sample(kills, 3));
        }
    }
    run_all("unknown generations", cases);
}

#[test]
fn cases_that_failed_before_pass() {
    run_all("regressions", cases::REGRESSIONS.map(Case::parse));
}

#[test]
fn a_component_may_be_killed_at_every_line() {
    let mut cases = Vec::new();
    let kinds = [FailureKind::Die, FailureKind::Shut];
    for topology in TOPOLOGIES {
        for (policy, thin) in [("restart", 1), ("bypass", 3), ("stop", 5)] {
            cases.extend(sample(cases::singles(topology, "short", policy, &kinds), 1));
            cases.extend(sample(cases::singles(topology, "tool", policy, &kinds), thin));
            cases.extend(sample(cases::singles(topology, "usage", policy, &kinds), 3 * thin));
            cases.extend(sample(cases::singles(topology, "panels", policy, &kinds), 3 * thin));
            cases.extend(sample(cases::singles(topology, "options", policy, &kinds), 5 * thin));
            cases.extend(sample(cases::singles(topology, "turns", policy, &kinds), 17 * thin));
            cases.extend(sample(cases::singles(topology, "linger", policy, &kinds), 17 * thin));
        }
        let with_notices = cases::singles(topology, "turns", "restart always notices", &kinds);
        cases.extend(sample(with_notices, 31));
    }
    let load = cases::singles(TOPOLOGIES[0], "load", "restart", &kinds);
    cases.extend(sample(load, 5));
    run_all("single kills", cases);
}

/// No request fails: the chain changes only while it is at rest.
#[test]
fn a_component_may_get_another_configuration_at_every_line() {
    let mut cases = Vec::new();
    for topology in TOPOLOGIES {
        for (scenario, thin) in [("short", 1), ("tool", 2), ("usage", 5), ("turns", 17)] {
            let reloads = cases::singles(topology, scenario, "restart", &[FailureKind::Reload]);
            cases.extend(sample(reloads, thin));
        }
    }
    run_all("reloads", cases);
}

#[test]
fn components_may_be_killed_at_every_pair_of_lines() {
    for topology in TOPOLOGIES {
        for (scenario, thinner) in [("short", 1), ("tool", 1), ("usage", 7), ("panels", 11)] {
            for (policy, thin) in [("restart", 61 * thinner), ("bypass", 127 * thinner)] {
                let cases = sample(cases::pairs(topology, scenario, policy), thin);
                run_all(&format!("pairs of kills, {scenario} {policy} {topology}"), cases);
            }
        }
    }
}

#[test]
fn crash_loops_end() {
    let mut cases = Vec::new();
    for topology in TOPOLOGIES {
        for policy in ["restart", "restart end", "restart always notices"] {
            cases.extend(sample(cases::loops(topology, "tool", policy), 2));
        }
    }
    run_all("crash loops", cases);
}

#[test]
fn a_stalled_component_is_restarted_or_bypassed() {
    let mut cases = Vec::new();
    for topology in TOPOLOGIES {
        for policy in ["restart timeouts", "bypass timeouts"] {
            cases
                .extend(sample(cases::singles(topology, "tool", policy, &[FailureKind::Stall]), 2));
            cases.extend(sample(
                cases::singles(topology, "linger", policy, &[FailureKind::Stall]),
                11,
            ));
        }
    }
    run_all("stalls", cases);
}

#[test]
fn endpoints_may_be_opened_with_a_delay() {
    let mut cases = Vec::new();
    for topology in TOPOLOGIES {
        for (policy, thin) in [("restart slow", 1), ("bypass slow", 3), ("restart always slow", 5)]
        {
            cases.extend(sample(cases::endpoint_failures(topology, "tool", policy), thin));
            cases.extend(sample(cases::endpoint_failures(topology, "turns", policy), 11 * thin));
        }
    }
    run_all("slow endpoints", cases);
}

#[test]
fn the_editor_may_cancel_at_every_line() {
    let mut cases = Vec::new();
    for topology in TOPOLOGIES {
        for agent_trait in ["", "+ignores-cancel", "+never-stops"] {
            // The core cannot kill an agent outside the chain.
            if agent_trait == "+never-stops" && topology.starts_with("outer") {
                continue;
            }
            let policy = if agent_trait.is_empty() { "restart" } else { "restart timeouts" };
            cases.extend(sample(cases::cancels(topology, agent_trait, "linger", policy, 12), 97));
        }
    }
    run_all("cancellations", cases);
}

/// A simulation that finds no injected fault proves nothing.
#[test]
fn every_injected_fault_is_found() {
    const LIMIT: u64 = 3_000;
    for fault in Fault::ALL {
        let found = (0..LIMIT).find_map(|seed| {
            let case = cases::random(seed);
            let why = run::run(&case, Some(Injector::new(fault))).err()?;
            run::run(&case, None).is_ok().then_some((seed, why))
        });
        let Some((seed, why)) = found else { panic!("{fault:?} is not found in {LIMIT} cases") };
        let why: String = why.chars().take(110).collect();
        eprintln!("{fault:?}: seed {seed}: {why}");
    }
}

#[test]
fn every_case_replays_from_its_journal() {
    let cases = cases::REGRESSIONS.map(Case::parse).into_iter();
    for case in cases.chain((0..200).map(cases::random)) {
        let journal = run::record(&case);
        match engine::journal::replay(journal.split_inclusive(|byte| *byte == b'\n')) {
            Ok(report) => assert!(report.inputs > 0 && !report.cut_off, "{case}: {report:?}"),
            Err(why) => panic!("{case}\n{why}"),
        }
    }
}

#[test]
fn a_seed_always_gives_the_same_case() {
    let case = cases::random(7);
    assert_eq!(run::trace(&case, None), run::trace(&case, None));
    assert_eq!(Case::parse(&case.to_string()), case);
}

#[test]
fn random_cases_pass() {
    let seeds = match setting("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..setting("SEEDS").unwrap_or(600),
    };
    run_all("random", seeds.map(cases::random));
}
