//! Which messages a provider knows that is connected to with `_mcp/connect`: `_mcp/request` and
//! `_mcp/notification` (M2), or `_mcp/message` (M3, M3t). The connect does not tell. What is refused
//! as an unknown method was not done, so it is said again in the other words.

use acp_wire::{Outcome, code};

use super::server::{Server, Words};
use super::talk::*;
use super::{Broker, Cx, LIMIT, has_limit};
use crate::form::Form;

impl Form {
    fn has_two_words(self) -> bool {
        matches!(self, Form::M2 | Form::M3 | Form::M3t)
    }
}

impl Server {
    /// Whether a request is to be kept, because it may have to be said again in other words.
    pub fn keeps(&self, form: Form) -> bool {
        form.has_two_words() && self.words != Words::Known
    }
}

impl Broker {
    /// A provider has answered a request in this form, perhaps `initialize` (`begins`). Gives the form to say it again in, if the
    /// provider does not know these words.
    pub(super) fn other_words(
        &mut self,
        number: u64,
        form: Form,
        begins: bool,
        outcome: &Outcome,
    ) -> Option<Form> {
        let talk = self.talks.get_mut(number).filter(|_| form.has_two_words())?;
        let server = self.registry.get_mut(&talk.server).filter(|it| it.words != Words::Known)?;
        let refused = outcome.error_code() == Some(code::METHOD_NOT_FOUND);
        let (State::Open { form: current, .. } | State::Greeting { form: current, .. }) =
            &mut talk.state
        else {
            return None;
        };
        if !current.talks_like(form) {
            return refused.then_some(*current);
        }
        // Of most providers it is known that they are of M3; every server knows `initialize`.
        let doubted = form != Form::M3 || begins;
        if !refused || !doubted || server.words == Words::Switched {
            server.words = Words::Known;
            return None;
        }
        server.words = Words::Switched;
        *current = match form {
            Form::M2 => Form::M3,
            _ => Form::M2,
        };
        server.settle(*current);
        Some(*current)
    }

    /// Says a request again that was refused as an unknown method.
    pub(super) fn say_otherwise(&mut self, number: u64, item: Item, cx: &mut Cx<'_>) {
        let until = has_limit(&item.call).then(|| cx.now.plus(LIMIT));
        self.say(number, Item { until, ..item }, cx);
    }

    /// Says `initialize` of our own again that was refused as an unknown method.
    pub(super) fn greet_otherwise(&mut self, number: u64, cx: &mut Cx<'_>) {
        let Some(talk) = self.talks.get_mut(number) else { return };
        let State::Greeting { form, connection, waiting } = &mut talk.state else { return };
        let (form, connection) = (*form, connection.clone());
        let waiting = std::mem::take(waiting);
        self.greet(number, form, connection, waiting, cx);
    }
}
