//! The chain, the state of each of its seats, and how components end.

use acp_wire::{Json, Outcome, Side};

use crate::event::Time;

/// A place in the chain.
///
/// Seat 0 is the outer pipe: the editor, or the conductor whose proxy this chain is. The components have the
/// seats from 1 on. A component may crash and be replaced; its seat stays. A chain begins with its seats in the order of
/// their numbers. A reload can change the order, add seats and remove seats; a seat never changes its number, so
/// the order of two seats is that of their [positions](Chain::position).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seat(pub u16);

impl Seat {
    /// The outer pipe: the editor, or an outer conductor.
    pub const OUTER: Seat = Seat(0);

    /// Stands for the conductor itself, as the sender of its own requests, and as the receiver of requests that it
    /// answers for a component. No peer has this seat.
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
    /// The component of each seat, from seat 1 on. Also those that a reload has removed.
    pub components: Vec<Component>,
    /// The seats of the chain, from the editor's side to the agent's side.
    pub order: Vec<Seat>,
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
    /// The conductor itself keeps the options of the component, and answers requests about them: a built-in component.
    pub managed: bool,
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
            managed: false,
        }
    }
}

impl Chain {
    /// The order in which a chain of this many components begins.
    pub fn first_order(count: usize) -> Vec<Seat> {
        (1..=count as u16).map(Seat).collect()
    }

    /// The seats of all components, in order.
    pub fn seats(&self) -> impl DoubleEndedIterator<Item = Seat> {
        self.order.iter().copied()
    }

    /// The seat of the component next to the editor.
    pub fn first(&self) -> Option<Seat> {
        self.order.first().copied()
    }

    /// The seat of the component at the agent's end.
    pub fn last(&self) -> Option<Seat> {
        self.order.last().copied()
    }

    /// The position of a seat, counted from the editor's side: 0 for the outer pipe, then the components in order. A seat
    /// that is not in the chain comes after all others.
    pub fn position(&self, seat: Seat) -> usize {
        if seat == Seat::OUTER {
            return 0;
        }
        self.order.iter().position(|it| *it == seat).map_or(usize::MAX, |index| index + 1)
    }

    /// Whether a component of the chain has this seat.
    pub fn contains(&self, seat: Seat) -> bool {
        self.order.contains(&seat)
    }

    /// The seats between the editor and this seat. For the outer pipe, these are all seats: in proxy mode, the outer pipe
    /// also follows the last component.
    pub fn before(&self, seat: Seat) -> &[Seat] {
        match self.position(seat) {
            0 => &self.order,
            position => &self.order[..(position - 1).min(self.order.len())],
        }
    }

    /// The seats between this seat and the agent. For the outer pipe, these are all seats.
    pub fn behind(&self, seat: Seat) -> &[Seat] {
        &self.order[self.position(seat).min(self.order.len())..]
    }

    /// Whether a component of the chain is a guard.
    pub fn has_guard(&self) -> bool {
        self.seats().any(|seat| self.component(seat).is_some_and(|it| it.guard))
    }

    /// The role of the component at `seat`.
    pub fn role(&self, seat: Seat) -> Role {
        match self.mode {
            Mode::Agent if self.order.last() == Some(&seat) => Role::Agent,
            _ => Role::Proxy,
        }
    }

    /// The seat next to `seat` in a direction.
    ///
    /// In proxy mode the chain is a ring through the outer pipe. Otherwise there is no seat after the agent
    /// and none before the editor; their dialects refuse messages in that direction.
    pub fn neighbour(&self, seat: Seat, toward: Side) -> Option<Seat> {
        let position = self.position(seat);
        let outer = (self.mode == Mode::Proxy).then_some(Seat::OUTER);
        match toward {
            // The seat at this index is the next one, because the outer pipe has position 0.
            Side::Agent => self.order.get(position).copied().or(outer),
            Side::Editor if position == 0 => outer.map(|outer| self.last().unwrap_or(outer)),
            Side::Editor if position == 1 => Some(Seat::OUTER),
            Side::Editor => self.order.get(position - 2).copied(),
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
