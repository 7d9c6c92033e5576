//! The chain, the state of each of its seats, and how components end.

use acp_wire::{Json, Outcome, Side};

use crate::event::Time;

/// A position in the chain.
///
/// Seat 0 is the outer pipe: the editor, or the conductor whose proxy this chain is. The components have the
/// seats from 1 on, in the order of the command line. A component may crash and be replaced; its seat stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seat(pub u16);

impl Seat {
    /// The outer pipe: the editor, or an outer conductor.
    pub const OUTER: Seat = Seat(0);

    /// Stands for the conductor itself, as the sender of its own requests. No peer has this seat.
    pub const CONDUCTOR: Seat = Seat(u16::MAX);

    /// The number of the seat, for indexing.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Whether this is the seat of a component and not the outer pipe.
    pub fn is_component(self) -> bool {
        self != Seat::OUTER
    }
}

/// What is at the agent's end of the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The last component is the agent.
    Agent,
    /// All components are proxies. The chain is itself a proxy: the outer pipe leads to the editor's side and
    /// to the agent's side.
    Proxy,
}

/// What a component is in the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Sees messages from both sides and forwards them.
    Proxy,
    /// Ends the chain.
    Agent,
}

/// The configuration of a chain.
#[derive(Debug, Clone)]
pub struct Chain {
    /// What is at the agent's end.
    pub mode: Mode,
    /// The components, from the editor's side to the agent's side.
    pub components: Vec<Component>,
    /// How long a component may take to answer `initialize`, in milliseconds.
    pub initialize_timeout: u64,
    /// How long requests may stay open during shutdown, in milliseconds.
    pub grace: u64,
    /// Accept a `protocolVersion` of the editor that is not an integer. The documents of the oldest protocol
    /// generations use `"0.1.0"`.
    pub any_version: bool,
}

/// The configuration of one component.
#[derive(Debug, Clone)]
pub struct Component {
    /// The name in errors and logs.
    pub name: String,
    /// The command that starts it, for errors.
    pub command: String,
    /// The component must not be bypassed or skipped, because it is there to keep messages from passing.
    pub guard: bool,
    /// Which `session/update`s it is sent.
    pub updates: UpdateFilter,
}

/// Which `session/update`s a proxy is sent. The others skip it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UpdateFilter {
    /// If the SDKs of the proxy's generation fail on updates that they cannot read, only the updates that
    /// they can read. Otherwise all.
    #[default]
    Auto,
    /// All updates. In addition, no other message skips this proxy.
    All,
    /// Only the updates that the SDKs of the proxy's generation can read.
    Known,
}

impl Component {
    /// A component that is not a guard and has the default update filter.
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
    /// The seats of all components, in order.
    pub fn seats(&self) -> impl Iterator<Item = Seat> {
        (1..=self.components.len() as u16).map(Seat)
    }

    /// The role of the component at `seat`.
    pub fn role(&self, seat: Seat) -> Role {
        match self.mode {
            Mode::Agent if seat.index() == self.components.len() => Role::Agent,
            _ => Role::Proxy,
        }
    }

    /// The seat next to `seat` in a direction.
    ///
    /// In proxy mode the chain is a ring through the outer pipe. Otherwise there is no seat after the agent
    /// and none before the editor; their dialects refuse messages in that direction.
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

    /// The role and name of a peer for use in a sentence, for example `proxy 'context'`.
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

    /// The name of the component at `seat`, or `outer`.
    pub fn name(&self, seat: Seat) -> &str {
        match self.component(seat) {
            Some(component) => &component.name,
            None => "outer",
        }
    }

    /// The configuration of the component at `seat`. `None` for the outer pipe.
    pub fn component(&self, seat: Seat) -> Option<&Component> {
        self.components.get(seat.index().checked_sub(1)?)
    }
}

/// The last `initialize` exchange with a component.
#[derive(Debug, Clone, Default)]
pub struct Handshake {
    /// The params that the component was sent.
    pub params: Option<Json>,
    /// The component's answer.
    pub answer: Option<Outcome>,
    /// The answer of the component's successor to the `initialize` that the component sent to it.
    pub successor_answer: Option<Outcome>,
}

