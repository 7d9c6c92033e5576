//! The component in a seat, as the test plays it.

use super::*;

/// A component, and the messages that it has received.
pub struct TestComponent {
    pub(super) name: String,
    pub(super) generation: Option<Generation>,
    pub(super) peer: Peer,
    /// The process runs.
    pub(super) runs: bool,
    /// The process was restarted, and its handshake is not finished (see `restart_handshake`).
    pub(super) is_restarting: bool,
    /// The component was started before.
    pub(super) started: bool,
    /// The component passes every message on without help of the test.
    pub(super) is_pass_through: bool,
    /// A pass-through component does nothing for now.
    pub(super) suspended: bool,
    pub(super) inbox: VecDeque<(Side, Message)>,
    /// The requests that were passed on: the id of the component, and the id that the request came
    /// with.
    pub(super) passed: BTreeMap<String, Id>,
    pub(super) last: u64,
}

impl TestComponent {
    pub(super) fn new(
        name: &str,
        generation: Option<Generation>,
        is_pass_through: bool,
    ) -> TestComponent {
        TestComponent {
            name: name.to_owned(),
            generation,
            peer: TestComponent::peer(name, generation),
            runs: false,
            is_restarting: false,
            started: false,
            is_pass_through,
            suspended: false,
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

    /// The process has started.
    pub(super) fn begin(&mut self) {
        self.end();
        self.runs = true;
        self.is_restarting = std::mem::replace(&mut self.started, true);
    }

    /// The process has ended, and its state is gone.
    pub(super) fn end(&mut self) {
        (self.runs, self.is_restarting) = (false, false);
        self.peer = TestComponent::peer(&self.name, self.generation);
        self.inbox.clear();
        self.passed.clear();
    }
}
