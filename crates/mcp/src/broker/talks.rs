//! The conversations that are open, and the ids by which consumers and providers know them.

use std::collections::{BTreeMap, BTreeSet};

use router::{Seat, Time};

use super::talk::{Consumer, Item, Talk};
use crate::deadlines::Deadlines;
use crate::form::{Form, Frame};

#[derive(Debug, Default)]
pub struct Talks {
    all: BTreeMap<u64, Talk>,
    /// By the id that a consumer knows.
    by_connection: BTreeMap<String, u64>,
    /// By the id that a provider knows.
    by_provider: BTreeMap<(Seat, String), u64>,
    /// Connections of which the agent has not heard yet.
    on_the_way: BTreeSet<u64>,
    /// When something that waits for a conversation to be open has waited too long, or earlier.
    waits: Deadlines<u64>,
    /// The form in which a consumer has spoken last.
    spoken: Option<Form>,
}

impl Talks {
    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn get(&self, number: u64) -> Option<&Talk> {
        self.all.get(&number)
    }

    pub fn get_mut(&mut self, number: u64) -> Option<&mut Talk> {
        self.all.get_mut(&number)
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, &Talk)> {
        self.all.iter().map(|(number, talk)| (*number, talk))
    }

    /// The numbers of the conversations that fit.
    pub fn numbers(&self, fits: impl Fn(&Talk) -> bool) -> Vec<u64> {
        self.iter().filter(|(_, talk)| fits(talk)).map(|(number, _)| number).collect()
    }

    pub fn any(&self, fits: impl Fn(&Talk) -> bool) -> bool {
        self.all.values().any(fits)
    }

    pub fn add(&mut self, number: u64, talk: Talk) {
        self.all.insert(number, talk);
    }

    pub fn remove(&mut self, number: u64) -> Option<Talk> {
        let talk = self.all.remove(&number)?;
        self.waits.remove(&number);
        self.by_connection.retain(|_, it| *it != number);
        self.on_the_way.remove(&number);
        self.by_provider.retain(|_, it| *it != number);
        Some(talk)
    }

    /// A provider has left for good.
    pub fn forget(&mut self, seat: Seat) {
        self.all.retain(|_, talk| talk.seat != seat);
        let all = &self.all;
        self.by_connection.retain(|_, talk| all.contains_key(talk));
        self.on_the_way.retain(|talk| all.contains_key(talk));
        self.void(seat);
    }

    /// The ids of a provider's connections mean nothing any more.
    pub fn void(&mut self, seat: Seat) {
        self.by_provider.retain(|(whose, _), _| *whose != seat);
    }
}

/// The ids of connections.
impl Talks {
    /// The conversation that a consumer knows by this id.
    pub fn number_of(&self, connection: &str) -> Option<u64> {
        self.by_connection.get(connection).copied()
    }

    pub fn with(&self, connection: &str) -> Option<&Talk> {
        self.all.get(self.by_connection.get(connection)?)
    }

    /// The conversation that a provider knows by this id.
    pub fn of_provider(&self, seat: Seat, connection: &str) -> Option<u64> {
        self.by_provider.get(&(seat, connection.to_owned())).copied()
    }

    /// A provider knows a conversation by this id from now on.
    pub fn connect(&mut self, seat: Seat, connection: String, number: u64) {
        self.by_provider.insert((seat, connection), number);
    }

    pub fn disconnect(&mut self, seat: Seat, connection: &str) {
        self.by_provider.remove(&(seat, connection.to_owned()));
    }

    /// The consumer knows a conversation by this id from now on, or by a similar one if it is taken.
    pub fn claim(&mut self, number: u64, wanted: &str) -> String {
        let mut candidates =
            std::iter::once(wanted.to_owned()).chain((2..).map(|n| format!("{wanted}#{n}")));
        let free = candidates.find(|it| !self.by_connection.contains_key(it)).unwrap_or_default();
        self.by_connection.insert(free.clone(), number);
        free
    }

    /// Has the consumer been told how its connection is called?
    pub fn is_told(&self, number: u64) -> bool {
        match self.all.get(&number).map(|talk| &talk.consumer) {
            Some(Consumer::Connection { id, .. }) => self.by_connection.get(id) == Some(&number),
            _ => false,
        }
    }

    /// The answer to a connect is on its way to the agent.
    pub fn tell(&mut self, number: u64) {
        self.on_the_way.insert(number);
    }

    /// The agent knows of the connection.
    pub fn told(&mut self, number: u64) {
        self.on_the_way.remove(&number);
    }

    /// Whether there are connections of which the agent has not heard yet.
    pub fn has_untold(&self) -> bool {
        !self.on_the_way.is_empty()
    }
}

/// The form that consumers speak.
impl Talks {
    /// The form in which a consumer has spoken last.
    pub fn spoken(&self) -> Option<Form> {
        self.spoken
    }

    /// The form that a consumer speaks. M2 and M3 connect alike; only by what it says is it seen
    /// which one it is, and then it always was.
    pub fn recognize(&mut self, form: Form, word: &Frame) -> Form {
        if let Frame::Mcp { .. } = word {
            self.spoken = Some(form);
        }
        if self.spoken != Some(Form::M2) {
            return form;
        }
        let theirs = self.all.values_mut().filter_map(|talk| match &mut talk.consumer {
            Consumer::Connection { form, .. } if *form == Form::M3 => Some(form),
            _ => None,
        });
        theirs.for_each(|form| *form = Form::M2);
        if form == Form::M3 { Form::M2 } else { form }
    }
}

/// What waits for a conversation to be open.
impl Talks {
    /// When something has waited too long.
    pub fn deadline(&self) -> Option<Time> {
        self.waits.first()
    }

    /// Something waits for a conversation to be open, until then.
    pub fn await_opening(&mut self, number: u64, until: Option<Time>) {
        if let Some(until) = until.filter(|_| !self.waits.contains(&number)) {
            self.waits.insert(number, until);
        }
    }

    /// Takes what has waited too long, with its conversations.
    pub fn take_late(&mut self, now: Time) -> Vec<(u64, Item)> {
        let late = |item: &mut Item| item.until.is_some_and(|until| until <= now);
        let mut over = Vec::new();
        for number in self.waits.take_due(now) {
            let talk = self.all.get_mut(&number);
            let Some(waiting) = talk.and_then(Talk::waiting_mut) else { continue };
            over.extend(waiting.extract_if(.., late).map(|item| (number, item)));
            if let Some(next) = waiting.iter().filter_map(|item| item.until).min() {
                self.waits.insert(number, next);
            }
        }
        over
    }
}
