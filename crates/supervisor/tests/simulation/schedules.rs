//! Which cases are played.

use testkit::sim::op::Random;

use crate::case::{Case, Cast, Fault, What};
use crate::run;

/// Who plays in the enumerated schedules. Between them: every kind of proxy, three generations, agents
/// that load, resume, or neither, with MCP over ACP and without, and a conductor above us.
pub const CASTS: [&str; 4] = [
    "editor context:P5 provider:P4 agent+load",
    "editor guard:P3 holder:P5 agent+resume+native",
    "editor refuser:P4 provider:P5 agent+native",
    "outer provider:P5 guard:P4 agent+native",
];

pub fn fault(what: What, at: usize, seat: u16) -> Fault {
    Fault { what, at, seat }
}

fn seats(cast: &str) -> std::ops::RangeInclusive<u16> {
    1..=Cast::parse(cast).components() as u16
}

/// How many lines move when nothing goes wrong.
///
/// # Panics
/// If something does.
pub fn length(cast: &str, scenario: &str, policy: &str) -> usize {
    let case = Case::new(cast, scenario, policy, &[]);
    run::play(&case, None).unwrap_or_else(|why| panic!("{why}\n{case}"))
}

/// One fault of these kinds at every line, for every component.
pub fn singles(cast: &str, scenario: &str, policy: &str, kinds: &[What]) -> Vec<Case> {
    let length = length(cast, scenario, policy);
    let mut cases = Vec::new();
    for seat in seats(cast) {
        for at in 0..=length {
            for what in kinds {
                cases.push(Case::new(cast, scenario, policy, &[fault(*what, at, seat)]));
            }
        }
    }
    cases
}

/// Two deaths, at every pair of lines, of every pair of components, the same one twice included.
/// A restart moves some more lines, so the second may be that much later.
pub fn pairs(cast: &str, scenario: &str, policy: &str) -> Vec<Case> {
    const RESTART: usize = 16;
    let length = length(cast, scenario, policy);
    let mut cases = Vec::new();
    for (one, two) in seats(cast).flat_map(|one| seats(cast).map(move |two| (one, two))) {
        for first in 0..=length {
            for second in first..=length + RESTART {
                let faults = [fault(What::Die, first, one), fault(What::Die, second, two)];
                cases.push(Case::new(cast, scenario, policy, &faults));
            }
        }
    }
    cases
}

/// A component dies of the same line in each of its lives.
pub fn loops(cast: &str, scenario: &str, policy: &str) -> Vec<Case> {
    let length = length(cast, scenario, policy);
    let mut cases = Vec::new();
    for seat in seats(cast) {
        for line in 1..=length / 2 {
            cases.push(Case::new(cast, scenario, policy, &[fault(What::Loop, line, seat)]));
        }
    }
    cases
}

/// The editor cancels at every line, also soon after a component has died.
pub fn cancels(cast: &str, ears: &str, scenario: &str, policy: &str, apart: usize) -> Vec<Case> {
    let length = length(cast, scenario, policy);
    let cast = &format!("{cast}{ears}");
    let mut cases = Vec::new();
    for what in [What::Cancel, What::Halt] {
        for at in 0..=length {
            cases.push(Case::new(cast, scenario, policy, &[fault(what, at, 0)]));
            for (seat, later) in seats(cast).flat_map(|it| (0..=apart).map(move |by| (it, by))) {
                let faults = [fault(What::Die, at, seat), fault(what, at + later, 0)];
                cases.push(Case::new(cast, scenario, policy, &faults));
            }
        }
    }
    cases
}

/// Anything: who plays, what the editor does, what goes wrong when, in which order lines move.
pub fn random(seed: u64) -> Case {
    let mut random = Random::new(seed.wrapping_mul(0x9E37_79B9).wrapping_add(1));
    let pick = |random: &mut Random, from: &[&'static str]| from[random.below(from.len())];
    let outer = random.chance(5);
    let mut cast = vec![if outer { "outer" } else { "editor" }.to_owned()];
    let mut provider = false;
    for _ in 0..random.below(4) + usize::from(outer) {
        let kinds = ["transparent", "context", "holder", "provider", "guard", "refuser"];
        let mut kind = pick(&mut random, &kinds);
        if kind == "provider" && std::mem::replace(&mut provider, true) {
            kind = "transparent";
        }
        cast.push(format!("{kind}:{}", pick(&mut random, &["P5", "P5", "P4", "P3"])));
    }
    let natures = ["", "+load", "+resume", "+native", "+load+native", "+resume+native"];
    let nature = pick(&mut random, &natures);
    let ears = match random.below(12) {
        0 => "+deaf",
        1 if !outer => "+stubborn",
        _ => "",
    };
    cast.push(format!("agent{nature}{ears}"));
    let loads = nature.contains("load");
    let scenarios = ["short", "tool", "turns", "linger", if loads { "load" } else { "tool" }];
    let scenario = pick(&mut random, &scenarios);
    let policies = ["restart", "restart", "restart always", "bypass", "stop", "restart end"];
    let mut policy = pick(&mut random, &policies).to_owned();
    let count = (cast.len() - 2 + usize::from(!outer)) as u16;
    let mut faults = Vec::new();
    let mut watch = ears == "+stubborn";
    for _ in 0..random.below(5) {
        let at = random.below(260);
        let seat = 1 + random.below(count.into()) as u16;
        faults.push(match random.below(24) {
            0..=10 => fault(What::Die, at, seat),
            11..=14 => fault(What::Shut, at, seat),
            15..=17 => {
                watch = true;
                fault(What::Stall, at, seat)
            }
            18 => fault(What::Loop, 1 + at / 5, seat),
            19..=20 => fault(What::Cancel, at, 0),
            21..=22 => fault(What::Halt, at, 0),
            _ if random.chance(3) => fault(What::Stop, at, 0),
            _ => fault(What::Leave, at, 0),
        });
    }
    if watch || random.chance(4) {
        policy.push_str(" watch");
    }
    if random.chance(2) {
        policy.push_str(" tell");
    }
    if !random.chance(4) {
        policy.push_str(&format!(" order{}", random.below(1_000_000)));
    }
    Case::new(&cast.join(" "), scenario, &policy, &faults)
}
