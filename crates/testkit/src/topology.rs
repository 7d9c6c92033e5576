//! The topology of a test: conductors, and the simulated editors, proxies and agents around them.
//!
//! A topology is written in one line, from the editor to the agent. The components of a nested conductor are in brackets
//! behind its name:
//!
//! ```text
//! editor p1 p2 agent           a chain that ends with an agent
//! outer p1 p2                  a conductor in proxy mode; `outer` is the conductor above it
//! editor p1 inner(q1 q2) agent one conductor as a proxy of another
//! editor p1:P4 p2 agent        p1 speaks generation P4; the others speak the current one
//! editor p1+restart p2 agent   p1 is restarted when it fails; the chain stops when another component fails
//! editor p1! p2 agent          p1 is a guard
//! ```
//!
//! A component with `+once` is restarted once, and bypassed when it fails again. A component with `+bypass` is bypassed
//! when it fails. Restarts have no delay, so a component restarts at the next tick. It may be restarted a thousand
//! times.

use acp_wire::Side;
use acp_wire::dialect::Generation;
use engine::{Backoff, ComponentPolicy, Facts, Fallback, Restart, Rules, Setup};
use router::{Chain, Component, Mode, Seat};

use crate::shell;

/// The timeout of the handshake in the chains of tests.
pub const GREETING_LIMIT: u64 = 60_000;
/// How long a stopping chain waits for open requests in the chains of tests.
pub const GRACE: u64 = 2_000;

/// The conductors and participants of a test.
#[derive(Debug, Clone)]
pub struct Topology {
    /// Conductor 0 is the outermost one.
    pub conductors: Vec<ConductorConfig>,
    /// Participant 0 is at the outer pipe. The others follow in the order of the chain, in whichever conductor they
    /// are.
    pub participants: Vec<Participant>,
}

/// The configuration of a conductor, and the peer in each of its seats.
#[derive(Debug, Clone)]
pub struct ConductorConfig {
    /// Its chain.
    pub chain: Chain,
    /// By component: the generation that it speaks, and its policy.
    component_options: Vec<(Generation, ComponentPolicy)>,
    /// The peer in each seat.
    pub seats: Vec<SeatPeer>,
    /// For a nested conductor: its parent, and its seat there.
    pub parent: Option<(usize, Seat)>,
}

/// The peer in a seat, by its index in the [`Topology`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeatPeer {
    /// A simulated editor, proxy or agent.
    Participant(usize),
    /// A nested conductor or, in seat 0, the parent.
    Conductor(usize),
}

/// A simulated peer of a conductor.
#[derive(Debug, Clone)]
pub struct Participant {
    /// Its name in the topology.
    pub name: String,
    /// What it is.
    pub role: ParticipantRole,
    /// The conductor that it is connected to.
    pub conductor: usize,
    /// Its seat there.
    pub seat: Seat,
}

/// What a participant is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParticipantRole {
    /// The editor.
    Editor,
    /// The conductor above the outermost one. It is at both ends of the chain.
    Outer,
    /// A proxy.
    Proxy,
    /// The agent.
    Agent,
}

impl ParticipantRole {
    /// Whether this participant *sends* a message toward this side in an envelope. `None`: it has no neighbour on that
    /// side.
    pub fn sends_wrapped(self, toward: Side) -> Option<bool> {
        match (self, toward) {
            (ParticipantRole::Editor, Side::Editor) | (ParticipantRole::Agent, Side::Agent) => None,
            (ParticipantRole::Editor | ParticipantRole::Agent, _) => Some(false),
            (ParticipantRole::Proxy, toward) => Some(toward == Side::Agent),
            (ParticipantRole::Outer, toward) => Some(toward == Side::Editor),
        }
    }

    /// The side toward which a call travels that this participant *receives*, with or without an envelope. `None`: it
    /// must not receive such a call.
    pub fn receives_toward(self, wrapped: bool) -> Option<Side> {
        match (self, wrapped) {
            (ParticipantRole::Editor | ParticipantRole::Agent, true) => None,
            (ParticipantRole::Editor | ParticipantRole::Outer, false) => Some(Side::Editor),
            (ParticipantRole::Agent | ParticipantRole::Proxy, false) => Some(Side::Agent),
            (ParticipantRole::Proxy, true) => Some(Side::Editor),
            (ParticipantRole::Outer, true) => Some(Side::Agent),
        }
    }
}

