//! The method names that a provider with `_mcp/connect` understands: `_mcp/request` and
//! `_mcp/notification` (M2), or `_mcp/message` (M3, M3t). The connect is the same in all three forms.
//! A message that is refused as an unknown method had no effect, so the broker sends it again under
//! the other name.

use acp_wire::{Outcome, code};

use super::connection::*;
use super::connections::ConnectionNumber;
use super::server::{MessageNames, Server};
use super::{ANSWER_TIMEOUT, Broker, Context, has_timeout};
use crate::form::Form;

/// Whether the form connects with `_mcp/connect`, so that the names of its messages are not known.
fn has_two_message_names(form: Form) -> bool {
    matches!(form, Form::M2 | Form::M3 | Form::M3t)
}

impl Server {
    /// Whether a request has to be kept, because it may be sent again under another name.
    pub(super) fn must_keep_request(&self, form: Form) -> bool {
        has_two_message_names(form) && self.message_names != MessageNames::Known
    }
}

impl Broker {
    /// Determines from an answer which message names a provider understands. `is_initialize` is true
    /// for the answer to `initialize`. Returns the form in which to send the request again, if the
    /// provider does not know its method.
    pub(super) fn switch_message_names(
        &mut self,
        number: ConnectionNumber,
        form: Form,
        is_initialize: bool,
        outcome: &Outcome,
    ) -> Option<Form> {
        let connection =
            self.connections.get_mut(number).filter(|_| has_two_message_names(form))?;
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
        // M3 is the most likely form. So only the refusal of `initialize` counts against it,
        // because every server knows that method.
        let is_evidence = form != Form::M3 || is_initialize;
        if !refused || !is_evidence || server.message_names == MessageNames::Switched {
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

    /// Sends a consumer's request again after it was refused as an unknown method.
    pub(super) fn resend_message(
        &mut self,
        number: ConnectionNumber,
        message: ConsumerMessage,
        cx: &mut Context<'_>,
    ) {
        let deadline = has_timeout(&message.call).then(|| cx.now.plus(ANSWER_TIMEOUT));
        self.send(number, ConsumerMessage { deadline, ..message }, cx);
    }

    /// Sends the broker's own `initialize` again after it was refused as an unknown method.
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
