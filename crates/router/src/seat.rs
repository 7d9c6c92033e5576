//! The places of a chain, who sits there and what became of them.

use acp_wire::{Json, Outcome, Side};

use crate::event::Time;

/// A place in the chain. Seat 0 is the outer pipe: the editor, or the conductor above us. The
/// components sit from 1 on, in the order of the command line. Who sits there may die; the seat
/// stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seat(pub u16);

impl Seat {
    pub const OUTER: Seat = Seat(0);

    /// Nobody's place: who asks something here is the conductor itself.
    pub const SELF: Seat = Seat(u16::MAX);

    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    pub fn is_component(self) -> bool {
        self != Seat::OUTER
    }
}

/// What stands at the far end of the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The last component is the agent.
    Agent,
    /// All components are proxies; the outer pipe is at both ends, for whoever follows us there.
    Proxy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Proxy,
    Agent,
}

/// Who is to sit where, and how patient to be.
#[derive(Debug, Clone)]
pub struct Chain {
    pub mode: Mode,
    pub components: Vec<Component>,
    /// How long a component may take with its part of `initialize`, in milliseconds.
    pub initialize_timeout: u64,
    /// How long questions may stay open when the chain ends, in milliseconds.
    pub grace: u64,
    /// Take the editor's protocol version as it is, be it a number or not. For chains of the oldest
    /// generations, whose documents have `"0.1.0"`.
    pub any_version: bool,
}

/// What people call a component, for errors and logs.
#[derive(Debug, Clone)]
pub struct Component {
    pub name: String,
    pub command: String,
    /// It is there to keep something from passing: nothing may pass without it.
    pub guard: bool,
    pub updates: UpdateFilter,
}

/// Which `session/update`s a proxy is sent. The others go around it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UpdateFilter {
    /// Those that the SDKs of its generation can read, where proxies are known to fail with others.
    #[default]
    Auto,
    /// All of them, and everything else, too: it is spared nothing.
    All,
    /// Those that the SDKs of its generation can read.
    Known,
}

impl Component {
    pub fn new(name: impl Into<String>, command: impl Into<String>) -> Component {
        Component {
            name: name.into(),
            command: command.into(),
            guard: false,
            updates: UpdateFilter::Auto,
        }
    }
}

impl Chain {
    pub fn seats(&self) -> impl Iterator<Item = Seat> {
        (1..=self.components.len() as u16).map(Seat)
    }

    pub fn role(&self, seat: Seat) -> Role {
        match self.mode {
            Mode::Agent if seat.index() == self.components.len() => Role::Agent,
            _ => Role::Proxy,
        }
    }

    /// Who is next to `seat` in that direction. In proxy mode the chain is a ring through the outer
    /// pipe. Nobody is beyond the agent, nor before the editor: their dialects let nothing through
    /// in that direction.
    pub fn neighbour(&self, seat: Seat, toward: Side) -> Option<Seat> {
        let last = self.components.len() as u16;
        match toward {
            Side::Agent if seat.0 < last => Some(Seat(seat.0 + 1)),
            Side::Agent if self.mode == Mode::Proxy => Some(Seat::OUTER),
            Side::Editor if seat.is_component() => Some(Seat(seat.0 - 1)),
            Side::Editor if self.mode == Mode::Proxy => Some(Seat(last)),
            _ => None,
        }
    }

    /// How a seat is called in a sentence.
    pub fn describe(&self, seat: Seat) -> String {
        if seat == Seat::OUTER {
            return match self.mode {
                Mode::Agent => "the editor".into(),
                Mode::Proxy => "the outer conductor".into(),
            };
        }
        let name = self.name(seat);
        match self.role(seat) {
            Role::Agent => format!("agent '{name}'"),
            Role::Proxy => format!("proxy '{name}'"),
        }
    }

    pub fn name(&self, seat: Seat) -> &str {
        match self.component(seat) {
            Some(component) => &component.name,
            None => "outer",
        }
    }

    pub fn component(&self, seat: Seat) -> Option<&Component> {
        self.components.get(seat.index().checked_sub(1)?)
    }
}

/// The last handshake of a component: what it was asked and what it answered.
#[derive(Debug, Clone, Default)]
pub struct Handshake {
    pub params: Option<Json>,
    pub answer: Option<Outcome>,
    /// What its successor answered to the `initialize` that it passed on.
    pub successor_answer: Option<Outcome>,
}

