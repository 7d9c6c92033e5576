//! One run of the simulation, written down in a line: who plays, what the editor does, what goes wrong.
//!
//! ```text
//! editor context:P5 provider:P4 agent+load | turns | restart | die@17:2 shut@40:1
//! ```
//!
//! | fault | |
//! |---|---|
//! | `die@17:2` | who sits at seat 2 is killed when 17 lines have moved |
//! | `shut@17:2` | it closes its output, and lives on |
//! | `stall@17:2` | it reads and says nothing any more, until it is ended |
//! | `loop@5:2` | it dies of the fifth line that it reads, in each of its lives |
//! | `cancel@17:0` | the editor cancels its last request |
//! | `halt@17:0` | the editor cancels what goes on in its first session |
//! | `leave@17:0` | the editor leaves |
//! | `stop@17:0` | the conductor is told to end |
//! | `full@17:0` | the next place for MCP clients cannot be opened |
//! | `absent@17:2` | the next start of seat 2 fails |
//!
//! Words after the policy: `tell` tells people, `watch` limits silence, `slow` lets the shell take its time,
//! `order7` moves lines in a random order, made of 7, `split` writes lines in parts and reports the end of a
//! process apart from the end of its output, `narrow` has small pipes and queues, so that peers are paused.
//! With `passes`, `refuses` or `dies` the core has to find out which generation each proxy speaks; the word is
//! what a proxy does with a greeting that it does not know.

use std::fmt;

use acp_wire::Generation;

use crate::agent::Nature;
use crate::editor::Act;
use crate::proxy::Kind;

#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    pub cast: String,
    pub scenario: String,
    pub policy: String,
    pub faults: Vec<Fault>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    pub what: What,
    pub at: usize,
    pub seat: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    Die,
    Shut,
    Stall,
    Loop,
    Cancel,
    Halt,
    Leave,
    Stop,
    Full,
    Absent,
}

impl What {
    pub const ALL: [(&'static str, What); 10] = [
        ("die", What::Die),
        ("shut", What::Shut),
        ("stall", What::Stall),
        ("loop", What::Loop),
        ("cancel", What::Cancel),
        ("halt", What::Halt),
        ("leave", What::Leave),
        ("stop", What::Stop),
        ("full", What::Full),
        ("absent", What::Absent),
    ];
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, _) = What::ALL.iter().find(|(_, what)| *what == self.what).expect("a name");
        write!(f, "{name}@{}:{}", self.at, self.seat)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults: Vec<String> = self.faults.iter().map(Fault::to_string).collect();
        let faults = faults.join(" ");
        write!(f, "{} | {} | {} | {faults}", self.cast, self.scenario, self.policy)
    }
}

impl Case {
    pub fn new(cast: &str, scenario: &str, policy: &str, faults: &[Fault]) -> Case {
        Case {
            cast: cast.to_owned(),
            scenario: scenario.to_owned(),
            policy: policy.to_owned(),
            faults: faults.to_vec(),
        }
    }

    /// # Panics
    /// If the text is none.
    pub fn parse(text: &str) -> Case {
        let parts: Vec<&str> = text.split('|').map(str::trim).collect();
        let [cast, scenario, policy, faults] = parts[..] else { panic!("no case: {text:?}") };
        let fault = |word: &str| {
            let (name, rest) = word.split_once('@')?;
            let (at, seat) = rest.split_once(':')?;
            let (_, what) = What::ALL.iter().find(|(it, _)| *it == name)?;
            Some(Fault { what: *what, at: at.parse().ok()?, seat: seat.parse().ok()? })
        };
        let faults: Option<Vec<Fault>> = faults.split_whitespace().map(fault).collect();
        Case::new(cast, scenario, policy, &faults.expect("faults"))
    }

    pub fn has(&self, word: &str) -> bool {
        self.policy.split_whitespace().any(|it| it == word)
    }

    /// What the random order of lines is made of; without one, the oldest goes first.
    pub fn order(&self) -> Option<u64> {
        self.policy.split_whitespace().find_map(|it| it.strip_prefix("order")?.parse().ok())
    }

