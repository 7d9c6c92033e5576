//! Decides where each message of a proxy chain goes.
//!
//! A chain is a sequence of *seats*: the editor (or an outer conductor) at seat 0, proxies after it, and the agent
//! last. A [`Router`] receives events ([`Event`]) and appends actions ([`Action`]). It performs no I/O and reads
//! no clock: the caller passes the current [`Time`] with each event. The same events always give the same actions, so a
//! recorded run can be replayed.
//!
//! ```
//! use acp_wire::{Id, Json, Message, Side};
//! use router::{Action, Chain, Component, Event, Mode, Router, Seat, Time};
//!
//! let mut router = Router::new(Chain {
//!     mode: Mode::Agent,
//!     components: vec![Component::new("proxy", "my-proxy"), Component::new("agent", "my-agent")],
//!     order: Chain::first_order(2),
//!     initialize_timeout: 60_000,
//!     grace: 2_000,
//!     any_version: false,
//! });
//!
//! // The first message of the editor starts the components and goes to the first one.
//! let params = Json::parse(r#"{"protocolVersion":1}"#).unwrap();
//! let message = Message::request(Id::from(7), "initialize", params);
//! let mut actions = Vec::new();
//! let event = Event::Arrived { from: Seat::OUTER, toward: Side::Agent, message };
//! router.handle(Time(0), event, &mut actions);
//!
//! assert_eq!(actions[..2], [Action::Start(Seat(1)), Action::Start(Seat(2))]);
//! let Action::Deliver { to, message, .. } = &actions[2] else { panic!("{actions:?}") };
//! assert_eq!(*to, Seat(1));
//! // The router replaces the id. The answer gets the editor's id back.
//! assert!(matches!(message, Message::Request { id, .. } if *id == Id::string("c:1")));
//! ```
//!
//! # Layout
//! In reading order:
//! - [`event`]: the lists of events and actions
//! - [`seat`]: the chain, and the state of each seat
//! - [`exit`]: how components end
//! - [`pending`]: the table of requests that wait for an answer
//! - [`router`]: the routing rules and the shutdown of a chain
//! - `view`: the router's state and settings, for its caller
//! - `handshake`: the rules for `initialize`
//! - `forwarded`: finds the requests that a component has forwarded
//! - [`recovery`]: the rules for a component that is restarted or bypassed
//! - [`reload`]: the rules for a chain that gets another configuration while it runs
//! - [`skip`]: the rules for messages that skip a component
//! - `barrier`: barriers, which keep messages in order when one of them skips a component
//! - `crash_report`: the text that describes the end of a component
//! - [`excerpt`]: the lines in the output of a program that say why it failed
//!
//! The router acts on three methods of ACP, `initialize`, `$/cancel_request` and `session/update`, and on its own
//! `_conductor/barrier`. It does not track sessions. The caller, the crate `engine`, decides whether a failed
//! component is restarted or bypassed, or whether the chain shuts down.

#![forbid(unsafe_code)]
#![warn(missing_docs, unreachable_pub)]

mod barrier;
mod crash_report;
pub mod event;
pub mod excerpt;
pub mod exit;
mod forwarded;
mod handshake;
pub mod pending;
pub mod recovery;
pub mod reload;
pub mod router;
pub mod seat;
pub mod skip;
mod view;

pub use acp_wire::Outcome;
pub use event::{Action, Diagnostic, Ending, Event, Level, Recovery, Time};
pub use exit::{Exit, ExitCause, StartFailure, StartProblem};
pub use router::Router;
pub use seat::{Chain, Component, Handshake, Mode, Role, Seat, SeatState, UpdateFilter};
pub use skip::MessageKind;
