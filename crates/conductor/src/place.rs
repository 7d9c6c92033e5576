//! A seat as the shell sees it: its links, its process, and what points to its end.

use std::time::Duration;

use router::{Exit, How};
use tokio::time::Instant;
use wire::dialect::{Generation, Greeting, Proxy};
use wire::{Dialect, Side};

use crate::flow::Gauge;
use crate::host::Occupant;
use crate::host::process::Words;
use crate::link::{Link, Reader, Writer};
use crate::lost::{Doubt, LostAnswers};
use crate::relay::Dock;

/// A component that closed its pipes has this long to end and so to say why.
const PARTING: Duration = Duration::from_secs(1);

/// Output of an ended component that is still open belongs to a child that escaped it.
const REMAINDER: Duration = Duration::from_millis(200);

/// A component that says nothing to its greeting is poked after this time: what an unknown greeting
/// has broken often ends only with the next line.
const POKE: Duration = Duration::from_secs(2);

/// Which of a seat's links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    Main,
    /// The second link of an SCP proxy, to what it takes for its successor.
    Relay,
}

#[derive(Debug)]
pub struct Place {
    pub link: Link,
    pub relay: Option<Link>,
    pub dock: Option<Dock>,
    /// As long as it runs.
    pub occupant: Option<Occupant>,
    pub words: Words,
    /// How many have sat here before.
    pub life: u32,
    /// When its present occupant was started.
    pub since: Option<Instant>,
    /// How the one before it ended.
    pub previous: Option<Exit>,
    pub fate: Fate,
    /// It is remembered which greeting it understands.
    pub learned: bool,
    /// What the components in this seat have spoken before.
    pub known: Option<Generation>,
    /// The last one did not understand the greeting of the one before it: the greetings that have failed
    /// since.
    pub probing: Option<Vec<Greeting>>,
    /// Answers of this component that could not be read, and could not be matched with a request yet.
    pub(crate) lost: LostAnswers,
    /// Whether its errors without an id can mean something else than a request.
    pub(crate) doubt: Doubt,
    quiet: Option<Quiet>,
}

/// What points to the end of a seat's occupant.
#[derive(Debug, Default)]
pub struct Fate {
    /// Its process has ended.
    how: Option<How>,
    /// It has closed its output, or its input.
    closed: Option<How>,
    /// When the first of these was seen.
    since: Option<Instant>,
    /// The router knows.
    pub left: bool,
}

/// A greeting that has met with silence.
#[derive(Debug)]
struct Quiet {
    /// When to poke, if that is still to be done.
    poke: Option<Instant>,
    /// When to begin again with another greeting.
    give_up: Option<Instant>,
}

impl Place {
    pub fn new(dialect: Dialect, longest_line: usize) -> Place {
        Place {
            link: Link::new(dialect, longest_line),
            relay: None,
            dock: None,
            occupant: None,
            words: Words::default(),
            life: 0,
            since: None,
            previous: None,
            fate: Fate::default(),
            learned: false,
            known: None,
            probing: None,
            lost: LostAnswers::default(),
            doubt: Doubt::default(),
            quiet: None,
        }
    }

    pub fn port(&mut self, port: Port) -> Option<&mut Link> {
        match port {
            Port::Main => Some(&mut self.link),
            Port::Relay => self.relay.as_mut(),
        }
    }

    /// The link for what travels toward that side: an SCP proxy has one for each.
    pub fn toward(&mut self, side: Side) -> &mut Link {
        match (&mut self.relay, side) {
            (Some(relay), Side::Editor) => relay,
            _ => &mut self.link,
        }
    }

    pub fn links(&mut self) -> impl Iterator<Item = &mut Link> {
        std::iter::once(&mut self.link).chain(&mut self.relay)
    }

    /// There is more of what its occupant said, and it is not its turn.
    fn held(&self) -> bool {
        self.link.paused && self.link.reader.is_some()
    }

    pub fn gauge(&self) -> Gauge {
        let main = self.link.gauge();
        match self.relay.as_ref().map(Link::gauge) {
            Some(relay) => Gauge {
                queued: main.queued.max(relay.queued),
                full: main.full || relay.full,
                pending: main.pending || relay.pending,
            },
            None => main,
        }
    }

