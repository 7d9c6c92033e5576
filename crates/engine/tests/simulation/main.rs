//! The whole core under faults: router, MCP broker, replay and watchdog, with real dialects on every link
//! and made-up players around them.
//!
//! Every case can be played again, and is told in full:
//! `CASE='editor context:P5 agent+load | short | restart | die@17:1' cargo test -p acp-conductor-engine --test simulation`.
//! `SEED=7` plays one of the random cases, `SEEDS=100000` so many of them, and `EVERY=1` all of the
//! enumerated ones; without it, only some of the long ones are played.
//!
//! # Layout
//! - `schedules`: which cases are played
//! - `case`: a run of the simulation, in a line
//! - `run`: how it is played, and what must be true at its end
//! - `world`: the core, the players around it, and the clock; `link`: the pipes between them
//! - `shell`: performs what the core wants done; `desk`: the places where MCP clients connect
//! - `ledger`: what was said, and the rules for what may be heard
//! - `editor`, `proxy` with `provider`, `agent` with `tool`: the players; `pen`: what they write with
//! - `greeting`: components whose generation the core has to find out
//! - `bug`: faults to plant, because a simulation that no fault can fail is worth nothing

mod agent;
mod bug;
mod case;
mod desk;
mod editor;
mod greeting;
mod ledger;
mod link;
mod pen;
mod player;
mod provider;
mod proxy;
mod run;
mod schedules;
mod shell;
mod tool;
mod world;

use std::collections::BTreeMap;

use bug::{Bug, Saboteur};
use case::{Case, What};
use schedules::CASTS;

fn setting(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} must be a number, not {value:?}")))
}

/// All of them if that is wished; else one in so many.
fn thinned(cases: Vec<Case>, one_in: usize) -> Vec<Case> {
    let one_in = setting("EVERY").map_or(one_in, |it| it as usize);
    cases.into_iter().step_by(one_in.max(1)).collect()
}

/// Plays all of them. Failures that look alike are shown once.
fn play_all(name: &str, cases: impl IntoIterator<Item = Case>) {
    let mut count = 0;
    let mut failures = BTreeMap::<String, (usize, Case, String)>::new();
    for case in cases {
        count += 1;
        if let Err(why) = run::play(&case, None) {
            let alike = why.chars().filter(|it| !it.is_ascii_digit()).take(80).collect();
            failures.entry(alike).or_insert_with(|| (0, case, why)).0 += 1;
        }
    }
    eprintln!("{name}: {count} schedules");
    let Some((_, first, _)) = failures.values().next() else { return };
    let told = run::tell(first, None);
    let mut text = String::new();
    for (count, case, why) in failures.values() {
        let replay = format!("CASE='{case}' cargo test -p acp-conductor-engine --test simulation");
        text.push_str(&format!("{count} times: {why}\n    to replay: {replay}\n"));
    }
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("simulation.journal");
    if std::fs::write(&path, run::record(first)).is_ok() {
        text.push_str(&format!("the first of them, step by step: cargo xtask replay {path:?}\n"));
    }
    panic!("{told}\n\n{text}");
}

#[test]
fn replay() {
    if let Ok(text) = std::env::var("CASE") {
        let case = Case::parse(&text);
        eprintln!("{}", run::tell(&case, None));
        play_all("replay", [case]);
    }
}

#[test]
fn without_faults_all_goes_well() {
    let mut cases = Vec::new();
    for cast in CASTS {
        for scenario in ["short", "usage", "tool", "turns", "load", "linger"] {
            if scenario != "load" || cast.contains("+load") {
                cases.push(Case::new(cast, scenario, "restart", &[]));
                cases.push(Case::new(cast, scenario, "restart watch tell", &[]));
            }
        }
    }
    play_all("without faults", cases);
}

/// The core finds out which generation each proxy speaks.
#[test]
fn generations_are_found_out() {
    let mut cases = Vec::new();
    for cast in CASTS {
        for reaction in ["passes", "refuses", "dies"] {
            for scenario in ["short", "tool", "turns"] {
                let policy = format!("restart {reaction}");
                cases.push(Case::new(cast, scenario, &policy, &[]));
            }
        }
        for reaction in ["passes", "refuses"] {
            let policy = format!("restart {reaction}");
            let deaths = schedules::singles(cast, "short", &policy, &[What::Die]);
            cases.extend(thinned(deaths, 3));
        }
    }
    play_all("unknown generations", cases);
}

#[test]
fn what_was_once_broken() {
    play_all("once broken", schedules::ONCE_BROKEN.map(Case::parse));
}

