//! Random conversations, checked by invariants instead of by a script.
//!
//! A [`Simulation`] is a [`topology`](crate::topology) of real cores, each run by a [`shell`](crate::shell), and of
//! simulated participants around them. Queues of lines connect them, and time is a number. A *schedule* is a list of
//! [`Op`]s: a participant sends a request, an answer or a cancellation, or exits, or one line is delivered. The
//! invariants hold for every schedule. The first one that does not hold is the [`Violation`].
//!
//! The same seed gives the same schedule. The fuzzer gives a schedule as bytes.
//!
//! # Layout
//! - [`op`]: the steps of a schedule
//! - [`simulation`]: conductors, participants and the queues between them
//! - [`participant`]: what a participant sends by itself and in reply
//! - [`message_log`]: all sent messages, and the rules for received ones
//! - [`invariants`]: what must hold when all lines are delivered, and at the end
//! - [`fault`]: injected faults, which prove that the invariants detect a wrong core

pub mod fault;
pub mod invariants;
pub mod message_log;
pub mod op;
pub mod participant;
pub mod simulation;

use router::Seat;

use crate::topology::Topology;
use fault::{Fault, FaultInjector};
use op::{Op, Random};
pub use simulation::Simulation;

/// The simulated topologies: zero to four proxies before an agent, zero to four in proxy mode, and nested
/// conductors, some of them empty.
pub const TOPOLOGIES: [&str; 18] = [
    "editor agent",
    "editor p1 agent",
    "editor p1 agent",
    "editor p1 p2 agent",
    "editor p1 p2 agent",
    "editor p1 p2 p3 agent",
    "editor p1 p2 p3 p4 agent",
    "outer",
    "outer p1",
    "outer p1 p2",
    "outer p1 p2 p3",
    "outer p1 p2 p3 p4",
    "editor inner(q1) agent",
    "editor p1 inner(q1 q2) p2 agent",
    "editor inner() agent",
    "editor p1 a(b(q1) q2) agent",
    "outer p1 inner(q1)",
    "outer inner() p1",
];

/// An invariant that does not hold.
#[derive(Debug, Clone, PartialEq)]
pub struct Violation(pub String);

/// Whether the invariants hold so far.
pub type Check = Result<(), Violation>;

/// Runs the schedule of a seed.
///
/// # Errors
/// The first rule that was broken.
pub fn run(seed: u64, fault: Option<Fault>) -> Check {
    play(seed, fault, false).1
}

/// Runs the schedule of a seed and returns all its events as text.
pub fn trace(seed: u64, fault: Option<Fault>) -> String {
    let (simulation, outcome) = play(seed, fault, true);
    let events = simulation.trace.unwrap_or_default().join("\n");
    format!("{events}\n{outcome:?}")
}

/// Runs the schedule of a seed and returns the journals of all its conductors.
pub fn record(seed: u64) -> Vec<Vec<u8>> {
    play(seed, None, true).0.journals()
}

/// Runs the schedule of a seed. `traced`: keeps the events as text, and journals.
fn play(seed: u64, fault: Option<Fault>, traced: bool) -> (Simulation, Check) {
    let mut random = Random::new(seed);
    let topology = TOPOLOGIES[random.below(TOPOLOGIES.len())];
    let parsed = Topology::parse(topology);
    let chain = &parsed.conductors[0].chain;
    let (mode, last) = (chain.mode, Seat(chain.components.len() as u16));
    let countdown = random.below(6);
    let injector = fault.map(|fault| FaultInjector::new(fault, countdown, mode, last));
    let mut simulation = Simulation::new(parsed, injector);
    if traced {
        simulation.trace = Some(vec![format!("seed {seed}: {topology}")]);
        simulation.record();
    }
    let outcome = perform(&mut simulation, &mut random);
    (simulation, outcome)
}

fn perform(simulation: &mut Simulation, random: &mut Random) -> Check {
    // In half of the schedules no participant exits and no conductor stops, so every message must arrive.
    let calm = random.chance(2);
    match random.below(16) {
        0 | 1 => simulation.set_skips_successor(random.below(8)),
        2 | 3 => simulation.refuses_greetings = true,
        _ => {}
    }
    if !random.chance(16) {
        simulation.apply(Op::Initialize)?;
    }
    if random.chance(2) {
        simulation.deliver_all(random)?;
    }
    for _ in 0..random.below(240) {
        let op = Op::decode([random.byte(), random.byte(), random.byte()]);
        simulation.apply(if calm && op.disturbs() { Op::Move(random.byte()) } else { op })?;
    }
    end(simulation, random)
}

/// Runs the schedule that these bytes describe: one byte for the topology, then three bytes for each step.
///
/// # Errors
/// The first rule that was broken.
pub fn run_bytes(bytes: &[u8]) -> Check {
    let Some((&first, rest)) = bytes.split_first() else { return Ok(()) };
    let mut simulation =
        Simulation::new(Topology::parse(TOPOLOGIES[usize::from(first) % TOPOLOGIES.len()]), None);
    simulation.apply(Op::Initialize)?;
    for step in rest.chunks_exact(3) {
        simulation.apply(Op::decode([step[0], step[1], step[2]]))?;
    }
    end(&mut simulation, &mut Random::new(u64::from(first)))
}

/// Delivers all lines, answers all requests and stops the conductors, and checks the invariants at each point.
fn end(simulation: &mut Simulation, random: &mut Random) -> Check {
    simulation.deliver_all(random)?;
    simulation.check_delivered()?;
    if !random.chance(3) {
        simulation.answer_all(random)?;
        simulation.check_answered()?;
    }
    simulation.stop(random)?;
    simulation.check_finished()
}