/// The lifecycle state of a seat. Only the router changes it.
///
/// How the last component of a seat ended is in [`Router::last_exit`](crate::Router::last_exit).
#[derive(Debug, Clone)]
pub enum SeatState {
    /// The component has not been started.
    NotStarted,
    /// The component was started and has not been sent `initialize`.
    Starting,
    /// The component was sent `initialize` and has not answered.
    Initializing {
        /// The params of `initialize`.
        params: Option<Json>,
        /// The component has sent its own `initialize` to its successor.
        forwarded: bool,
        /// When the component became live, if it is live and is initialized once more.
        live_since: Option<Time>,
    },
    /// The component can be sent messages.
    Live {
        /// Since when.
        since: Time,
    },
    /// The component failed. Messages for it are held (see [`recovery`](crate::recovery)).
    Down {
        /// When the next process is started.
        at: Time,
        /// How many restarts in a row were attempted.
        attempts: u32,
    },
    /// The component was restarted and sent `initialize`. Messages for it are held.
    Reinitializing {
        /// When the answer is due.
        until: Time,
    },
    /// The restarted component answered `initialize`, and its sessions are replayed. Messages for it are held.
    Replaying {
        /// When the next answer is due.
        until: Time,
    },
    /// The seat was removed from the chain. Messages go to the next seat.
    Bypassed,
    /// The component is gone and the chain is shutting down.
    Closed,
}

impl SeatState {
    /// Whether the component has failed and its replacement is not ready for messages.
    pub fn is_recovering(&self) -> bool {
        matches!(
            self,
            SeatState::Down { .. } | SeatState::Reinitializing { .. } | SeatState::Replaying { .. }
        )
    }

    /// Whether a component in this seat has ever answered `initialize`, so that a restarted one can be
    /// initialized with the same params.
    pub fn was_initialized(&self) -> bool {
        self.is_up() || self.is_recovering()
    }

    /// Whether the component can be sent messages.
    pub fn is_up(&self) -> bool {
        self.live_since().is_some()
    }

    /// Since when the component can be sent messages.
    pub fn live_since(&self) -> Option<Time> {
        match self {
            SeatState::Live { since } | SeatState::Initializing { live_since: Some(since), .. } => {
                Some(*since)
            }
            _ => None,
        }
    }

    /// Whether there is no component in this seat, for now or for good.
    pub fn is_vacant(&self) -> bool {
        matches!(self, SeatState::Down { .. } | SeatState::Bypassed | SeatState::Closed)
    }

    /// When the next start or the next answer is due.
    pub fn deadline(&self) -> Option<Time> {
        match self {
            SeatState::Down { at: time, .. }
            | SeatState::Reinitializing { until: time }
            | SeatState::Replaying { until: time } => Some(*time),
            _ => None,
        }
    }
}

/// How a peer ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    /// What happened.
    pub cause: ExitCause,
    /// The last lines that the component wrote to stderr, and lines on stdout that were not messages. At
    /// most 20 lines.
    pub last_output: Vec<String>,
}

/// Why a peer sends nothing more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExitCause {
    /// The program could not be started, for this reason.
    NotStarted(String),
    /// The program exited with this status.
    Status(i32),
    /// The program was killed by this signal.
    Signal(i32),
    /// The in-process component ended, for this reason.
    Ended(String),
    /// The peer closed its output.
    ClosedOutput,
    /// The peer closed its input.
    ClosedInput,
    /// The SCP proxy closed the connection to its successor.
    ClosedSuccessor,
    /// The component did not answer `initialize` within this many milliseconds.
    InitializeTimeout(u64),
    /// The restarted component answered `initialize` with this error.
    RefusedInitialize(String),
    /// The component runs, but showed no activity for too long while it owed an answer.
    Unresponsive {
        /// The method of the request.
        method: String,
        /// The timeout, in milliseconds.
        limit: u64,
    },
    /// The component did not answer a cancelled request in time.
    Uncancellable {
        /// The method of the request.
        method: String,
        /// The timeout, in milliseconds.
        limit: u64,
    },
    /// A user's command restarted or bypassed the component.
    ByCommand,
    /// The component stopped reading its input while this many bytes were queued for it, which blocked the
    /// rest of the chain.
    StoppedReading(usize),
}