impl ConductorConfig {
    /// The setup of this conductor's core. Each conductor has another seed.
    pub fn setup(&self, seed: u64) -> Setup {
        let setup = shell::setup(self.chain.clone());
        let facts = setup.facts.iter().zip(&self.component_options);
        let facts = facts.map(|(facts, (generation, _))| Facts {
            generation: facts.generation.map(|_| *generation),
            ..facts.clone()
        });
        let policies = self.component_options.iter().map(|(_, policy)| *policy).collect();
        let rules = Rules { policies, seed, ..setup.rules };
        Setup { facts: facts.collect(), rules, ..setup }
    }

    /// The generation that a proxy speaks.
    pub fn generation(&self, seat: Seat) -> Generation {
        let known = seat.index().checked_sub(1).and_then(|index| self.component_options.get(index));
        known.map_or(Generation::CURRENT, |(generation, _)| *generation)
    }
}

/// Parses a component: its name, the generation that it speaks, and its policy.
///
/// # Panics
/// If the text is not the notation of a component.
pub fn parse_component(word: &str) -> (&str, (Generation, ComponentPolicy)) {
    let (word, policy) = word.split_once('+').unwrap_or((word, "stop"));
    let (name, generation) = word.split_once(':').unwrap_or((word, Generation::CURRENT.name()));
    let generation = Generation::from_name(generation).expect("a generation");
    let backoff = Backoff { max_restarts: 1_000, first_delay: 0, ..Backoff::default() };
    let policy = match policy {
        "restart" => ComponentPolicy {
            restart: Restart::Always,
            fallback: Fallback::Stop,
            backoff,
            named: false,
        },
        "once" => {
            let backoff = Backoff { max_restarts: 1, ..backoff };
            ComponentPolicy {
                restart: Restart::Always,
                fallback: Fallback::Bypass,
                backoff,
                named: false,
            }
        }
        "bypass" => ComponentPolicy {
            restart: Restart::Never,
            fallback: Fallback::Bypass,
            backoff,
            named: true,
        },
        "stop" => ComponentPolicy::STOP,
        other => panic!("{other:?} is no policy for component {name:?}"),
    };
    (name, (generation, policy))
}

impl Topology {
    /// Parses the notation of a topology.
    ///
    /// # Panics
    /// If the text is not a topology.
    pub fn parse(text: &str) -> Topology {
        let spaced = text.replace('(', " ( ").replace(')', " ) ");
        let mut words = spaced.split_whitespace().peekable();
        let mut topology = Topology { conductors: Vec::new(), participants: Vec::new() };
        let (role, mode) = match words.next() {
            Some("editor") => (ParticipantRole::Editor, Mode::Agent),
            Some("outer") => (ParticipantRole::Outer, Mode::Proxy),
            other => panic!("a topology begins with 'editor' or 'outer', not {other:?}"),
        };
        let name = if role == ParticipantRole::Editor { "editor" } else { "outer" }.to_owned();
        topology.participants.push(Participant { name, role, conductor: 0, seat: Seat::OUTER });
        topology.parse_components(&mut words, mode, SeatPeer::Participant(0), None);
        assert_eq!(words.next(), None, "a bracket too many in {text:?}");
        topology
    }

