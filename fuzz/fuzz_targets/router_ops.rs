//! A schedule of the simulation (`testkit::sim`) from bytes: the first one chooses the chain, each
//! three more are a step.

#![no_main]

use libfuzzer_sys::fuzz_target;
use testkit::sim::{self, Violation};

/// Longer schedules find nothing that shorter ones do not, and cost more.
const LONGEST: usize = 1 + 3 * 400;

fuzz_target!(|data: &[u8]| {
    let schedule = &data[..data.len().min(LONGEST)];
    if let Err(Violation(text)) = sim::run_bytes(schedule) {
        panic!("{text}");
    }
});
