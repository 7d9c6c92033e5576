//! The state of the peer in a seat: the dialects of its links, its process, and whether it has ended.

use acp_wire::dialect::{Generation, Greeting, Proxy};
use acp_wire::{Dialect, Side};
use router::{ExitCause, Time};

use crate::flow_control::Watermarks;
use crate::input::{LinkId, Outputs, Port};
use crate::lost_answers::{LostAnswers, NullIdErrors};

/// How long the core waits for the exit status of a component that has closed its pipes, in milliseconds.
const EXIT_TIMEOUT: u64 = 1_000;

/// How long the core waits for the rest of the output after a process has exited, in milliseconds. If the pipe is still
/// open then, a child process holds it.
const DRAIN_TIMEOUT: u64 = 200;

/// After how many milliseconds a component that does not react to its greeting is sent a notification without effect.
/// Some programs that fail on an unknown greeting exit only when they read the next line.
const NOOP_DELAY: u64 = 2_000;

/// How many lines of a component's output are kept for its crash report. The reason may be above a long stack trace.
const MAX_OUTPUT_LINES: usize = 200;

/// The peer in a seat: a component, or the outer pipe.
#[derive(Debug)]
pub struct Peer {
    /// The dialect of the main link.
    pub(crate) dialect: Dialect,
    /// The dialect of the relay link, once a relay has connected.
    pub(crate) relay: Option<Dialect>,
    main_link: LinkState,
    relay_link: LinkState,
    /// Whether its process runs.
    pub(crate) is_running: bool,
    /// The number of its process among all processes of this seat. The first process is number 0.
    pub incarnation: u32,
    /// When its process was started. `None` before the start.
    pub started_at: Option<Time>,
    pub(crate) termination: Termination,
    recent_output: Vec<String>,
    /// Whether the greeting that the component understands is known, and recorded for later runs.
    pub(crate) greeting_recorded: bool,
    /// The generation of the last process in this seat that understood its greeting.
    pub(crate) last_generation: Option<Generation>,
    /// The greetings that the last processes in this seat did not understand, while not all greetings have been tried.
    pub(crate) failed_greetings: Option<Vec<Greeting>>,
    /// Whether the next process in this seat is that of another program, or has another configuration.
    pub(crate) is_replaced: bool,
    /// Whether [`Output::OpenRelay`](crate::Output::OpenRelay) was sent for this process.
    pub(crate) awaits_relay: bool,
    /// Unreadable answers of this component that have not been matched with a request yet.
    pub(crate) lost: LostAnswers,
    /// Whether an error without an id can only be the answer to a request.
    pub(crate) null_id_errors: NullIdErrors,
    greeting_timer: Option<GreetingTimer>,
}

/// The state of one link of a peer.
#[derive(Debug, Default, Clone, Copy)]
pub struct LinkState {
    /// Whether the peer's output is open.
    pub open: bool,
    /// Whether the peer's input is open.
    pub writable: bool,
    /// Whether the link is not read, because a queue that it feeds is full.
    pub paused: bool,
    /// Whether a paused link has unread bytes.
    pub readable: bool,
    /// If bytes are queued: when the peer last read something, or the first of these bytes was queued.
    pub unread_since: Option<Time>,
    /// Whether the queue exceeded [`Watermarks::high`] and has not drained below [`Watermarks::low`] since.
    pub full: bool,
}

impl LinkState {
    /// Whether the link is paused and has unread bytes.
    pub fn is_blocked(&self) -> bool {
        self.paused && self.readable
    }
}

/// What is known about the end of a peer.
#[derive(Debug, Default)]
pub(crate) struct Termination {
    /// How its process has ended.
    exit: Option<ExitCause>,
    /// Whether it has closed its input, its output, or its relay link.
    closed: Option<ExitCause>,
    /// When the core received the first report of its end. A link that is resumed restarts this time.
    since: Option<Time>,
    /// Whether the end was reported to the stages.
    pub(crate) is_handled: bool,
}

/// The timers of a greeting that has not been answered.
#[derive(Debug)]
struct GreetingTimer {
    /// When to send a notification without effect. `None` after it was sent.
    noop: Option<Time>,
    /// When to kill the component, to start it again with another greeting.
    give_up: Option<Time>,
}

/// What to do about a component that has not answered its greeting.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum GreetingAction {
    /// Nothing.
    Wait,
    /// Send a notification without effect.
    SendNoop,
    /// Kill the component.
    Kill,
}

