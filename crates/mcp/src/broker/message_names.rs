//! Which messages a provider knows that is connected to with `_mcp/connect`: `_mcp/request_id` and
//! `_mcp/notification` (M2), or `_mcp/message` (M3, M3t). The connect does not tell. What is refused
//! as an unknown method was not done, so it is said again in the other words.

use acp_wire::{Outcome, code};

use super::connection::*;
use super::connections::ConnectionNumber;
use super::server::{MessageNames, Server};
use super::{ANSWER_TIMEOUT, Broker, Context, has_timeout};
use crate::form::Form;

impl Form {
    fn has_two_message_names(self) -> bool {
        matches!(self, Form::M2 | Form::M3 | Form::M3t)
    }
}

impl Server {
    /// Whether a request is to be kept, because it may have to be said again in other words.
    pub fn must_keep_request(&self, form: Form) -> bool {
        form.has_two_message_names() && self.message_names != MessageNames::Known
    }
}

impl Broker {
    /// A provider has answered a request in this form, perhaps `initialize` (`record_initialize`). Gives the form to say it again in, if the
    /// provider does not know these words.
    pub(super) fn switch_message_names(
        &mut self,
        number: ConnectionNumber,
        form: Form,
        record_initialize: bool,
        outcome: &Outcome,
    ) -> Option<Form> {
        let connection =
            self.connections.get_mut(number).filter(|_| form.has_two_message_names())?;
        let server = self
            .registry
            .get_mut(&connection.server)
            .filter(|it| it.message_names != MessageNames::Known)?;
        let refused = outcome.error_code() == Some(code::METHOD_NOT_FOUND);
        let (ConnectionState::Open { form: current, .. }
        | ConnectionState::Initializing { form: current, .. }) = &mut connection.state
        else {
            return None;
        };
        if !current.shares_messages_with(form) {
            return refused.then_some(*current);
        }
        // Of most providers it is known that they are of M3; every server knows `initialize`.
        let doubted = form != Form::M3 || record_initialize;
        if !refused || !doubted || server.message_names == MessageNames::Switched {
            server.message_names = MessageNames::Known;
            return None;
        }
        server.message_names = MessageNames::Switched;
        *current = match form {
            Form::M2 => Form::M3,
            _ => Form::M2,
        };
        server.set_form(*current);
        Some(*current)
    }

    /// Says a request again that was refused as an unknown method.
    pub(super) fn resend_message(
        &mut self,
        number: ConnectionNumber,
        item: ConsumerMessage,
        cx: &mut Context<'_>,
    ) {
        let deadline = has_timeout(&item.call).then(|| cx.now.plus(ANSWER_TIMEOUT));
        self.send(number, ConsumerMessage { deadline, ..item }, cx);
    }

    /// Says `initialize` of our own again that was refused as an unknown method.
    pub(super) fn resend_initialize(&mut self, number: ConnectionNumber, cx: &mut Context<'_>) {
        let Some(connection) = self.connections.get_mut(number) else { return };
        let ConnectionState::Initializing { form, connection_id, queued } = &mut connection.state
        else {
            return;
        };
        let (form, connection_id) = (*form, connection_id.clone());
        let queued = std::mem::take(queued);
        self.initialize(number, form, connection_id, queued, cx);
    }
}
