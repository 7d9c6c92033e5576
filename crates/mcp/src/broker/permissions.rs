//! Which components may send messages to an MCP client: the provider of its server, and the
//! components behind the provider, which pass its messages on.

use acp_wire::{Call, Message, Outcome, Side};
use router::{Diagnostic, Level, Seat};

use super::{Action, Broker, Context, Kind, kind_of};
use crate::bridge::not_found_error;
use crate::form::{self, Form, Frame, Subject};

impl Broker {
    /// Whether a component may send this message toward the agent. A provider's message to its
    /// client passes only the components between the provider and the agent. `is_marked`: the
    /// message is marked as foreign to the component.
    pub(super) fn may_send(&self, seat: Seat, message: &Message, is_marked: bool) -> bool {
        let (Message::Request { call, .. } | Message::Notification(call)) = message else {
            return true;
        };
        if kind_of(call) != Some(Kind::Mcp) {
            return true;
        }
        let Some((form, frame)) = form::decode(call).filter(|(_, frame)| is_for_client(frame))
        else {
            return true;
        };
        let (own, provider) = match frame.subject() {
            Subject::Connection(it) => {
                let own = self.connections.by_provider_id(seat, it).is_some();
                (own, self.connections.by_id(it).map(|connection| connection.seat))
            }
            Subject::Server(it) => {
                (self.registry.has_own(seat, it), self.registry.provider_of(form, it))
            }
        };
        let position = |seat: Seat| self.chain.position(seat);
        let behind =
            |provider: Seat| position(provider) < position(seat) || provider == seat && !is_marked;
        own && !is_marked || provider.is_none_or(behind)
    }

    /// Refuses a message of a component to the client of another component's server.
    pub(super) fn refuse_message(&self, seat: Seat, message: Message, cx: &mut Context<'_>) {
        let (id, call) = match message {
            Message::Request { id, call } => (Some(id), call),
            Message::Notification(call) => (None, call),
            Message::Response { .. } => return,
        };
        let (form, what) = describe_subject(&call);
        let component = self.chain.describe(seat);
        let method = call.method.name();
        let text =
            format!("dropped {method} of {component}: the MCP {what} belongs to another component");
        cx.out.push(Action::Report(Diagnostic { level: Level::Warn, seat, text }));
        if let Some(id) = id {
            let error = not_found_error(&format!("{what} of {component}"), form);
            let message = Message::response(id, Outcome::Error(error));
            cx.out.push(Action::Deliver { to: seat, toward: Side::Editor, message });
        }
    }
}

/// Whether a message that travels toward the agent is for an MCP client.
fn is_for_client(frame: &Frame) -> bool {
    !matches!(frame, Frame::Connect { .. })
}

/// Describes the server or connection that a message names.
fn describe_subject(call: &Call) -> (Form, String) {
    match form::decode(call) {
        Some((form, frame)) => match frame.subject() {
            Subject::Connection(it) => (form, format!("connection '{it}'")),
            Subject::Server(it) => (form, format!("server '{it}'")),
        },
        None => (Form::M3, "server".into()),
    }
}
