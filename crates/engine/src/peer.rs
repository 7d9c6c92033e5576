//! What the core knows of the peer in a seat: the dialects of its links, its process, and signs of its end.

use acp_wire::dialect::{Generation, Greeting, Proxy};
use acp_wire::{Dialect, Side};
use router::{ExitCause, Time};

use crate::flow_control::Watermarks;
use crate::input::{Link, Outputs, Port};
use crate::lost_answers::{LostAnswers, NullIdErrors};

/// A component that has closed its pipes has so many milliseconds to end, and so to show why.
const PARTING: u64 = 1_000;

/// If the output of a component is still open so many milliseconds after its end, a process that it
/// has left behind holds it.
const REMAINDER: u64 = 200;

/// A component that does not react to its greeting is sent another line after so many milliseconds: a program
/// that an unknown greeting has broken often ends only with the next line.
const POKE: u64 = 2_000;

/// How many lines of a component's standard error are kept for error messages.
const MAX_OUTPUT_LINES: usize = 20;

#[derive(Debug)]
pub struct Peer {
    pub dialect: Dialect,
    pub relay: Option<Dialect>,
    main_pipe: Pipe,
    relay_pipe: Pipe,
    /// Its process runs.
    pub running: bool,
    /// How many components have sat here before.
    pub life: u32,
    /// When it was started.
    pub since: Option<Time>,
    pub termination: Termination,
    recent_output: Vec<String>,
    /// It is remembered which greeting it understands.
    pub greeting_recorded: bool,
    /// What the components in this seat have spoken before.
    pub known: Option<Generation>,
    /// The last component did not understand the greeting of the one before it: the greetings that have
    /// failed since.
    pub probing: Option<Vec<Greeting>>,
    /// The shell was asked to let a relay connect.
    pub awaits_relay: bool,
    /// Answers of this component that could not be read, and could not be matched with a request yet.
    pub lost: LostAnswers,
    /// Whether its errors without an id can mean something else than a request.
    pub null_id_errors: NullIdErrors,
    greeting_timer: Option<GreetingTimer>,
}

/// One link of a peer.
#[derive(Debug, Default, Clone, Copy)]
pub struct Pipe {
    /// The peer may write more.
    pub open: bool,
    /// The peer reads.
    pub writable: bool,
    /// It is not read, because a queue that it feeds is full.
    pub paused: bool,
    /// It has sent something that is not read.
    pub readable: bool,
    /// When it last read something, or the first message was queued that it has not read.
    pub unread_since: Option<Time>,
    /// Its queue went over [`Watermarks::high`] and is not yet under [`Watermarks::low`].
    pub full: bool,
}

impl Pipe {
    /// The peer has written something that is not read.
    pub fn is_blocked(&self) -> bool {
        self.paused && self.readable
    }
}

/// What points to the end of a peer.
#[derive(Debug, Default)]
pub struct Termination {
    /// Its process has ended.
    how: Option<ExitCause>,
    /// It has closed its output, or its input.
    closed: Option<ExitCause>,
    /// When the first of these was seen.
    since: Option<Time>,
    /// This was acted on.
    pub left: bool,
}

/// A greeting that has met with silence.
#[derive(Debug)]
struct GreetingTimer {
    /// When to send another line, if that is still to be done.
    poke: Option<Time>,
    /// When to kill the component, to begin again with another greeting.
    give_up: Option<Time>,
}

/// What to do about a component that does not react to its greeting.
#[derive(Debug, PartialEq, Eq)]
pub enum GreetingAction {
    Wait,
    Poke,
    Kill,
}

impl Peer {
    pub fn new(dialect: Dialect) -> Peer {
        Peer {
            dialect,
            relay: None,
            main_pipe: Pipe::default(),
            relay_pipe: Pipe::default(),
            running: false,
            life: 0,
            since: None,
            termination: Termination::default(),
            recent_output: Vec::new(),
            greeting_recorded: false,
            known: None,
            probing: None,
            awaits_relay: false,
            lost: LostAnswers::default(),
            null_id_errors: NullIdErrors::default(),
            greeting_timer: None,
        }
    }