    /// Parses the components of one conductor. Returns its index.
    fn parse_components<'a>(
        &mut self,
        words: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>,
        mode: Mode,
        outer: SeatPeer,
        parent: Option<(usize, Seat)>,
    ) -> usize {
        let index = self.conductors.len();
        let chain = Chain {
            mode,
            components: Vec::new(),
            order: Vec::new(),
            initialize_timeout: GREETING_LIMIT,
            grace: GRACE,
            any_version: false,
        };
        self.conductors.push(ConductorConfig {
            chain,
            component_options: Vec::new(),
            seats: vec![outer],
            parent,
        });
        while let Some(word) = words.next_if(|word| *word != ")") {
            let guard = word.contains('!');
            let word = word.replace('!', "");
            let (name, options) = parse_component(&word);
            self.conductors[index].component_options.push(options);
            let seat = Seat(self.conductors[index].seats.len() as u16);
            let component = Component { guard, ..Component::new(name, format!("run-{name}")) };
            self.conductors[index].chain.components.push(component);
            self.conductors[index].chain.order.push(seat);
            let peer = if words.next_if_eq(&"(").is_some() {
                let above = SeatPeer::Conductor(index);
                let nested = self.parse_components(words, Mode::Proxy, above, Some((index, seat)));
                assert_eq!(words.next(), Some(")"), "a bracket is missing");
                SeatPeer::Conductor(nested)
            } else {
                let last = words.peek().is_none() && mode == Mode::Agent;
                let role = if last { ParticipantRole::Agent } else { ParticipantRole::Proxy };
                self.participants.push(Participant {
                    name: name.into(),
                    role,
                    conductor: index,
                    seat,
                });
                SeatPeer::Participant(self.participants.len() - 1)
            };
            self.conductors[index].seats.push(peer);
        }
        index
    }

    /// Gives the first conductor another chain: these components, in this order. An unknown one is a new proxy.
    pub fn reload<'a>(&mut self, words: impl Iterator<Item = &'a str>) {
        let mut order = Vec::new();
        for word in words {
            let (name, options) = parse_component(word);
            let known = self.participants.iter().find(|it| it.name == name).map(|it| it.seat);
            order.push(known.unwrap_or_else(|| self.add_proxy(name, options)));
        }
        self.conductors[0].chain.order = order;
    }

    fn add_proxy(&mut self, name: &str, options: (Generation, ComponentPolicy)) -> Seat {
        let config = &mut self.conductors[0];
        let seat = Seat(config.seats.len() as u16);
        config.component_options.push(options);
        config.chain.components.push(Component::new(name, format!("run-{name}")));
        config.seats.push(SeatPeer::Participant(self.participants.len()));
        let role = ParticipantRole::Proxy;
        self.participants.push(Participant { name: name.into(), role, conductor: 0, seat });
        seat
    }

    /// The index of the participant of this name.
    ///
    /// # Panics
    /// If there is none.
    pub fn participant(&self, name: &str) -> usize {
        let found = self.participants.iter().position(|participant| participant.name == name);
        found.unwrap_or_else(|| panic!("there is no participant {name:?}"))
    }

    /// The next participant toward this side, even if it is connected to another conductor.
    pub fn neighbour(&self, participant: usize, toward: Side) -> Option<usize> {
        self.participants[participant].role.sends_wrapped(toward)?;
        let count = self.participants.len();
        let ring = self.participants[0].role == ParticipantRole::Outer;
        match toward {
            Side::Agent if participant + 1 < count => Some(participant + 1),
            Side::Agent => ring.then_some(0),
            Side::Editor if participant > 0 => Some(participant - 1),
            Side::Editor => ring.then_some(count - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn participants_are_numbered_along_the_chain_also_in_nested_conductors() {
        let topology = Topology::parse("editor p1 inner(q1 deep() q2) agent");
        let names: Vec<_> =
            topology.participants.iter().map(|participant| participant.name.as_str()).collect();
        assert_eq!(names, ["editor", "p1", "q1", "q2", "agent"]);
        assert_eq!(topology.participants[4].role, ParticipantRole::Agent);
        assert_eq!(topology.neighbour(2, Side::Agent), Some(3), "deep() is empty");
        assert_eq!(topology.neighbour(4, Side::Agent), None);
        assert_eq!(topology.conductors[1].seats[0], SeatPeer::Conductor(0));
        assert_eq!(topology.conductors[2].parent, Some((1, Seat(2))));
    }

    #[test]
    fn in_proxy_mode_the_outer_conductor_is_at_both_ends() {
        let topology = Topology::parse("outer p1");
        assert_eq!(topology.neighbour(1, Side::Agent), Some(0));
        assert_eq!(topology.neighbour(0, Side::Editor), Some(1));
        assert_eq!(Topology::parse("outer").neighbour(0, Side::Agent), Some(0));
    }
}
