//! The conversations that are open, and the ids by which consumers and providers know them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use router::{Seat, Time};

use super::connection::{Connection, Consumer, ConsumerMessage};
use crate::deadlines::Deadlines;
use crate::form::{Form, Frame};

/// Names one connection inside the broker. Consumers and providers know the connection by ids of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionNumber(pub u64);

impl fmt::Display for ConnectionNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[derive(Debug, Default)]
pub struct Connections {
    all: BTreeMap<ConnectionNumber, Connection>,
    /// By the id that a consumer knows.
    by_consumer_id: BTreeMap<String, ConnectionNumber>,
    /// By the id that a provider knows.
    by_provider_id: BTreeMap<(Seat, String), ConnectionNumber>,
    /// Connections of which the agent has not heard yet.
    unannounced: BTreeSet<ConnectionNumber>,
    /// When something that waits for a conversation to be open has waited too long, or earlier.
    queue_deadlines: Deadlines<ConnectionNumber>,
    /// The form in which a consumer has spoken last.
    last_consumer_form: Option<Form>,
}

impl Connections {
    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn get(&self, number: ConnectionNumber) -> Option<&Connection> {
        self.all.get(&number)
    }

    pub fn get_mut(&mut self, number: ConnectionNumber) -> Option<&mut Connection> {
        self.all.get_mut(&number)
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (ConnectionNumber, &Connection)> {
        self.all.iter().map(|(number, connection)| (*number, connection))
    }

    /// The numbers of the conversations that fit.
    pub fn numbers(&self, fits: impl Fn(&Connection) -> bool) -> Vec<ConnectionNumber> {
        self.iter().filter(|(_, connection)| fits(connection)).map(|(number, _)| number).collect()
    }

    pub fn any(&self, fits: impl Fn(&Connection) -> bool) -> bool {
        self.all.values().any(fits)
    }

    pub fn add(&mut self, number: ConnectionNumber, connection: Connection) {
        self.all.insert(number, connection);
    }

    pub fn remove(&mut self, number: ConnectionNumber) -> Option<Connection> {
        let connection = self.all.remove(&number)?;
        self.queue_deadlines.remove(&number);
        self.by_consumer_id.retain(|_, it| *it != number);
        self.unannounced.remove(&number);
        self.by_provider_id.retain(|_, it| *it != number);
        Some(connection)
    }

    /// A provider has left for good.
    pub fn forget(&mut self, seat: Seat) {
        self.all.retain(|_, connection| connection.seat != seat);
        let all = &self.all;
        self.by_consumer_id.retain(|_, connection| all.contains_key(connection));
        self.unannounced.retain(|connection| all.contains_key(connection));
        self.forget_provider_ids(seat);
    }

    /// The ids of a provider's connections mean nothing any more.
    pub fn forget_provider_ids(&mut self, seat: Seat) {
        self.by_provider_id.retain(|(whose, _), _| *whose != seat);
    }
}

/// The ids of connections.
impl Connections {
    /// The conversation that a consumer knows by this id.
    pub fn number_of(&self, connection_id: &str) -> Option<ConnectionNumber> {
        self.by_consumer_id.get(connection_id).copied()
    }

    pub fn by_id(&self, connection_id: &str) -> Option<&Connection> {
        self.all.get(self.by_consumer_id.get(connection_id)?)
    }

    /// The conversation that a provider knows by this id.
    pub fn by_provider_id(&self, seat: Seat, connection_id: &str) -> Option<ConnectionNumber> {
        self.by_provider_id.get(&(seat, connection_id.to_owned())).copied()
    }

    /// A provider knows a conversation by this id from now on.
    pub fn connect(&mut self, seat: Seat, connection_id: String, number: ConnectionNumber) {
        self.by_provider_id.insert((seat, connection_id), number);
    }

    pub fn disconnect(&mut self, seat: Seat, connection_id: &str) {
        self.by_provider_id.remove(&(seat, connection_id.to_owned()));
    }

    /// The consumer knows a conversation by this id from now on, or by a similar one if it is taken.
    pub fn assign_id(&mut self, number: ConnectionNumber, wanted: &str) -> String {
        let mut candidates =
            std::iter::once(wanted.to_owned()).chain((2..).map(|n| format!("{wanted}#{n}")));
        let free = candidates.find(|it| !self.by_consumer_id.contains_key(it)).unwrap_or_default();
        self.by_consumer_id.insert(free.clone(), number);
        free
    }

    /// Has the consumer been told how its connection is called?
    pub fn is_announced(&self, number: ConnectionNumber) -> bool {
        match self.all.get(&number).map(|connection| &connection.consumer) {
            Some(Consumer::Connection { id, .. }) => self.by_consumer_id.get(id) == Some(&number),
            _ => false,
        }
    }

    /// The answer to a connect is on its way to the agent.
    pub fn mark_unannounced(&mut self, number: ConnectionNumber) {
        self.unannounced.insert(number);
    }

    /// The agent knows of the connection.
    pub fn mark_announced(&mut self, number: ConnectionNumber) {
        self.unannounced.remove(&number);
    }

    /// Whether there are connections of which the agent has not heard yet.
    pub fn has_unannounced(&self) -> bool {
        !self.unannounced.is_empty()
    }
}

/// The form that consumers speak.
impl Connections {
    /// The form in which a consumer has spoken last.
    pub fn last_consumer_form(&self) -> Option<Form> {
        self.last_consumer_form
    }

    /// The form that a consumer speaks. M2 and M3 connect alike; only by what it says is it seen
    /// which one it is, and then it always was.
    pub fn update_consumer_form(&mut self, form: Form, word: &Frame) -> Form {
        if let Frame::Mcp { .. } = word {
            self.last_consumer_form = Some(form);
        }
        if self.last_consumer_form != Some(Form::M2) {
            return form;
        }
        let theirs =
            self.all.values_mut().filter_map(|connection| match &mut connection.consumer {
                Consumer::Connection { form, .. } if *form == Form::M3 => Some(form),
                _ => None,
            });
        theirs.for_each(|form| *form = Form::M2);
        if form == Form::M3 { Form::M2 } else { form }
    }
}

/// What waits for a conversation to be open.
impl Connections {
    /// When something has waited too long.
    pub fn deadline(&self) -> Option<Time> {
        self.queue_deadlines.first()
    }

    /// Something waits for a conversation to be open, until then.
    pub fn set_queue_deadline(&mut self, number: ConnectionNumber, deadline: Option<Time>) {
        if let Some(deadline) = deadline.filter(|_| !self.queue_deadlines.contains(&number)) {
            self.queue_deadlines.insert(number, deadline);
        }
    }

    /// Takes what has waited too long, with its conversations.
    pub fn take_expired(&mut self, now: Time) -> Vec<(ConnectionNumber, ConsumerMessage)> {
        let late =
            |item: &mut ConsumerMessage| item.deadline.is_some_and(|deadline| deadline <= now);
        let mut over = Vec::new();
        for number in self.queue_deadlines.take_due(now) {
            let connection = self.all.get_mut(&number);
            let Some(queued) = connection.and_then(Connection::queued_mut) else { continue };
            over.extend(queued.extract_if(.., late).map(|item| (number, item)));
            if let Some(next) = queued.iter().filter_map(|item| item.deadline).min() {
                self.queue_deadlines.insert(number, next);
            }
        }
        over
    }
}