#[test]
fn death_at_every_line() {
    let mut cases = Vec::new();
    let kinds = [What::Die, What::Shut];
    for cast in CASTS {
        for (policy, thin) in [("restart", 1), ("bypass", 3), ("stop", 5)] {
            cases.extend(thinned(schedules::singles(cast, "short", policy, &kinds), 1));
            cases.extend(thinned(schedules::singles(cast, "tool", policy, &kinds), thin));
            cases.extend(thinned(schedules::singles(cast, "usage", policy, &kinds), 3 * thin));
            cases.extend(thinned(schedules::singles(cast, "turns", policy, &kinds), 17 * thin));
            cases.extend(thinned(schedules::singles(cast, "linger", policy, &kinds), 17 * thin));
        }
        let told = schedules::singles(cast, "turns", "restart always tell", &kinds);
        cases.extend(thinned(told, 31));
    }
    let load = schedules::singles(CASTS[0], "load", "restart", &kinds);
    cases.extend(thinned(load, 5));
    play_all("single deaths", cases);
}

#[test]
fn death_at_every_pair_of_lines() {
    for cast in CASTS {
        for (scenario, thinner) in [("short", 1), ("tool", 1), ("usage", 7)] {
            for (policy, thin) in [("restart", 61 * thinner), ("bypass", 127 * thinner)] {
                let cases = thinned(schedules::pairs(cast, scenario, policy), thin);
                play_all(&format!("pairs of deaths, {scenario} {policy} {cast}"), cases);
            }
        }
    }
}

#[test]
fn crash_loops_end() {
    let mut cases = Vec::new();
    for cast in CASTS {
        for policy in ["restart", "restart end", "restart always tell"] {
            cases.extend(thinned(schedules::loops(cast, "tool", policy), 2));
        }
    }
    play_all("crash loops", cases);
}

#[test]
fn stalls_end() {
    let mut cases = Vec::new();
    for cast in CASTS {
        for policy in ["restart watch", "bypass watch"] {
            cases.extend(thinned(schedules::singles(cast, "tool", policy, &[What::Stall]), 2));
            cases.extend(thinned(schedules::singles(cast, "linger", policy, &[What::Stall]), 11));
        }
    }
    play_all("stalls", cases);
}

#[test]
fn a_shell_that_takes_its_time() {
    let mut cases = Vec::new();
    for cast in CASTS {
        for (policy, thin) in [("restart slow", 1), ("bypass slow", 3), ("restart always slow", 5)]
        {
            cases.extend(thinned(schedules::places(cast, "tool", policy), thin));
            cases.extend(thinned(schedules::places(cast, "turns", policy), 11 * thin));
        }
    }
    play_all("slow shells", cases);
}

#[test]
fn cancellations() {
    let mut cases = Vec::new();
    for cast in CASTS {
        for ears in ["", "+deaf", "+stubborn"] {
            // Nobody can end an agent beyond us.
            if ears == "+stubborn" && cast.starts_with("outer") {
                continue;
            }
            let policy = if ears.is_empty() { "restart" } else { "restart watch" };
            cases.extend(thinned(schedules::cancels(cast, ears, "linger", policy, 12), 97));
        }
    }
    play_all("cancellations", cases);
}

/// A simulation that no bug can fail is worth nothing.
#[test]
fn every_injected_fault_is_found() {
    const SOON: u64 = 3_000;
    for bug in Bug::ALL {
        let found = (0..SOON).find_map(|seed| {
            let case = schedules::random(seed);
            let why = run::play(&case, Some(Saboteur::new(bug))).err()?;
            run::play(&case, None).is_ok().then_some((seed, why))
        });
        let Some((seed, why)) = found else { panic!("{bug:?} is not found in {SOON} schedules") };
        let why: String = why.chars().take(110).collect();
        eprintln!("{bug:?}: seed {seed}: {why}");
    }
}

#[test]
fn every_schedule_replays_from_its_journal() {
    let cases = schedules::ONCE_BROKEN.map(Case::parse).into_iter();
    for case in cases.chain((0..200).map(schedules::random)) {
        let journal = run::record(&case);
        match engine::journal::replay(journal.split_inclusive(|byte| *byte == b'\n')) {
            Ok(report) => assert!(report.inputs > 0 && !report.cut_off, "{case}: {report:?}"),
            Err(why) => panic!("{case}\n{why}"),
        }
    }
}

#[test]
fn a_seed_is_the_same_case_every_time() {
    let case = schedules::random(7);
    assert_eq!(run::tell(&case, None), run::tell(&case, None));
    assert_eq!(Case::parse(&case.to_string()), case);
}

#[test]
fn anything() {
    let seeds = match setting("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..setting("SEEDS").unwrap_or(600),
    };
    play_all("random", seeds.map(schedules::random));
}
