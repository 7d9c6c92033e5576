//! A schedule of the simulation (`testkit::sim`) from bytes: the first one chooses the chain, each
//! three more are a step.

use testkit::sim::{self, Violation};

/// Longer schedules find nothing that shorter ones do not, and cost more.
const LONGEST: usize = 1 + 3 * 400;

/// # Panics
/// If a rule of the simulation is broken.
pub fn check(data: &[u8]) {
    let schedule = &data[..data.len().min(LONGEST)];
    if let Err(Violation(text)) = sim::run_bytes(schedule) {
        panic!("{text}");
    }
}
