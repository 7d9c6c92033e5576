//! What consumers are asked by servers, at the provider's hop.

use std::collections::BTreeMap;

use acp_wire::{Call, Id, Json};
use router::Seat;

use super::connections::ConnectionNumber;
use crate::form::Form;

#[derive(Debug, Default)]
pub struct InputRequests {
    /// What stateless servers want to know before they answer.
    open: BTreeMap<u64, PendingInput>,
    /// Answers of consumers that are spelt differently for the provider that asked.
    translations: BTreeMap<(Seat, Id), AnswerTranslation>,
}

/// Questions of a server that the consumer is asked before the server can answer.
#[derive(Debug)]
pub struct PendingInput {
    pub connection: ConnectionNumber,
    pub id: Id,
    pub call: Call,
    pub inner_id: Option<Id>,
    pub state: Option<Json>,
    pub rounds: u8,
    /// By our number of the question: its name, and the answer.
    pub answers: Vec<(u64, String, Option<Json>)>,
}

/// How an answer is spelt for the provider.
#[derive(Debug)]
pub struct AnswerTranslation {
    pub provider: Form,
    pub consumer: Form,
    /// How the provider calls its server.
    pub server: String,
    pub inner_id: Option<Id>,
}

impl InputRequests {
    pub fn is_empty(&self) -> bool {
        self.open.is_empty() && self.translations.is_empty()
    }

    pub fn len(&self) -> usize {
        self.open.len() + self.translations.len()
    }

    /// Waits for the answers of a consumer.
    pub fn insert(&mut self, number: u64, input: PendingInput) {
        self.open.insert(number, input);
    }

    /// The conversation in which a question was asked.
    pub fn connection_of(&self, request: u64) -> Option<ConnectionNumber> {
        self.open.get(&self.find(request)?).map(|input| input.connection)
    }

    fn find(&self, request: u64) -> Option<u64> {
        let contains =
            |input: &PendingInput| input.answers.iter().any(|(number, ..)| *number == request);
        self.open.iter().find(|(_, input)| contains(input)).map(|(key, _)| *key)
    }

    /// The consumer has answered a question. Gives the input if this was the last answer.
    pub fn answered(&mut self, request: u64, result: &Json) -> Option<PendingInput> {
        let key = self.find(request)?;
        let input = self.open.get_mut(&key)?;
        let found = input.answers.iter_mut().find(|(number, ..)| *number == request);
        found.into_iter().for_each(|(_, _, slot)| *slot = Some(result.detached()));
        match input.answers.iter().any(|(_, _, answer)| answer.is_none()) {
            true => None,
            false => self.open.remove(&key),
        }
    }

    /// The consumer will not answer a question. Gives the input, with the other questions.
    pub fn refused(&mut self, request: u64) -> Option<PendingInput> {
        let mut input = self.open.remove(&self.find(request)?)?;
        input.answers.retain(|(number, ..)| *number != request);
        Some(input)
    }

    /// Takes the inputs that fit.
    pub fn take(&mut self, fits: impl Fn(&PendingInput) -> bool) -> Vec<PendingInput> {
        self.open.extract_if(.., |_, input| fits(input)).map(|(_, input)| input).collect()
    }

    /// The answer to what a provider has asked is spelt differently for it.
    pub fn translate_answer(&mut self, seat: Seat, id: &Id, translation: AnswerTranslation) {
        self.translations.insert((seat, id.detached()), translation);
    }

    /// How the answer to what a provider has asked is spelt, if differently.
    pub fn take_translation(&mut self, seat: Seat, id: &Id) -> Option<AnswerTranslation> {
        if self.translations.is_empty() {
            return None;
        }
        self.translations.remove(&(seat, id.clone()))
    }

    /// A provider is gone: what it has asked is over.
    pub fn forget_provider_ids(&mut self, seat: Seat) {
        self.translations.retain(|(whose, _), _| *whose != seat);
    }
}
