//! Which components may speak to an MCP client: the provider of its server, and the components behind the
//! provider, which pass on what it says.

use acp_wire::{Call, Message, Outcome, Side};
use router::{Diagnostic, Level, Seat};

use super::{Broker, Context, Step, Topic, topic};
use crate::bridge::not_found_error;
use crate::form::{self, Form, Frame, Subject};

impl Broker {
    /// Whether a component may send this toward the agent. What a provider says to its client passes
    /// the components between the provider and the agent, and no others. `is_marked`: the message was
    /// marked as one that is not the component's own.
    pub(super) fn may_send(&self, seat: Seat, message: &Message, is_marked: bool) -> bool {
        let (Message::Request { call, .. } | Message::Notification(call)) = message else {
            return true;
        };
        if topic(call) != Some(Topic::Mcp) {
            return true;
        }
        let Some((form, word)) = form::decode(call).filter(|(_, word)| is_for_client(word)) else {
            return true;
        };
        let (own, provider) = match word.about() {
            Subject::Connection(it) => {
                let own = self.connections.by_provider_id(seat, it).is_some();
                (own, self.connections.by_id(it).map(|connection| connection.seat))
            }
            Subject::Server(it) => {
                (self.registry.has_own(seat, it), self.registry.provider_of(form, it))
            }
        };
        let behind = |provider: Seat| provider < seat || provider == seat && !is_marked;
        own && !is_marked || provider.is_none_or(behind)
    }

    /// A component has spoken to the client of another component's server.
    pub(super) fn refuse_message(&self, seat: Seat, message: Message, cx: &mut Context<'_>) {
        let (id, call) = match message {
            Message::Request { id, call } => (Some(id), call),
            Message::Notification(call) => (None, call),
            Message::Response { .. } => return,
        };
        let (form, what) = named(&call);
        let who = self.chain.describe(seat);
        let method = call.method.name();
        let text = format!("{method} of {who} dropped: the MCP {what} is not of its own");
        cx.out.push(Step::Report(Diagnostic { level: Level::Warn, seat, text }));
        if let Some(id) = id {
            let error = not_found_error(&format!("{what} of {who}"), form);
            let message = Message::response(id, Outcome::Error(error));
            cx.out.push(Step::Deliver { to: seat, toward: Side::Editor, message });
        }
    }
}

fn is_for_client(word: &Frame) -> bool {
    !matches!(word, Frame::Connect { .. })
}

/// What a message is about, in words.
fn named(call: &Call) -> (Form, String) {
    match form::decode(call) {
        Some((form, word)) => match word.about() {
            Subject::Connection(it) => (form, format!("connection '{it}'")),
            Subject::Server(it) => (form, format!("server '{it}'")),
        },
        None => (Form::M3, "server".into()),
    }
}
