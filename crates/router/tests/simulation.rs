//! Runs thousands of random schedules. `testkit::sim` documents what happens in them and what must hold.
//!
//! `SIM_SEED=123` replays one schedule and prints all of it. `SIM_SCHEDULES=100000` sets the number of
//! schedules.

use testkit::sim::{self, fault::Fault};

/// Takes about ten seconds in a debug build.
const SCHEDULES: u64 = 6_000;

/// Every injected fault must be found within this many schedules.
const SOON: u64 = 1_000;

fn setting(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} must be a number, not {value:?}")))
}

#[test]
fn the_routing_rules_hold_in_every_schedule() {
    let seeds = match setting("SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..setting("SIM_SCHEDULES").unwrap_or(SCHEDULES),
    };
    for seed in seeds {
        if let Err(violation) = sim::run(seed, None) {
            let trace = sim::trace(seed, None);
            let replay =
                format!("SIM_SEED={seed} cargo test -p acp-conductor-router --test simulation");
            let steps = write_journals(seed);
            panic!("{}\n\n{trace}\n\nto replay: {replay}\nstep by step: {steps}", violation.0);
        }
    }
}

/// Writes the journals of a schedule to files. Returns a text that says how to step through them.
fn write_journals(seed: u64) -> String {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let mut steps = Vec::new();
    for (conductor, journal) in sim::record(seed).into_iter().enumerate() {
        let path = folder.join(format!("router-{conductor}.journal"));
        if std::fs::write(&path, journal).is_ok() {
            steps.push(format!("cargo xtask replay {path:?}"));
        }
    }
    steps.join(", ")
}

#[test]
fn every_schedule_replays_from_its_journals() {
    for (seed, journal) in (0..200).flat_map(|it| sim::record(it).into_iter().map(move |j| (it, j)))
    {
        match engine::journal::replay(journal.split_inclusive(|byte| *byte == b'\n')) {
            Ok(report) => assert!(!report.cut_off, "{seed}: {report:?}"),
            Err(why) => panic!("schedule {seed}: {why}"),
        }
    }
}

/// The simulation fails if the core is wrong.
#[test]
fn every_injected_fault_is_found() {
    for fault in Fault::ALL {
        let found = (0..SOON).find_map(|seed| Some((seed, sim::run(seed, Some(fault)).err()?)));
        let Some((seed, violation)) = found else {
            panic!("{fault:?} is not found in {SOON} schedules")
        };
        assert_eq!(sim::run(seed, None), Ok(()), "schedule {seed} fails without {fault:?}");
        eprintln!("{fault:?}: schedule {seed}: {}", violation.0);
    }
}

#[test]
fn a_seed_is_the_same_schedule_every_time() {
    assert_eq!(sim::trace(7, None), sim::trace(7, None));
}