/// Where a seat is in its state. The router writes it; all else reads it. Data exists only in the state that it
/// belongs to. How the last component of a seat ended is [`Router::last_exit`](crate::Router::last_exit).
#[derive(Debug, Clone)]
pub enum SeatState {
    /// Not started yet.
    NotStarted,
    /// Started; its turn in the handshake has not come.
    Starting,
    /// Was sent `initialize` with these params; `forwarded` once it sent its own to its successor;
    /// `again` if it was live before, and since when.
    Initializing { params: Option<Json>, forwarded: bool, again: Option<Time> },
    /// Answered `initialize`, or was told all that it must know; since when.
    Live { since: Time },
    /// Its component has failed, and the next one is started at this time, after so many attempts. What is
    /// sent to it waits (see `absence`).
    Down { at: Time, attempts: u32 },
    /// The next component was started and sent `initialize`, and has until then to answer.
    Reinitializing { until: Time },
    /// It has answered, and is told what it must know; until when the next answer is due.
    Replaying { until: Time },
    /// Left out for good: its neighbours are neighbours now.
    Bypassed,
    /// Gone for good.
    Closed,
}

impl SeatState {
    /// Its component has failed, and the next one cannot be sent messages yet.
    pub fn is_recovering(&self) -> bool {
        matches!(
            self,
            SeatState::Down { .. } | SeatState::Reinitializing { .. } | SeatState::Replaying { .. }
        )
    }

    /// Has a component in this seat ever answered `initialize`, so that it can be greeted again?
    pub fn was_initialized(&self) -> bool {
        self.is_up() || self.is_recovering()
    }

    /// It can be sent messages.
    pub fn is_up(&self) -> bool {
        self.live_since().is_some()
    }

    /// Since when it can be sent messages.
    pub fn live_since(&self) -> Option<Time> {
        match self {
            SeatState::Live { since } | SeatState::Initializing { again: Some(since), .. } => {
                Some(*since)
            }
            _ => None,
        }
    }

    /// There is no component, for now or for ever.
    pub fn is_vacant(&self) -> bool {
        matches!(self, SeatState::Down { .. } | SeatState::Bypassed | SeatState::Closed)
    }

    /// When something is due: a start, or an answer.
    pub fn deadline(&self) -> Option<Time> {
        match self {
            SeatState::Down { at: time, .. }
            | SeatState::Reinitializing { until: time }
            | SeatState::Replaying { until: time } => Some(*time),
            _ => None,
        }
    }
}

/// Why nothing more comes from a seat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    pub cause: ExitCause,
    /// The end of what it wrote on stderr, and noise it wrote on stdout: at most 20 lines.
    pub last_output: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExitCause {
    /// The program could not be started.
    NotStarted(String),
    /// The program ended with this status.
    Status(i32),
    /// The program was ended by this signal.
    Signal(i32),
    /// It ran in this process and came to an end, for this reason.
    Ended(String),
    /// It closed its output, which is all that we have of it.
    ClosedOutput,
    /// It does not read its input any more.
    ClosedInput,
    /// It closed its connection to its successor, which it had started itself.
    ClosedSuccessor,
    /// It did not do its part of the handshake in so many milliseconds.
    InitializeTimeout(u64),
    /// It took the place of another and refused to be initialized; these are its words.
    RefusedInitialize(String),
    /// It is alive, but has not answered this method for so many milliseconds.
    Unresponsive { method: String, limit: u64 },
    /// It has not honoured the cancellation of this method for so many milliseconds.
    Uncancellable { method: String, limit: u64 },
    /// The user wanted it replaced, or left out.
    ByCommand,
    /// It would not read while so many bytes waited for it, and the rest of the chain had to wait.
    StoppedReading(usize),
}

impl Exit {
    pub fn new(cause: ExitCause) -> Exit {
        Exit { cause, last_output: Vec::new() }
    }

    /// What happened, as the end of a sentence that starts with the component.
    pub fn description(&self) -> String {
        match &self.cause {
            ExitCause::NotStarted(why) => format!("could not be started: {why}"),
            ExitCause::Status(status) => format!("ended with status {status}"),
            ExitCause::Signal(signal) => {
                format!("was killed by signal {signal}{}", signal_name(*signal))
            }
            ExitCause::Ended(why) => format!("ended: {why}"),
            ExitCause::ClosedOutput => "closed its standard output".into(),
            ExitCause::ClosedInput => "closed its standard input".into(),
            ExitCause::ClosedSuccessor => "closed the connection to its successor".into(),
            ExitCause::InitializeTimeout(limit) => {
                format!("did not answer initialize within {}", seconds(*limit))
            }
            ExitCause::RefusedInitialize(why) => format!("refused to be initialized again: {why}"),
            ExitCause::Unresponsive { method, limit } => {
                format!("gave no sign of life for {} while it owed {method}", seconds(*limit))
            }
            ExitCause::Uncancellable { method, limit } => {
                format!("went on with {method} for {} after it was cancelled", seconds(*limit))
            }
            ExitCause::ByCommand => "was ended by a command".into(),
            ExitCause::StoppedReading(bytes) => match bytes >> 20 {
                0 => format!("stopped reading while {} KiB waited for it", bytes.div_ceil(1024)),
                mebibytes => format!("stopped reading while {mebibytes} MiB waited for it"),
            },
        }
    }

