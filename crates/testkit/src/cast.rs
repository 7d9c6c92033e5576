//! Who plays in a test: conductors, and the players that sit around them.
//!
//! A cast is written down in one line, from the editor to the agent, with the components of a nested
//! conductor in brackets behind its name:
//!
//! ```text
//! editor p1 p2 agent           a chain that ends with an agent
//! outer p1 p2                  a conductor that is itself a proxy; `outer` is the one above it
//! editor p1 inner(q1 q2) agent one conductor as a proxy of another
//! editor p1:P4 p2 agent        p1 speaks generation P4; the others speak the current one
//! editor p1+restart p2 agent   p1 is restarted when it fails; the chain stops when another one fails
//! editor p1! p2 agent          p1 is a guard
//! ```
//!
//! A component with `+once` is restarted once, and left out when it fails again. A component with `+bypass` is left
//! out when it fails. Restarts have no delay: a restart is due at once, and waits for the next tick. A component may be
//! restarted a thousand times.

use acp_wire::Side;
use acp_wire::dialect::Generation;
use engine::{Backoff, ComponentPolicy, Facts, Fallback, Restart, Rules, Setup};
use router::{Chain, Component, Mode, Seat};

use crate::shell;

/// How long a component may take with its part of the handshake, in every test's chain.
pub const GREETING_LIMIT: u64 = 60_000;
/// How long an ending chain waits for what is still open, in every test's chain.
pub const GRACE: u64 = 2_000;

/// Conductor 0 is the outermost one; player 0 is at its outer pipe, the others follow in the order of
/// the chain, however the conductors are nested.
#[derive(Debug, Clone)]
pub struct Cast {
    pub conductors: Vec<Table>,
    pub players: Vec<Player>,
}

/// One conductor and who sits around it, by seat.
#[derive(Debug, Clone)]
pub struct Table {
    pub chain: Chain,
    /// By component: the generation that it speaks, and what to do when it fails.
    manners: Vec<(Generation, ComponentPolicy)>,
    pub seats: Vec<Sitter>,
    /// For a nested conductor: where it sits itself.
    pub parent: Option<(usize, Seat)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sitter {
    Player(usize),
    Conductor(usize),
}

#[derive(Debug, Clone)]
pub struct Player {
    pub name: String,
    pub part: Part,
    pub conductor: usize,
    pub seat: Seat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Editor,
    /// The conductor above the outermost one, played: it stands at both ends of the chain.
    Outer,
    Proxy,
    Agent,
}

impl Part {
    /// Does a message that travels toward `toward` wear an envelope when this player *sends* it?
    /// `None`: there is nobody in that direction.
    pub fn wraps(self, toward: Side) -> Option<bool> {
        match (self, toward) {
            (Part::Editor, Side::Editor) | (Part::Agent, Side::Agent) => None,
            (Part::Editor | Part::Agent, _) => Some(false),
            (Part::Proxy, toward) => Some(toward == Side::Agent),
            (Part::Outer, toward) => Some(toward == Side::Editor),
        }
    }

    /// Toward which side a call travels that this player *receives* in this form. `None`: it must
    /// never see one.
    pub fn heard(self, wrapped: bool) -> Option<Side> {
        match (self, wrapped) {
            (Part::Editor | Part::Agent, true) => None,
            (Part::Editor | Part::Outer, false) => Some(Side::Editor),
            (Part::Agent | Part::Proxy, false) => Some(Side::Agent),
            (Part::Proxy, true) => Some(Side::Editor),
            (Part::Outer, true) => Some(Side::Agent),
        }
    }
}

impl Table {
    /// How this conductor begins. `seed` tells it from the others.
    pub fn setup(&self, seed: u64) -> Setup {
        let setup = shell::setup(self.chain.clone());
        let facts = setup.facts.iter().zip(&self.manners);
        let facts = facts.map(|(facts, (generation, _))| Facts {
            generation: facts.generation.map(|_| *generation),
            ..facts.clone()
        });
        let policies = self.manners.iter().map(|(_, policy)| *policy).collect();
        let rules = Rules { policies, seed, ..setup.rules };
        Setup { facts: facts.collect(), rules, ..setup }
    }

