//! The whole core under faults: router, exchange, replay and watchdog, with real dialects on every link
//! and made-up players around them.
//!
//! Every case can be played again, and is told in full:
//! `CASE='editor context:P5 agent+load | short | restart | die@17:1' cargo test -p supervisor --test simulation`.
//!
//! # Layout
//! - `case`: a run of the simulation, in a line
//! - `run`: how it is played, and what must be true at its end
//! - `world`: supervisor, links, lives and clock
//! - `ledger`: what was said, and the rules for what may be heard
//! - `editor`, `proxy` with `provider`, `agent` with `tool`: the players; `pen`: what they write with
//! - `bug`: faults to plant, because a simulation that no fault can fail is worth nothing

mod agent;
mod bug;
mod case;
mod editor;
mod ledger;
mod pen;
mod provider;
mod proxy;
mod run;
mod tool;
mod world;

use case::{Case, Cast, Fault, What};

const CASTS: [&str; 4] = [
    "editor context:P5 provider:P4 agent+load",
    "editor guard:P3 holder:P5 agent+resume+native",
    "editor refuser:P4 provider:P5 agent+native",
    "outer provider:P5 guard:P4 agent+native",
];

fn check(case: &Case) -> usize {
    match run::play(case, None) {
        Ok(moved) => moved,
        Err(why) => {
            let told = run::tell(case, None);
            panic!(
                "{told}\n\n{why}\n\nto replay: CASE='{case}' cargo test -p supervisor --test simulation"
            )
        }
    }
}

#[test]
fn replay() {
    if let Ok(text) = std::env::var("CASE") {
        eprintln!("{}", run::tell(&Case::parse(&text), None));
        check(&Case::parse(&text));
    }
}

#[test]
fn without_faults_all_goes_well() {
    for cast in CASTS {
        for scenario in ["short", "tool", "turns", "load", "linger"] {
            if scenario == "load" && !cast.contains("+load") {
                continue;
            }
            let moved = check(&Case::new(cast, scenario, "restart", &[]));
            eprintln!("{moved:>5} {scenario} {cast}");
        }
    }
}

#[test]
fn death_at_every_line() {
    let mut count = 0;
    let mut bad = std::collections::BTreeMap::<String, (usize, String)>::new();
    for cast in CASTS {
        for scenario in ["short", "tool", "turns"] {
            let moved = check(&Case::new(cast, scenario, "restart", &[]));
            for policy in ["restart", "bypass", "stop"] {
                for seat in 1..=Cast::parse(cast).components() as u16 {
                    for at in 0..=moved {
                        for what in [What::Die, What::Shut] {
                            let case =
                                Case::new(cast, scenario, policy, &[Fault { what, at, seat }]);
                            count += 1;
                            if let Err(why) = run::play(&case, None) {
                                let entry = bad
                                    .entry(
                                        why.chars()
                                            .filter(|c| !c.is_ascii_digit())
                                            .take(90)
                                            .collect(),
                                    )
                                    .or_insert((0, format!("{case}\n     {why}")));
                                entry.0 += 1;
                            }
                        }
                    }
                }
            }
        }
    }
    eprintln!("{count} cases");
    for (n, what) in bad.values() {
        eprintln!("{n:>5} {what}");
    }
    assert!(bad.is_empty());
}
