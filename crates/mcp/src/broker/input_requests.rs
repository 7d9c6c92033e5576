//! Requests of servers to consumers that are not answered yet.

use std::collections::BTreeMap;

use acp_wire::{Call, Id, Json};
use router::Seat;

use super::connections::ConnectionNumber;
use crate::form::Form;

/// The table of requests that servers have sent to consumers.
#[derive(Debug, Default)]
pub(super) struct InputRequests {
    /// Consumers' requests whose stateless servers need input first.
    open: BTreeMap<u64, PendingInput>,
    /// How to translate the answers to requests that a provider has sent, if its form differs.
    translations: BTreeMap<(Seat, Id), AnswerTranslation>,
}

/// A stateless request whose server needs input from the consumer first.
#[derive(Debug)]
pub(super) struct PendingInput {
    pub connection: ConnectionNumber,
    /// The id of the consumer's request.
    pub id: Id,
    pub call: Call,
    pub inner_id: Option<Id>,
    /// The `requestState` that the server gets back with the input.
    pub state: Option<Json>,
    /// How often the server has requested input.
    pub rounds: u8,
    /// For each input request: the number in its id, its name, and the answer.
    pub answers: Vec<(u64, String, Option<Json>)>,
}

/// How to translate the answer of a consumer for a provider.
#[derive(Debug)]
pub(super) struct AnswerTranslation {
    pub provider: Form,
    pub consumer: Form,
    /// The id of the server, as its provider knows it.
    pub server: String,
    pub inner_id: Option<Id>,
}

impl InputRequests {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.translations.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.open.len() + self.translations.len()
    }

    /// Adds a request that waits for answers of its consumer.
    pub(super) fn insert(&mut self, number: u64, input: PendingInput) {
        self.open.insert(number, input);
    }

    /// The connection of an input request.
    pub(super) fn connection_of(&self, request: u64) -> Option<ConnectionNumber> {
        self.open.get(&self.find(request)?).map(|input| input.connection)
    }

    /// The key of the consumer's request that waits for the answer to this input request.
    fn find(&self, request: u64) -> Option<u64> {
        let contains =
            |input: &PendingInput| input.answers.iter().any(|(number, ..)| *number == request);
        self.open.iter().find(|(_, input)| contains(input)).map(|(key, _)| *key)
    }

    /// Records the answer to an input request. Returns the pending input if this was the last
    /// answer.
    pub(super) fn answered(&mut self, request: u64, result: &Json) -> Option<PendingInput> {
        let key = self.find(request)?;
        let input = self.open.get_mut(&key)?;
        let found = input.answers.iter_mut().find(|(number, ..)| *number == request);
        found.into_iter().for_each(|(_, _, slot)| *slot = Some(result.detached()));
        match input.answers.iter().any(|(_, _, answer)| answer.is_none()) {
            true => None,
            false => self.open.remove(&key),
        }
    }

    /// The consumer has refused an input request. Returns the pending input, with the other input
    /// requests.
    pub(super) fn refused(&mut self, request: u64) -> Option<PendingInput> {
        let mut input = self.open.remove(&self.find(request)?)?;
        input.answers.retain(|(number, ..)| *number != request);
        Some(input)
    }

    /// Removes and returns the pending inputs that match.
    pub(super) fn take(&mut self, is_match: impl Fn(&PendingInput) -> bool) -> Vec<PendingInput> {
        self.open.extract_if(.., |_, input| is_match(input)).map(|(_, input)| input).collect()
    }

    /// Records how to translate the answer to a request of a provider.
    pub(super) fn translate_answer(&mut self, seat: Seat, id: &Id, translation: AnswerTranslation) {
        self.translations.insert((seat, id.detached()), translation);
    }

    /// Removes and returns the translation for an answer, if it needs one.
    pub(super) fn take_translation(&mut self, seat: Seat, id: &Id) -> Option<AnswerTranslation> {
        if self.translations.is_empty() {
            return None;
        }
        self.translations.remove(&(seat, id.clone()))
    }

    /// Forgets the requests of a provider that is gone.
    pub(super) fn forget_provider(&mut self, seat: Seat) {
        self.translations.retain(|(key_seat, _), _| *key_seat != seat);
    }
}