impl Peer {
    /// A peer whose process has not been started.
    pub(crate) fn new(dialect: Dialect) -> Peer {
        Peer {
            dialect,
            relay: None,
            main_link: LinkState::default(),
            relay_link: LinkState::default(),
            is_running: false,
            incarnation: 0,
            started_at: None,
            termination: Termination::default(),
            recent_output: Vec::new(),
            greeting_recorded: false,
            last_generation: None,
            failed_greetings: None,
            is_replaced: false,
            awaits_relay: false,
            lost: LostAnswers::default(),
            null_id_errors: NullIdErrors::default(),
            greeting_timer: None,
        }
    }

    /// The state of one of its links.
    pub fn link_state(&self, port: Port) -> &LinkState {
        match port {
            Port::Main => &self.main_link,
            Port::Relay => &self.relay_link,
        }
    }

    pub(crate) fn link_state_mut(&mut self, port: Port) -> &mut LinkState {
        match port {
            Port::Main => &mut self.main_link,
            Port::Relay => &mut self.relay_link,
        }
    }

    /// The links that it has.
    pub(crate) fn ports(&self) -> impl Iterator<Item = Port> + use<> {
        let relay = self.relay.is_some().then_some(Port::Relay);
        std::iter::once(Port::Main).chain(relay)
    }

    /// The dialect of one of its links.
    pub(crate) fn dialect_at(&mut self, port: Port) -> Option<&mut Dialect> {
        match port {
            Port::Main => Some(&mut self.dialect),
            Port::Relay => self.relay.as_mut(),
        }
    }

    /// The link for messages that travel toward a side. An SCP proxy has one link for each side.
    pub(crate) fn port_toward(&self, side: Side) -> Port {
        match side {
            Side::Editor if self.relay.is_some() => Port::Relay,
            _ => Port::Main,
        }
    }

    /// How many bytes the dialect of a link holds until the handshake has shown how to encode them.
    pub(crate) fn backlog(&self, port: Port) -> usize {
        match port {
            Port::Main => self.dialect.held_bytes(),
            Port::Relay => self.relay.as_ref().map_or(0, |it| it.held_bytes()),
        }
    }

    /// Its process is being started.
    pub(crate) fn started(&mut self, now: Time) {
        self.is_running = true;
        self.started_at = Some(now);
        self.opened();
    }

    /// Opens the main link. The link of the editor is open from the beginning.
    pub(crate) fn opened(&mut self) {
        self.main_link = LinkState { open: true, writable: true, ..LinkState::default() };
    }

    /// Its relay has connected.
    pub(crate) fn relay_connected(&mut self, relay: Dialect) {
        self.relay = Some(relay);
        self.relay_link = LinkState { open: true, writable: true, ..LinkState::default() };
    }

    /// Adds a line to the recent output.
    pub(crate) fn add_output_line(&mut self, line: String) {
        if self.recent_output.len() == MAX_OUTPUT_LINES {
            self.recent_output.remove(0);
        }
        self.recent_output.push(line);
    }

    /// The last lines of its standard error, and lines of its standard output that were not messages.
    pub fn recent_output(&self) -> &[String] {
        &self.recent_output
    }

    /// Whether more output may come: the output is open, and is paused or has unread bytes.
    fn has_unread_output(&self) -> bool {
        self.main_link.open && (self.main_link.paused || self.main_link.readable)
    }

    /// How it ended, once all its output has been handled. The outer pipe has no process, so the core does not wait for
    /// its exit status.
    pub(crate) fn confirmed_end(&self, now: Time, outer: bool) -> Option<ExitCause> {
        let since = self.termination.since.filter(|_| !self.termination.is_handled)?;
        let drained = !self.main_link.open;
        match (&self.termination.exit, &self.termination.closed) {
            (Some(how), _)
                if drained || (!self.has_unread_output() && since.plus(DRAIN_TIMEOUT) <= now) =>
            {
                Some(how.clone())
            }
            (None, Some(how)) if outer || since.plus(EXIT_TIMEOUT) <= now => Some(how.clone()),
            _ => None,
        }
    }

    /// When to check again whether it has ended.
    pub(crate) fn end_deadline(&self) -> Option<Time> {
        let since = self
            .termination
            .since
            .filter(|_| !self.termination.is_handled && !self.has_unread_output())?;
        Some(since.plus(if self.termination.exit.is_some() { DRAIN_TIMEOUT } else { EXIT_TIMEOUT }))
    }

