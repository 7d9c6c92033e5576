//! What consumers are asked by servers, at the provider's hop.

use std::collections::BTreeMap;

use acp_wire::{Call, Id, Json};
use router::Seat;

use crate::form::Form;

#[derive(Debug, Default)]
pub struct Inputs {
    /// What stateless servers want to know before they answer.
    open: BTreeMap<u64, Input>,
    /// Answers of consumers that are spelt differently for the provider that asked.
    reversed: BTreeMap<(Seat, Id), Reversed>,
}

/// Questions of a server that the consumer is asked before the server can answer.
#[derive(Debug)]
pub struct Input {
    pub talk: u64,
    pub id: Id,
    pub call: Call,
    pub inner: Option<Id>,
    pub state: Option<Json>,
    pub rounds: u8,
    /// By our number of the question: its name, and the answer.
    pub answers: Vec<(u64, String, Option<Json>)>,
}

/// How an answer is spelt for the provider.
#[derive(Debug)]
pub struct Reversed {
    pub provider: Form,
    pub consumer: Form,
    /// How the provider calls its server.
    pub server: String,
    pub inner: Option<Id>,
}

impl Inputs {
    pub fn is_empty(&self) -> bool {
        self.open.is_empty() && self.reversed.is_empty()
    }

    pub fn len(&self) -> usize {
        self.open.len() + self.reversed.len()
    }

    /// Waits for the answers of a consumer.
    pub fn insert(&mut self, number: u64, input: Input) {
        self.open.insert(number, input);
    }

    /// The conversation in which a question was asked.
    pub fn talk_of(&self, question: u64) -> Option<u64> {
        self.open.get(&self.find(question)?).map(|input| input.talk)
    }

    fn find(&self, question: u64) -> Option<u64> {
        let asks = |input: &Input| input.answers.iter().any(|(asked, ..)| *asked == question);
        self.open.iter().find(|(_, input)| asks(input)).map(|(key, _)| *key)
    }

    /// The consumer has answered a question. Gives the input if this was the last answer.
    pub fn answered(&mut self, question: u64, result: &Json) -> Option<Input> {
        let key = self.find(question)?;
        let input = self.open.get_mut(&key)?;
        let found = input.answers.iter_mut().find(|(asked, ..)| *asked == question);
        found.into_iter().for_each(|(_, _, slot)| *slot = Some(result.detached()));
        match input.answers.iter().any(|(_, _, answer)| answer.is_none()) {
            true => None,
            false => self.open.remove(&key),
        }
    }

    /// The consumer will not answer a question. Gives the input, with the other questions.
    pub fn refused(&mut self, question: u64) -> Option<Input> {
        let mut input = self.open.remove(&self.find(question)?)?;
        input.answers.retain(|(asked, ..)| *asked != question);
        Some(input)
    }

    /// Takes the inputs that fit.
    pub fn take(&mut self, fits: impl Fn(&Input) -> bool) -> Vec<Input> {
        self.open.extract_if(.., |_, input| fits(input)).map(|(_, input)| input).collect()
    }

    /// The answer to what a provider has asked is spelt differently for it.
    pub fn reverse(&mut self, seat: Seat, id: &Id, reversed: Reversed) {
        self.reversed.insert((seat, id.detached()), reversed);
    }

    /// How the answer to what a provider has asked is spelt, if differently.
    pub fn take_reversed(&mut self, seat: Seat, id: &Id) -> Option<Reversed> {
        if self.reversed.is_empty() {
            return None;
        }
        self.reversed.remove(&(seat, id.clone()))
    }

    /// A provider is gone: what it has asked is over.
    pub fn void(&mut self, seat: Seat) {
        self.reversed.retain(|(whose, _), _| *whose != seat);
    }
}