    pub fn pipe(&self, port: Port) -> &Pipe {
        match port {
            Port::Main => &self.main_pipe,
            Port::Relay => &self.relay_pipe,
        }
    }

    pub fn pipe_mut(&mut self, port: Port) -> &mut Pipe {
        match port {
            Port::Main => &mut self.main_pipe,
            Port::Relay => &mut self.relay_pipe,
        }
    }

    pub fn ports(&self) -> impl Iterator<Item = Port> + use<> {
        let relay = self.relay.is_some().then_some(Port::Relay);
        std::iter::once(Port::Main).chain(relay)
    }

    pub fn dialect_at(&mut self, port: Port) -> Option<&mut Dialect> {
        match port {
            Port::Main => Some(&mut self.dialect),
            Port::Relay => self.relay.as_mut(),
        }
    }

    /// The link for what travels toward that side: an SCP proxy has one for each.
    pub fn port_toward(&self, side: Side) -> Port {
        match side {
            Side::Editor if self.relay.is_some() => Port::Relay,
            _ => Port::Main,
        }
    }

    /// How many bytes wait in the dialect until it is known how to spell them.
    pub fn backlog(&self, port: Port) -> usize {
        match port {
            Port::Main => self.dialect.held_bytes(),
            Port::Relay => self.relay.as_ref().map_or(0, |it| it.held_bytes()),
        }
    }

    /// A process has been started: it can be read and written.
    pub fn started(&mut self, now: Time) {
        self.running = true;
        self.since = Some(now);
        self.opened();
    }

    /// The main link can be read and written. That of the editor is from the beginning.
    pub fn opened(&mut self) {
        self.main_pipe = Pipe { open: true, writable: true, ..Pipe::default() };
    }

    pub fn joined(&mut self, relay: Dialect) {
        self.relay = Some(relay);
        self.relay_pipe = Pipe { open: true, writable: true, ..Pipe::default() };
    }

    /// Adds to the last words.
    pub fn add_output_line(&mut self, line: String) {
        if self.recent_output.len() == MAX_OUTPUT_LINES {
            self.recent_output.remove(0);
        }
        self.recent_output.push(line);
    }

    pub fn recent_output(&self) -> &[String] {
        &self.recent_output
    }

    /// The last words, and which greetings were not understood.
    pub fn last_words(&mut self) -> Vec<String> {
        if let Some(tried) = self.dialect.proxy().and_then(Proxy::attempts_summary) {
            self.add_output_line(format!("(greeted in vain) {tried}"));
        }
        self.recent_output.clone()
    }

    /// It has more to say and is not read.
    fn is_held(&self) -> bool {
        self.main_pipe.open && (self.main_pipe.paused || self.main_pipe.readable)
    }

    /// How it ended, once everything that it said has been handled.
    pub fn confirmed_end(&self, now: Time, outer: bool) -> Option<ExitCause> {
        let since = self.termination.since.filter(|_| !self.termination.left)?;
        let drained = !self.main_pipe.open;
        match (&self.termination.how, &self.termination.closed) {
            (Some(how), _) if drained || (!self.is_held() && since.plus(REMAINDER) <= now) => {
                Some(how.clone())
            }
            (None, Some(how)) if outer || since.plus(PARTING) <= now => Some(how.clone()),
            _ => None,
        }
    }

    /// When to look again whether it has ended.
    pub fn end_deadline(&self) -> Option<Time> {
        let since = self.termination.since.filter(|_| !self.termination.left && !self.is_held())?;
        Some(since.plus(if self.termination.how.is_some() { REMAINDER } else { PARTING }))
    }

