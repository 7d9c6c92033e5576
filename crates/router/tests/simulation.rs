//! Thousands of made-up schedules: see `testkit::sim` for what happens in them and what must hold.
//!
//! `SIM_SEED=123` replays one of them and tells all of it; `SIM_SCHEDULES=100000` plays that many.

use testkit::sim::{self, bug::Bug};

/// About ten seconds in a debug build.
const SCHEDULES: u64 = 6_000;

/// Every planted bug must be found within so many schedules.
const SOON: u64 = 1_000;

fn setting(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} must be a number, not {value:?}")))
}

#[test]
fn the_rules_hold_whatever_happens() {
    let seeds = match setting("SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..setting("SIM_SCHEDULES").unwrap_or(SCHEDULES),
    };
    for seed in seeds {
        if let Err(violation) = sim::run(seed, None) {
            let told = sim::tell(seed, None);
            panic!(
                "{}\n\n{told}\n\nto replay: SIM_SEED={seed} cargo test -p router --test simulation",
                violation.0
            );
        }
    }
}

/// A simulation that no bug can fail is worth nothing.
#[test]
fn every_planted_bug_is_found() {
    for bug in Bug::ALL {
        let found = (0..SOON).find_map(|seed| Some((seed, sim::run(seed, Some(bug)).err()?)));
        let Some((seed, violation)) = found else {
            panic!("{bug:?} is not found in {SOON} schedules")
        };
        assert_eq!(sim::run(seed, None), Ok(()), "schedule {seed} fails without {bug:?}");
        eprintln!("{bug:?}: schedule {seed}: {}", violation.0);
    }
}

#[test]
fn a_seed_is_the_same_schedule_every_time() {
    assert_eq!(sim::tell(7, None), sim::tell(7, None));
}