    /// What one says of it in a word.
    pub fn verb(&self) -> &'static str {
        match self.cause {
            ExitCause::InitializeTimeout(_)
            | ExitCause::StoppedReading(_)
            | ExitCause::RefusedInitialize(_)
            | ExitCause::Unresponsive { .. }
            | ExitCause::Uncancellable { .. } => "failed",
            ExitCause::ByCommand => "stopped",
            _ => "crashed",
        }
    }

    /// Is it clear from how it ended what was waited for?
    pub(crate) fn names_the_request(&self) -> bool {
        matches!(
            self.cause,
            ExitCause::InitializeTimeout(_)
                | ExitCause::NotStarted(_)
                | ExitCause::Unresponsive { .. }
                | ExitCause::Uncancellable { .. }
        )
    }

    pub fn remedy(&self) -> &'static str {
        match self.cause {
            ExitCause::NotStarted(_) => {
                "check that the command is spelt right, installed, executable and on the PATH"
            }
            ExitCause::InitializeTimeout(_) => {
                "check that the command speaks ACP on its standard input and output, or give it more time with --init-timeout"
            }
            ExitCause::StoppedReading(_) => {
                "check whether the component hangs; start the chain again"
            }
            ExitCause::Unresponsive { .. } | ExitCause::Uncancellable { .. } => {
                "check whether the component hangs, or give it more time (--answer-limit, --prompt-limit, --cancel-limit)"
            }
            _ => "run the command by hand to see why it ends; start the chain again",
        }
    }
}

fn seconds(milliseconds: u64) -> String {
    if milliseconds.is_multiple_of(1000) {
        format!("{} s", milliseconds / 1000)
    } else {
        format!("{milliseconds} ms")
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        1 => " (SIGHUP)",
        2 => " (SIGINT)",
        4 => " (SIGILL)",
        6 => " (SIGABRT)",
        9 => " (SIGKILL)",
        11 => " (SIGSEGV)",
        13 => " (SIGPIPE)",
        15 => " (SIGTERM)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_told_in_words() {
        let method = || "m".to_owned();
        for (how, what, verb) in [
            (ExitCause::NotStarted("why".into()), "could not be started: why", "crashed"),
            (ExitCause::Status(3), "ended with status 3", "crashed"),
            (ExitCause::Signal(1), "was killed by signal 1 (SIGHUP)", "crashed"),
            (ExitCause::Signal(2), "was killed by signal 2 (SIGINT)", "crashed"),
            (ExitCause::Signal(4), "was killed by signal 4 (SIGILL)", "crashed"),
            (ExitCause::Signal(6), "was killed by signal 6 (SIGABRT)", "crashed"),
            (ExitCause::Signal(9), "was killed by signal 9 (SIGKILL)", "crashed"),
            (ExitCause::Signal(11), "was killed by signal 11 (SIGSEGV)", "crashed"),
            (ExitCause::Signal(13), "was killed by signal 13 (SIGPIPE)", "crashed"),
            (ExitCause::Signal(15), "was killed by signal 15 (SIGTERM)", "crashed"),
            (ExitCause::Signal(10), "was killed by signal 10", "crashed"),
            (
                ExitCause::InitializeTimeout(1500),
                "did not answer initialize within 1500 ms",
                "failed",
            ),
            (ExitCause::InitializeTimeout(2000), "did not answer initialize within 2 s", "failed"),
            (
                ExitCause::RefusedInitialize("no".into()),
                "refused to be initialized again: no",
                "failed",
            ),
            (
                ExitCause::Unresponsive { method: method(), limit: 1000 },
                "gave no sign of life for 1 s while it owed m",
                "failed",
            ),
            (
                ExitCause::Uncancellable { method: method(), limit: 1000 },
                "went on with m for 1 s after it was cancelled",
                "failed",
            ),
            (ExitCause::ByCommand, "was ended by a command", "stopped"),
            (
                ExitCause::StoppedReading(3 << 20),
                "stopped reading while 3 MiB waited for it",
                "failed",
            ),
        ] {
            let exit = Exit::new(how);
            assert_eq!((exit.description().as_str(), exit.verb()), (what, verb));
        }
        let tells = |how| Exit::new(how).names_the_request();
        assert!(
            tells(ExitCause::InitializeTimeout(1)) && tells(ExitCause::NotStarted(String::new()))
        );
        assert!(!tells(ExitCause::Status(0)) && !tells(ExitCause::ByCommand));
        let remedy = |how| Exit::new(how).remedy();
        assert!(remedy(ExitCause::NotStarted(String::new())).contains("PATH"));
        assert!(remedy(ExitCause::InitializeTimeout(1)).contains("--init-timeout"));
        assert!(remedy(ExitCause::StoppedReading(1)).contains("hangs; start"));
        assert!(
            remedy(ExitCause::Unresponsive { method: method(), limit: 1 })
                .contains("--answer-limit")
        );
        assert!(remedy(ExitCause::Status(1)).contains("by hand"));
    }
}