    /// What to do about a greeting that meets with silence, and when to look again. `deadline` is the end of
    /// the time for the whole greeting.
    pub fn silence(&mut self, now: Time, deadline: Option<Time>) -> GreetingAction {
        if !self.awaits_first_line() {
            self.greeting_timer = None;
            return GreetingAction::Wait;
        }
        let is_guess = self.dialect.proxy().is_some_and(Proxy::is_guessing);
        let can_begin_again = self.can_begin_again();
        let quiet = self.greeting_timer.get_or_insert_with(|| GreetingTimer {
            poke: Some(now.plus(POKE)),
            // A greeting that is only a guess must leave time for all the others.
            give_up: deadline.map(|deadline| {
                let left = deadline.0.saturating_sub(now.0);
                now.plus(left * if is_guess { 1 } else { 2 } / 3)
            }),
        });
        if let Some(due) = quiet.poke {
            if due > now {
                return GreetingAction::Wait;
            }
            quiet.poke = None;
            return GreetingAction::Poke;
        }
        match quiet.give_up.filter(|due| *due <= now && can_begin_again) {
            Some(_) => {
                quiet.give_up = None;
                GreetingAction::Kill
            }
            None => GreetingAction::Wait,
        }
    }

    fn awaits_first_line(&self) -> bool {
        self.running && self.dialect.proxy().is_some_and(Proxy::awaits_first_line)
    }

    fn can_begin_again(&self) -> bool {
        self.dialect.proxy().is_some_and(Proxy::can_retry)
    }

    /// Whether [`silence`](Peer::silence) has to be looked after.
    pub fn has_greeting_timer(&self) -> bool {
        self.greeting_timer.is_some() || (!self.greeting_recorded && self.awaits_first_line())
    }

    /// Whether flow control has to look at it: a queue is full, or a link is not read.
    pub fn is_regulated(&self) -> bool {
        let is_it = |pipe: &Pipe| pipe.full || pipe.paused;
        is_it(&self.main_pipe) || is_it(&self.relay_pipe)
    }

    /// When to look after a silence again.
    pub fn handshake_deadline(&self) -> Option<Time> {
        let quiet = self.greeting_timer.as_ref()?;
        quiet.poke.or(quiet.give_up.filter(|_| self.can_begin_again()))
    }

    /// It has answered a greeting, and may have been sent another one: the time begins now.
    pub fn reset_greeting_timer(&mut self) {
        self.greeting_timer = None;
    }

    /// Makes room for the next component. Gives the last words of this one.
    pub fn vacate(&mut self) -> Vec<String> {
        self.since = None;
        self.running = false;
        self.relay = None;
        self.awaits_relay = false;
        (self.main_pipe, self.relay_pipe) = (Pipe::default(), Pipe::default());
        self.termination = Termination::default();
        self.lost = LostAnswers::default();
        self.null_id_errors = NullIdErrors::default();
        self.greeting_timer = None;
        self.life += 1;
        std::mem::take(&mut self.recent_output)
    }

    /// Something that was queued for a link was read.
    pub fn note_read(&mut self, now: Time, link: Link, out: &Outputs) {
        let is_left = out.queued(link) + self.backlog(link.port) > 0;
        self.pipe_mut(link.port).unread_since = is_left.then_some(now);
    }

    /// If its queue is full: since when it has read nothing.
    pub fn full_since(&self) -> Option<Time> {
        let pipes = [&self.main_pipe, &self.relay_pipe].into_iter();
        pipes.filter(|pipe| pipe.full).filter_map(|pipe| pipe.unread_since).min()
    }

    /// A link was written to, or drained.
    pub fn update_full(&mut self, link: Link, marks: Watermarks, out: &Outputs) {
        let queued = out.queued(link) + self.backlog(link.port);
        let pipe = self.pipe_mut(link.port);
        pipe.full = queued > if pipe.full { marks.low } else { marks.high };
    }
}

impl Termination {
    /// What was not read before can be read now: the time for the rest of the output begins.
    pub fn restart(&mut self, now: Time) {
        self.since = self.since.map(|_| now);
    }

    pub fn ended(&mut self, now: Time, how: ExitCause) {
        self.since.get_or_insert(now);
        self.how.get_or_insert(how);
    }

    pub fn closed(&mut self, now: Time, how: ExitCause) {
        self.since.get_or_insert(now);
        // That the peer does not read says more than that it writes no more.
        if how == ExitCause::ClosedInput || self.closed.is_none() {
            self.closed = Some(how);
        }
    }
}
