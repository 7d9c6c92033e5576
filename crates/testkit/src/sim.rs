//! Whole conversations, made up at random and checked by rules instead of by a script.
//!
//! A [`World`] is a [`cast`](crate::cast) of real cores, each driven by a [`shell`](crate::shell), with made-up players
//! around them. Everybody is connected by queues of lines, and time is a number. A *schedule* is a list of
//! [`Op`]s: somebody asks, answers, cancels, dies; one line moves on. Whatever the schedule, certain
//! things must hold; the first one that does not is the [`Violation`].
//!
//! The same seed gives the same schedule, and so does the same list of bytes (for the fuzzer).
//!
//! # Layout
//! - [`op`]: what can happen in a schedule
//! - [`world`]: conductors, players and the queues between them
//! - [`player`]: what a player says of its own accord and in reply
//! - [`ledger`]: what was said, and the rules for what may be heard
//! - [`rest`]: what must be true when nothing moves any more, and at the end
//! - [`bug`]: faults to plant, because a simulation that no fault can fail is worth nothing

pub mod bug;
pub mod ledger;
pub mod op;
pub mod player;
pub mod rest;
pub mod world;

use router::Seat;

use crate::cast::Cast;
use bug::{Bug, Saboteur};
use op::{Op, Random};
pub use world::World;

/// The chains that are played: zero to four proxies before an agent, zero to four in proxy mode, and
/// conductors in conductors, also empty ones.
pub const CASTS: [&str; 18] = [
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

/// What must not happen, and did.
#[derive(Debug, Clone, PartialEq)]
pub struct Violation(pub String);

pub type Check = Result<(), Violation>;

/// Plays one schedule.
///
/// # Errors
/// The first rule that was broken.
pub fn run(seed: u64, bug: Option<Bug>) -> Check {
    play(seed, bug, false).1
}

/// Plays a schedule again and tells all of it.
pub fn tell(seed: u64, bug: Option<Bug>) -> String {
    let (world, outcome) = play(seed, bug, true);
    let told = world.trace.unwrap_or_default().join("\n");
    format!("{told}\n{outcome:?}")
}

/// Plays a schedule again. Gives the journals of all its conductors.
pub fn record(seed: u64) -> Vec<Vec<u8>> {
    play(seed, None, true).0.journals()
}

/// `traced`: all of it is told and recorded.
fn play(seed: u64, bug: Option<Bug>, traced: bool) -> (World, Check) {
    let mut random = Random::new(seed);
    let cast = CASTS[random.below(CASTS.len())];
    let parsed = Cast::parse(cast);
    let chain = &parsed.conductors[0].chain;
    let (mode, last) = (chain.mode, Seat(chain.components.len() as u16));
    let countdown = random.below(6);
    let saboteur = bug.map(|bug| Saboteur::new(bug, countdown, mode, last));
    let mut world = World::new(parsed, saboteur);
    if traced {
        world.trace = Some(vec![format!("seed {seed}: {cast}")]);
        world.record();
    }
    let outcome = perform(&mut world, &mut random);
    (world, outcome)
}

fn perform(world: &mut World, random: &mut Random) -> Check {
    // Half of the schedules are calm: nobody dies and nothing stops, so everything must arrive.
    let calm = random.chance(2);
    match random.below(16) {
        0 | 1 => world.set_lazy(random.below(8)),
        2 | 3 => world.moody = true,
        _ => {}
    }
    if !random.chance(16) {
        world.apply(Op::Initialize)?;
    }
    if random.chance(2) {
        world.run_dry(random)?;
    }
    for _ in 0..random.below(240) {
        let op = Op::decode([random.byte(), random.byte(), random.byte()]);
        world.apply(if calm && op.disturbs() { Op::Move(random.byte()) } else { op })?;
    }
    end(world, random)
}

/// Plays the schedule that these bytes describe: the cast, then three bytes for each step.
///
/// # Errors
/// The first rule that was broken.
pub fn run_bytes(bytes: &[u8]) -> Check {
    let Some((&first, rest)) = bytes.split_first() else { return Ok(()) };
    let mut world = World::new(Cast::parse(CASTS[usize::from(first) % CASTS.len()]), None);
    world.apply(Op::Initialize)?;
    for step in rest.chunks_exact(3) {
        world.apply(Op::decode([step[0], step[1], step[2]]))?;
    }
    end(&mut world, &mut Random::new(u64::from(first)))
}

/// Lets everything come to rest, and to an end.
fn end(world: &mut World, random: &mut Random) -> Check {
    world.run_dry(random)?;
    world.check_quiet()?;
    if !random.chance(3) {
        world.answer_all(random)?;
        world.check_rest()?;
    }
    world.stop(random)?;
    world.check_end()
}