    /// The generation that a proxy speaks.
    pub fn generation(&self, seat: Seat) -> Generation {
        let known = seat.index().checked_sub(1).and_then(|index| self.manners.get(index));
        known.map_or(Generation::CURRENT, |(generation, _)| *generation)
    }
}

/// The name of a component, the generation that it speaks, and what to do when it fails.
///
/// # Panics
/// If the word says something else.
pub fn manners(word: &str) -> (&str, (Generation, ComponentPolicy)) {
    let (word, survival) = word.split_once('+').unwrap_or((word, "stop"));
    let (name, generation) = word.split_once(':').unwrap_or((word, Generation::CURRENT.name()));
    let generation = Generation::from_name(generation).expect("a generation");
    let backoff = Backoff { max_restarts: 1_000, first_delay: 0, ..Backoff::default() };
    let policy = match survival {
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
        other => panic!("what is to be done when {name:?} fails? {other:?}"),
    };
    (name, (generation, policy))
}

impl Cast {
    /// # Panics
    /// If the text is not a cast.
    pub fn parse(text: &str) -> Cast {
        let spaced = text.replace('(', " ( ").replace(')', " ) ");
        let mut words = spaced.split_whitespace().peekable();
        let mut cast = Cast { conductors: Vec::new(), players: Vec::new() };
        let (part, mode) = match words.next() {
            Some("editor") => (Part::Editor, Mode::Agent),
            Some("outer") => (Part::Outer, Mode::Proxy),
            other => panic!("a cast begins with 'editor' or 'outer', not {other:?}"),
        };
        let name = if part == Part::Editor { "editor" } else { "outer" }.to_owned();
        cast.players.push(Player { name, part, conductor: 0, seat: Seat::OUTER });
        cast.seat_all(&mut words, mode, Sitter::Player(0), None);
        assert_eq!(words.next(), None, "a bracket too many in {text:?}");
        cast
    }

    fn seat_all<'a>(
        &mut self,
        words: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>,
        mode: Mode,
        outer: Sitter,
        parent: Option<(usize, Seat)>,
    ) -> usize {
        let index = self.conductors.len();
        let chain = Chain {
            mode,
            components: Vec::new(),
            initialize_timeout: GREETING_LIMIT,
            grace: GRACE,
            any_version: false,
        };
        self.conductors.push(Table { chain, manners: Vec::new(), seats: vec![outer], parent });
        while let Some(word) = words.next_if(|word| *word != ")") {
            let guard = word.contains('!');
            let word = word.replace('!', "");
            let (name, manners) = manners(&word);
            self.conductors[index].manners.push(manners);
            let seat = Seat(self.conductors[index].seats.len() as u16);
            let component = Component { guard, ..Component::new(name, format!("run-{name}")) };
            self.conductors[index].chain.components.push(component);
            let sitter = if words.next_if_eq(&"(").is_some() {
                let above = Sitter::Conductor(index);
                let nested = self.seat_all(words, Mode::Proxy, above, Some((index, seat)));
                assert_eq!(words.next(), Some(")"), "a bracket is missing");
                Sitter::Conductor(nested)
            } else {
                let last = words.peek().is_none() && mode == Mode::Agent;
                let part = if last { Part::Agent } else { Part::Proxy };
                self.players.push(Player { name: name.into(), part, conductor: index, seat });
                Sitter::Player(self.players.len() - 1)
            };
            self.conductors[index].seats.push(sitter);
        }
        index
    }

    /// # Panics
    /// If nobody has that name.
    pub fn player(&self, name: &str) -> usize {
        let found = self.players.iter().position(|player| player.name == name);
        found.unwrap_or_else(|| panic!("there is no player {name:?}"))
    }

    /// Who hears what `player` says toward `toward`: the next player, whoever conducts in between.
    pub fn neighbour(&self, player: usize, toward: Side) -> Option<usize> {
        self.players[player].part.wraps(toward)?;
        let count = self.players.len();
        let ring = self.players[0].part == Part::Outer;
        match toward {
            Side::Agent if player + 1 < count => Some(player + 1),
            Side::Agent => ring.then_some(0),
            Side::Editor if player > 0 => Some(player - 1),
            Side::Editor => ring.then_some(count - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn players_are_numbered_along_the_chain_however_it_is_nested() {
        let cast = Cast::parse("editor p1 inner(q1 deep() q2) agent");
        let names: Vec<_> = cast.players.iter().map(|player| player.name.as_str()).collect();
        assert_eq!(names, ["editor", "p1", "q1", "q2", "agent"]);
        assert_eq!(cast.players[4].part, Part::Agent);
        assert_eq!(cast.neighbour(2, Side::Agent), Some(3), "nobody is in deep()");
        assert_eq!(cast.neighbour(4, Side::Agent), None);
        assert_eq!(cast.conductors[1].seats[0], Sitter::Conductor(0));
        assert_eq!(cast.conductors[2].parent, Some((1, Seat(2))));
    }

    #[test]
    fn in_proxy_mode_the_outer_one_is_at_both_ends() {
        let cast = Cast::parse("outer p1");
        assert_eq!(cast.neighbour(1, Side::Agent), Some(0));
        assert_eq!(cast.neighbour(0, Side::Editor), Some(1));
        assert_eq!(Cast::parse("outer").neighbour(0, Side::Agent), Some(0));
    }
}
