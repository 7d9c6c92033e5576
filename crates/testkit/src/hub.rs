//! A conductor on paper: a router and a dialect per link. Lines go in, lines come out; there are no
//! processes, no pipes and no clock.

use bytes::Bytes;
use router::{Action, Chain, Ending, Event, Kind, Level, Mode, Notice, Role, Router, Seat, Time};
use wire::dialect::{Generation, Outer, Plain, Proxy};
use wire::{Dialect, Malformed, Side};

/// What a hub does about an event.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    Line {
        to: Seat,
        line: Bytes,
    },
    Start(Seat),
    /// Something that people are warned of.
    Warn {
        seat: Seat,
        text: String,
    },
    Finish(Ending),
}

/// Sees what happens to a router and may spoil what it does: this is how a test plants a bug.
pub trait Meddler {
    /// Before the event; `None` keeps it from the router.
    fn before(&mut self, event: Event) -> Option<Event> {
        Some(event)
    }

    fn after(&mut self, actions: &mut Vec<Action>);
}

#[allow(missing_debug_implementations)] // neither dialects nor meddlers have anything to show
pub struct Hub {
    router: Router,
    dialects: Vec<Dialect>,
    meddler: Option<Box<dyn Meddler>>,
    /// The router has finished: a conductor reads no further line.
    finished: bool,
}

impl Hub {
    /// A chain of proxies of the current generation.
    pub fn new(chain: Chain) -> Hub {
        let generation = Generation::CURRENT;
        let generations = vec![generation; chain.components.len()];
        Hub::of_generations(chain, &generations)
    }

    /// A chain whose proxies are of these generations, in its order.
    pub fn of_generations(chain: Chain, generations: &[Generation]) -> Hub {
        let outer: Dialect = match chain.mode {
            Mode::Agent => Plain::editor().into(),
            Mode::Proxy => Outer::unknown().into(),
        };
        let components = chain.seats().map(|seat| -> Dialect {
            match chain.role(seat) {
                Role::Agent => Plain::agent().into(),
                Role::Proxy => {
                    Proxy::pinned(chain.name(seat), generations[seat.index() - 1]).into()
                }
            }
        });
        Hub {
            dialects: std::iter::once(outer).chain(components).collect(),
            router: Router::new(chain),
            meddler: None,
            finished: false,
        }
    }

    /// Somebody else sits there, who is met as the last one was.
    pub fn renew(&mut self, seat: Seat) {
        let dialect = &self.dialects[seat.index()];
        if let Some(generation) = dialect.generation() {
            let name = self.router.chain().name(seat);
            self.dialects[seat.index()] = Proxy::pinned(name, generation).into();
        }
    }

    pub fn with_meddler(chain: Chain, meddler: Box<dyn Meddler>) -> Hub {
        Hub { meddler: Some(meddler), ..Hub::new(chain) }
    }

    pub fn router(&self) -> &Router {
        &self.router
    }

    /// See [`Router::set_seed`].
    pub fn set_seed(&mut self, seed: u64) {
        self.router.set_seed(seed);
    }

    /// A component can read the updates that the SDKs of this generation can read.
    pub fn reads(&mut self, seat: Seat, generation: &str) {
        let generation = Generation::named(generation).expect("a generation");
        self.router.set_updates(seat, generation.updates());
    }

    /// A component is spared a kind of message: a method toward the agent, or an update toward the editor.
    pub fn spare(&mut self, seat: Seat, toward: Side, words: &str) {
        let (method, update) = match words.split_once(' ') {
            Some((method, update)) => (method, Some(update.to_owned())),
            None => (words, None),
        };
        self.router.spare(seat, Kind { toward, method: method.to_owned(), update });
    }

    /// A line came from `from`.
    pub fn line(&mut self, now: Time, from: Seat, line: &Bytes, out: &mut Vec<Output>) {
        if self.finished {
            return;
        }
        let mut back = Vec::new();
        let decoded = self.dialects[from.index()].decode(line, &mut back);
        out.extend(lines(back).map(|line| Output::Line { to: from, line }));
        let rejection = match decoded {
            Ok(Some((toward, message))) => {
                return self.event(now, Event::Arrived { from, toward, message }, out);
            }
            Ok(None) => return,
            Err(rejection) => rejection,
        };
        // A component's noise is skipped; everybody is told of a message that is not one.
        if from.is_component() && matches!(rejection.why, Malformed::NotJson(_)) {
            let text = rejection.why.to_string();
            return out.push(Output::Warn { seat: from, text });
        }
        if let Some(reply) = &rejection.reply {
            out.extend(self.encode(from, Side::Editor, reply));
        }
    }

    /// Anything else happened.
    pub fn event(&mut self, now: Time, event: Event, out: &mut Vec<Output>) {
        let mut actions = Vec::new();
        let event = match &mut self.meddler {
            Some(meddler) => meddler.before(event),
            None => Some(event),
        };
        if let Some(event) = event {
            self.router.handle(now, event, &mut actions);
        }
        if let Some(meddler) = &mut self.meddler {
            meddler.after(&mut actions);
        }
        for action in actions {
            match action {
                Action::Deliver { to, toward, message } => {
                    out.extend(self.encode(to, toward, &message));
                }
                Action::Start(seat) => out.push(Output::Start(seat)),
                Action::Report(Notice { level: Level::Warn, seat, text }) => {
                    out.push(Output::Warn { seat, text });
                }
                Action::Report(_) | Action::Returned { .. } => {}
                Action::Finish(ending) => {
                    self.finished = true;
                    out.push(Output::Finish(ending));
                }
            }
        }
    }

    fn encode(&mut self, to: Seat, toward: Side, message: &wire::Message) -> Vec<Output> {
        let mut text = Vec::new();
        self.dialects[to.index()].encode(toward, message, &mut text);
        lines(text).map(|line| Output::Line { to, line }).collect()
    }
}

fn lines(text: Vec<u8>) -> impl Iterator<Item = Bytes> {
    assert!(text.is_empty() || text.ends_with(b"\n"), "a line must end");
    let lines: Vec<Bytes> = text
        .split_inclusive(|&byte| byte == b'\n')
        .map(|line| Bytes::copy_from_slice(&line[..line.len() - 1]))
        .collect();
    lines.into_iter()
}
