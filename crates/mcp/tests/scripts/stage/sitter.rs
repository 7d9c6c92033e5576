//! The component in a seat, as the test plays it.

use super::*;

pub struct Sitter {
    pub(super) name: String,
    pub(super) generation: Option<Generation>,
    pub(super) peer: Peer,
    /// Its process runs.
    pub(super) runs: bool,
    /// Its process is not the first one, and has not dealt with its greeting (see `boot`).
    pub(super) boots: bool,
    /// It was started at all.
    pub(super) started: bool,
    /// Passes everything on by itself.
    pub(super) transparent: bool,
    /// For now it does nothing.
    pub(super) asleep: bool,
    pub(super) inbox: VecDeque<(Side, Message)>,
    /// What it has passed on: its own id, and under which it was asked.
    pub(super) passed: BTreeMap<String, Id>,
    pub(super) last: u64,
}

impl Sitter {
    pub(super) fn new(name: &str, generation: Option<Generation>, transparent: bool) -> Sitter {
        Sitter {
            name: name.to_owned(),
            generation,
            peer: Sitter::peer(name, generation),
            runs: false,
            boots: false,
            started: false,
            transparent,
            asleep: false,
            inbox: VecDeque::new(),
            passed: BTreeMap::new(),
            last: 0,
        }
    }

    pub(super) fn peer(name: &str, generation: Option<Generation>) -> Peer {
        match generation {
            Some(generation) => Peer::proxy(generation),
            None if name == "editor" => Peer::editor(),
            None => Peer::agent(),
        }
    }

    /// Its process was started.
    pub(super) fn begin(&mut self) {
        self.end();
        self.runs = true;
        self.boots = std::mem::replace(&mut self.started, true);
    }

    /// Its process has ended. Nothing of it is left.
    pub(super) fn end(&mut self) {
        (self.runs, self.boots) = (false, false);
        self.peer = Sitter::peer(&self.name, self.generation);
        self.inbox.clear();
        self.passed.clear();
    }
}