    /// Decides what to do about a greeting that has not been answered, and updates its timers. `deadline` is the end
    /// of the time limit for the whole handshake.
    pub(crate) fn check_greeting(&mut self, now: Time, deadline: Option<Time>) -> GreetingAction {
        if !self.awaits_first_line() {
            self.greeting_timer = None;
            return GreetingAction::Wait;
        }
        let is_guess = self.dialect.proxy().is_some_and(Proxy::is_guessing);
        let can_retry_greeting = self.can_retry_greeting();
        let timer = self.greeting_timer.get_or_insert_with(|| GreetingTimer {
            noop: Some(now.plus(NOOP_DELAY)),
            // A greeting that is only a guess must leave time to try all the others.
            give_up: deadline.map(|deadline| {
                let left = deadline.0.saturating_sub(now.0);
                now.plus(left * if is_guess { 1 } else { 2 } / 3)
            }),
        });
        if let Some(due) = timer.noop {
            if due > now {
                return GreetingAction::Wait;
            }
            timer.noop = None;
            return GreetingAction::SendNoop;
        }
        match timer.give_up.filter(|due| *due <= now && can_retry_greeting) {
            Some(_) => {
                timer.give_up = None;
                GreetingAction::Kill
            }
            None => GreetingAction::Wait,
        }
    }

    /// Whether the component has not yet reacted to its greeting.
    fn awaits_first_line(&self) -> bool {
        self.is_running && self.dialect.proxy().is_some_and(Proxy::awaits_first_line)
    }

    /// Whether the component can be restarted with a greeting that has not been tried.
    fn can_retry_greeting(&self) -> bool {
        self.dialect.proxy().is_some_and(Proxy::can_retry)
    }

    /// Whether [`check_greeting`](Peer::check_greeting) has to be called.
    pub(crate) fn needs_greeting_check(&self) -> bool {
        self.greeting_timer.is_some() || (!self.greeting_recorded && self.awaits_first_line())
    }

    /// Whether flow control has to look at it: a queue is full, or a link is paused.
    pub(crate) fn needs_flow_control(&self) -> bool {
        [&self.main_link, &self.relay_link].iter().any(|state| state.full || state.paused)
    }

    /// When to call [`check_greeting`](Peer::check_greeting) again.
    pub(crate) fn handshake_deadline(&self) -> Option<Time> {
        let timer = self.greeting_timer.as_ref()?;
        timer.noop.or(timer.give_up.filter(|_| self.can_retry_greeting()))
    }

    /// Resets the timers: the component has reacted to a greeting. The dialect may have sent another one.
    pub(crate) fn reset_greeting_timer(&mut self) {
        self.greeting_timer = None;
    }

    /// Prepares the seat for the next process. Returns the recent output of the last one.
    pub(crate) fn reset(&mut self) -> Vec<String> {
        self.started_at = None;
        self.is_running = false;
        self.relay = None;
        self.awaits_relay = false;
        (self.main_link, self.relay_link) = (LinkState::default(), LinkState::default());
        self.termination = Termination::default();
        self.lost = LostAnswers::default();
        self.null_id_errors = NullIdErrors::default();
        self.greeting_timer = None;
        self.incarnation += 1;
        std::mem::take(&mut self.recent_output)
    }

    /// Bytes that were queued for a link have been written.
    pub(crate) fn on_written(&mut self, now: Time, link: LinkId, out: &Outputs) {
        let any_left = out.queued(link) + self.backlog(link.port) > 0;
        self.link_state_mut(link.port).unread_since = any_left.then_some(now);
    }

    /// Since when the peer has read nothing, if one of its queues is full.
    pub(crate) fn full_since(&self) -> Option<Time> {
        let links = [&self.main_link, &self.relay_link].into_iter();
        links.filter(|state| state.full).filter_map(|state| state.unread_since).min()
    }

    /// Updates whether the queue of a link is full.
    pub(crate) fn update_full(&mut self, link: LinkId, marks: Watermarks, out: &Outputs) {
        let queued = out.queued(link) + self.backlog(link.port);
        let state = self.link_state_mut(link.port);
        state.full = queued > if state.full { marks.low } else { marks.high };
    }
}

impl Termination {
    /// Restarts the timeout for the rest of the output: the link has been resumed.
    pub(crate) fn restart_timeout(&mut self, now: Time) {
        self.since = self.since.map(|_| now);
    }

    /// The process has ended.
    pub(crate) fn on_exit(&mut self, now: Time, how: ExitCause) {
        self.since.get_or_insert(now);
        self.exit.get_or_insert(how);
    }

    /// A pipe has been closed.
    pub(crate) fn on_pipe_closed(&mut self, now: Time, how: ExitCause) {
        self.since.get_or_insert(now);
        // A closed input is the better description of the cause.
        if how == ExitCause::ClosedInput || self.closed.is_none() {
            self.closed = Some(how);
        }
    }
}