    /// How the occupant ended, once all that it said has been handled.
    pub fn departed(&self, outer: bool) -> Option<How> {
        let since = self.fate.since.filter(|_| !self.fate.left)?;
        let drained = self.link.reader.is_none();
        match (&self.fate.how, &self.fate.closed) {
            (Some(how), _) if drained || (!self.held() && since.elapsed() >= REMAINDER) => {
                Some(how.clone())
            }
            (None, Some(how)) if outer || since.elapsed() >= PARTING => Some(how.clone()),
            _ => None,
        }
    }

    /// When to look again whether it has ended.
    pub fn patience(&self) -> Option<Instant> {
        let since = self.fate.since.filter(|_| !self.fate.left && !self.held())?;
        Some(since + if self.fate.how.is_some() { REMAINDER } else { PARTING })
    }

    /// Looks after a greeting that meets with silence: pokes the component once, and when most of the
    /// time until `deadline` is over, ends it, if there is another greeting to try on a fresh one. Says when
    /// to look again.
    pub fn mind_silence(&mut self, deadline: Option<Instant>) -> Option<Instant> {
        let proxy = self.link.dialect().proxy().filter(|it| it.awaits_first_word());
        let Some(proxy) = proxy.filter(|_| self.occupant.is_some()) else {
            self.quiet = None;
            return None;
        };
        let can_begin_again = proxy.can_begin_again();
        let now = Instant::now();
        let quiet = self.quiet.get_or_insert_with(|| Quiet {
            poke: Some(now + POKE),
            // A greeting that is only a guess must leave time for all the others.
            give_up: deadline
                .map(|deadline| now + (deadline - now) * if proxy.is_guess() { 1 } else { 2 } / 3),
        });
        if let Some(due) = quiet.poke {
            if due <= now {
                quiet.poke = None;
                self.link.with_dialect(|dialect, out| dialect.proxy_mut().map(|it| it.poke(out)));
            }
            return Some(due);
        }
        let due = quiet.give_up.filter(|_| can_begin_again)?;
        if due <= now {
            quiet.give_up = None;
            self.occupant.iter().for_each(Occupant::kill);
        }
        Some(due)
    }

    /// The component has answered a greeting, and may have been sent another one: its time begins now.
    pub fn restart_silence(&mut self) {
        self.quiet = None;
    }

    /// An SCP proxy has closed the pipe to what it takes for its successor, or that program has ended.
    /// Without it, it can do its part no longer.
    pub fn lose_relay(&mut self) {
        if let Some(relay) = &mut self.relay {
            relay.reader = None;
            relay.hang_up();
        }
        self.fate.closed(How::ClosedSuccessor);
    }

    /// What the component said last, and which greetings it did not understand.
    pub fn last_words(&mut self) -> Vec<String> {
        if let Some(tried) = self.link.dialect().proxy().and_then(Proxy::tried) {
            self.words.push(format!("(greeted in vain) {tried}"));
        }
        self.words.list()
    }

    /// Gives the seat to somebody who was just started.
    pub fn occupy(&mut self, occupant: Occupant, reader: Reader, writer: Writer) {
        self.words = occupant.words().clone();
        self.occupant = Some(occupant);
        self.since = Some(Instant::now());
        self.link.attach(reader, writer);
    }

    /// Makes room for the next occupant.
    pub fn vacate(&mut self, how: How) {
        self.previous = Some(Exit { how, last_words: self.words.list() });
        self.since = None;
        self.occupant = None;
        self.relay = None;
        self.dock = None;
        self.fate = Fate::default();
        self.lost = LostAnswers::default();
        self.doubt = Doubt::default();
        self.quiet = None;
        self.life += 1;
    }
}

impl Fate {
    pub fn ended(&mut self, how: How) {
        self.since.get_or_insert_with(Instant::now);
        self.how.get_or_insert(how);
    }

    pub fn closed(&mut self, how: How) {
        self.since.get_or_insert_with(Instant::now);
        // That nobody reads us is the stronger word.
        if how == How::ClosedInput || self.closed.is_none() {
            self.closed = Some(how);
        }
    }
}