    pub fn script(&self) -> Vec<Act> {
        script(&self.scenario)
    }
}

/// A cast, read.
#[derive(Debug, Clone)]
pub struct Cast {
    /// The outer pipe is an editor; else a conductor, with the agent beyond it.
    pub editor: bool,
    pub proxies: Vec<(Kind, Generation)>,
    pub nature: Nature,
}

impl Cast {
    /// # Panics
    /// If the text is none.
    pub fn parse(text: &str) -> Cast {
        let mut words: Vec<&str> = text.split_whitespace().collect();
        let editor = match words.remove(0) {
            "editor" => true,
            "outer" => false,
            other => panic!("a cast begins with 'editor' or 'outer', not {other:?}"),
        };
        let agent = words.pop().expect("an agent");
        let traits: Vec<&str> = agent.split('+').collect();
        assert_eq!(traits[0], "agent", "a cast ends with 'agent'");
        let proxies: Vec<(Kind, Generation)> = words
            .iter()
            .map(|word| {
                let (kind, dialect) = word.split_once(':').expect("a dialect");
                let (_, kind) = Kind::ALL.iter().find(|(name, _)| *name == kind).expect("a kind");
                (*kind, Generation::from_name(dialect).expect("a generation"))
            })
            .collect();
        let has = |name: &str| traits.contains(&name);
        let nature = Nature {
            load: has("load"),
            resume: has("resume"),
            native: has("native"),
            deaf: has("deaf"),
            stubborn: has("stubborn"),
            guarded: proxies.iter().any(|(kind, _)| *kind == Kind::Guard),
        };
        Cast { editor, proxies, nature }
    }

    /// How many components there are.
    pub fn components(&self) -> usize {
        self.proxies.len() + usize::from(self.editor)
    }
}

fn prompt(slot: usize, plan: &str) -> Act {
    Act::Prompt { slot, plan: plan.to_owned(), must: false }
}

/// The scenarios.
///
/// # Panics
/// If there is none of that name.
fn script(name: &str) -> Vec<Act> {
    let begin = [Act::Initialize, Act::Wait];
    let rest: Vec<Act> = match name {
        // As short as it can be.
        "short" => vec![Act::New(0), Act::Wait, prompt(0, "uu"), Act::Wait],
        // Updates that older proxies cannot read, between those that they can.
        "usage" => vec![
            Act::New(0),
            Act::New(1),
            Act::Wait,
            prompt(0, "uxxu"),
            prompt(1, "xpxu"),
            Act::Wait,
            prompt(0, "xlux"),
            Act::Wait,
        ],
        "tool" => vec![Act::New(0), Act::Wait, prompt(0, "utu"), Act::Wait],
        // Two sessions at once, and all that one does in them.
        "turns" => vec![
            Act::New(0),
            Act::Wait,
            prompt(0, "upu"),
            Act::New(1),
            Act::Wait,
            Act::Mode(0),
            prompt(1, "utlu"),
            prompt(0, "uu"),
            Act::Wait,
            prompt(1, "ulu"),
            Act::Stir(1),
            Act::Halt(1),
            prompt(0, "ut"),
            Act::Wait,
            Act::Close(1),
            Act::Wait,
            prompt(0, "u"),
            Act::Wait,
        ],
        // The editor takes a session up itself.
        "load" => vec![
            Act::New(0),
            Act::Wait,
            prompt(0, "uu"),
            Act::Wait,
            Act::Close(0),
            Act::Wait,
            Act::New(1),
            Act::Load(0),
            Act::Wait,
            prompt(1, "u"),
            prompt(0, "ut"),
            Act::Wait,
        ],
        // Long turns, for what happens in the middle of them.
        "linger" => vec![
            Act::New(0),
            Act::New(1),
            Act::Wait,
            prompt(0, "ululu"),
            prompt(1, "ulpu"),
            Act::Wait,
            prompt(0, "ul"),
            Act::Stir(0),
            Act::Cancel,
            Act::Wait,
        ],
        other => panic!("there is no scenario {other:?}"),
    };
    begin.into_iter().chain(rest).collect()
}