impl Exit {
    /// An exit without output.
    pub fn new(cause: ExitCause) -> Exit {
        Exit { cause, last_output: Vec::new() }
    }

    /// What happened, as the predicate of a sentence about the component.
    pub fn description(&self) -> String {
        match &self.cause {
            ExitCause::NotStarted(why) => format!("could not be started: {why}"),
            ExitCause::Status(status) => format!("exited with status {status}"),
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
                let limit = seconds(*limit);
                format!("showed no activity for {limit} while it owed an answer to {method}")
            }
            ExitCause::Uncancellable { method, limit } => {
                format!("kept running {method} for {} after it was cancelled", seconds(*limit))
            }
            ExitCause::ByCommand => "was stopped by a command".into(),
            ExitCause::StoppedReading(bytes) => match bytes >> 20 {
                0 => format!("stopped reading with {} KiB queued for it", bytes.div_ceil(1024)),
                mebibytes => format!("stopped reading with {mebibytes} MiB queued for it"),
            },
        }
    }

    /// What happened, as one verb: `crashed`, `failed` or `stopped`.
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

    /// Whether [`description`](Exit::description) makes clear which request failed.
    pub(crate) fn names_the_request(&self) -> bool {
        matches!(
            self.cause,
            ExitCause::InitializeTimeout(_)
                | ExitCause::NotStarted(_)
                | ExitCause::Unresponsive { .. }
                | ExitCause::Uncancellable { .. }
        )
    }

    /// What the user can do about it.
    pub fn remedy(&self) -> &'static str {
        match self.cause {
            ExitCause::NotStarted(_) => {
                "check that the command is spelled correctly, installed, executable and on the PATH"
            }
            ExitCause::InitializeTimeout(_) => {
                "check that the command speaks ACP on its standard input and output, or give it more time with --init-timeout"
            }
            ExitCause::StoppedReading(_) => {
                "check whether the component hangs; then start the chain again"
            }
            ExitCause::Unresponsive { .. } | ExitCause::Uncancellable { .. } => {
                "check whether the component hangs, or give it more time (--answer-limit, --prompt-limit, --cancel-limit)"
            }
            _ => "run the command by hand to see why it exits; then start the chain again",
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
    fn an_exit_is_described_in_a_sentence() {
        let method = || "m".to_owned();
        for (cause, description, verb) in [
            (ExitCause::NotStarted("why".into()), "could not be started: why", "crashed"),
            (ExitCause::Status(3), "exited with status 3", "crashed"),
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
                "showed no activity for 1 s while it owed an answer to m",
                "failed",
            ),
            (
                ExitCause::Uncancellable { method: method(), limit: 1000 },
                "kept running m for 1 s after it was cancelled",
                "failed",
            ),
            (ExitCause::ByCommand, "was stopped by a command", "stopped"),
            (
                ExitCause::StoppedReading(3 << 20),
                "stopped reading with 3 MiB queued for it",
                "failed",
            ),
        ] {
            let exit = Exit::new(cause);
            assert_eq!((exit.description().as_str(), exit.verb()), (description, verb));
        }
        let names_request = |cause| Exit::new(cause).names_the_request();
        assert!(
            names_request(ExitCause::InitializeTimeout(1))
                && names_request(ExitCause::NotStarted(String::new()))
        );
        assert!(!names_request(ExitCause::Status(0)) && !names_request(ExitCause::ByCommand));
        let remedy = |cause| Exit::new(cause).remedy();
        assert!(remedy(ExitCause::NotStarted(String::new())).contains("PATH"));
        assert!(remedy(ExitCause::InitializeTimeout(1)).contains("--init-timeout"));
        assert!(remedy(ExitCause::StoppedReading(1)).contains("hangs; then start"));
        assert!(
            remedy(ExitCause::Unresponsive { method: method(), limit: 1 })
                .contains("--answer-limit")
        );
        assert!(remedy(ExitCause::Status(1)).contains("by hand"));
    }
}
