//! Runs a schedule of the simulation (`testkit::sim`). The first byte chooses the topology, and each following three
//! bytes are a step.

use testkit::sim::{self, Violation};

/// The maximum length. Longer schedules find no other bugs and take longer.
const LONGEST: usize = 1 + 3 * 400;

/// # Panics
/// If an invariant of the simulation does not hold.
pub fn check(data: &[u8]) {
    let schedule = &data[..data.len().min(LONGEST)];
    if let Err(Violation(text)) = sim::run_bytes(schedule) {
        panic!("{text}");
    }
}
