//! The open connections, and the ids by which consumers and providers know them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use router::{Seat, Time};

use super::connection::{Connection, Consumer, ConsumerMessage};
use crate::deadlines::Deadlines;
use crate::form::{Form, Frame};

/// Identifies one connection inside the broker. The consumer and the provider each use another id
/// for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ConnectionNumber(pub u64);

impl fmt::Display for ConnectionNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The table of connections.
#[derive(Debug, Default)]
pub(super) struct Connections {
    all: BTreeMap<ConnectionNumber, Connection>,
    /// The connections by the id that the consumer knows.
    by_consumer_id: BTreeMap<String, ConnectionNumber>,
    /// The connections by the id that the provider knows.
    by_provider_id: BTreeMap<(Seat, String), ConnectionNumber>,
    /// Connections whose id has not reached the agent yet.
    unannounced: BTreeSet<ConnectionNumber>,
    /// When to check the queue of a connection: not later than the first timeout in it.
    queue_deadlines: Deadlines<ConnectionNumber>,
    /// The form of the last message of a consumer.
    last_consumer_form: Option<Form>,
}

impl Connections {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn get(&self, number: ConnectionNumber) -> Option<&Connection> {
        self.all.get(&number)
    }

    pub(super) fn get_mut(&mut self, number: ConnectionNumber) -> Option<&mut Connection> {
        self.all.get_mut(&number)
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (ConnectionNumber, &Connection)> {
        self.all.iter().map(|(number, connection)| (*number, connection))
    }

    /// The numbers of the connections that match.
    pub(super) fn numbers(&self, is_match: impl Fn(&Connection) -> bool) -> Vec<ConnectionNumber> {
        self.iter()
            .filter(|(_, connection)| is_match(connection))
            .map(|(number, _)| number)
            .collect()
    }

    /// Whether any connection matches.
    pub(super) fn any(&self, is_match: impl Fn(&Connection) -> bool) -> bool {
        self.all.values().any(is_match)
    }

    pub(super) fn add(&mut self, number: ConnectionNumber, connection: Connection) {
        self.all.insert(number, connection);
    }

    /// Removes a connection and its ids.
    pub(super) fn remove(&mut self, number: ConnectionNumber) -> Option<Connection> {
        let connection = self.all.remove(&number)?;
        self.queue_deadlines.remove(&number);
        self.by_consumer_id.retain(|_, it| *it != number);
        self.unannounced.remove(&number);
        self.by_provider_id.retain(|_, it| *it != number);
        Some(connection)
    }

    /// Removes the connections to a provider that is not restarted.
    pub(super) fn forget(&mut self, seat: Seat) {
        self.all.retain(|_, connection| connection.seat != seat);
        let all = &self.all;
        self.by_consumer_id.retain(|_, connection| all.contains_key(connection));
        self.unannounced.retain(|connection| all.contains_key(connection));
        self.forget_provider_ids(seat);
    }

    /// Forgets the ids that a provider has given to its connections. A restarted provider does not
    /// know them.
    pub(super) fn forget_provider_ids(&mut self, seat: Seat) {
        self.by_provider_id.retain(|(key_seat, _), _| *key_seat != seat);
    }
}

/// The ids of connections.
impl Connections {
    /// The number of the connection that a consumer knows by this id.
    pub(super) fn number_of(&self, connection_id: &str) -> Option<ConnectionNumber> {
        self.by_consumer_id.get(connection_id).copied()
    }

    /// The connection that a consumer knows by this id.
    pub(super) fn by_id(&self, connection_id: &str) -> Option<&Connection> {
        self.all.get(self.by_consumer_id.get(connection_id)?)
    }

    /// The number of the connection that a provider knows by this id.
    pub(super) fn by_provider_id(
        &self,
        seat: Seat,
        connection_id: &str,
    ) -> Option<ConnectionNumber> {
        self.by_provider_id.get(&(seat, connection_id.to_owned())).copied()
    }

    /// Records the id by which a provider knows a connection.
    pub(super) fn connect(&mut self, seat: Seat, connection_id: String, number: ConnectionNumber) {
        self.by_provider_id.insert((seat, connection_id), number);
    }

    /// Forgets the id by which a provider knows a connection.
    pub(super) fn disconnect(&mut self, seat: Seat, connection_id: &str) {
        self.by_provider_id.remove(&(seat, connection_id.to_owned()));
    }

    /// Gives a connection the id by which the consumer knows it: `wanted`, or a similar one if that
    /// is taken.
    pub(super) fn assign_id(&mut self, number: ConnectionNumber, wanted: &str) -> String {
        let mut candidates =
            std::iter::once(wanted.to_owned()).chain((2..).map(|n| format!("{wanted}#{n}")));
        let free = candidates.find(|it| !self.by_consumer_id.contains_key(it)).unwrap_or_default();
        self.by_consumer_id.insert(free.clone(), number);
        free
    }

    /// Whether [`assign_id`](Connections::assign_id) has given the connection its id for the
    /// consumer.
    pub(super) fn has_consumer_id(&self, number: ConnectionNumber) -> bool {
        match self.all.get(&number).map(|connection| &connection.consumer) {
            Some(Consumer::Connection { id, .. }) => self.by_consumer_id.get(id) == Some(&number),
            _ => false,
        }
    }

    /// Records that the id of a connection is sent toward the agent and has not reached it.
    pub(super) fn mark_unannounced(&mut self, number: ConnectionNumber) {
        self.unannounced.insert(number);
    }

    /// Records that the id of a connection has reached the agent.
    pub(super) fn mark_announced(&mut self, number: ConnectionNumber) {
        self.unannounced.remove(&number);
    }

    /// Whether the id of any connection has not reached the agent yet.
    pub(super) fn has_unannounced(&self) -> bool {
        !self.unannounced.is_empty()
    }
}

/// The form that consumers use.
impl Connections {
    /// The form of the last message of a consumer.
    pub(super) fn last_consumer_form(&self) -> Option<Form> {
        self.last_consumer_form
    }

    /// Returns the form that a consumer uses. M2 and M3 connect in the same way. Only the first
    /// message of a connection shows which of them the consumer uses, and then the form of all its
    /// connections is corrected.
    pub(super) fn update_consumer_form(&mut self, form: Form, frame: &Frame) -> Form {
        if let Frame::Mcp { .. } = frame {
            self.last_consumer_form = Some(form);
        }
        if self.last_consumer_form != Some(Form::M2) {
            return form;
        }
        let forms = self.all.values_mut().filter_map(|connection| match &mut connection.consumer {
            Consumer::Connection { form, .. } if *form == Form::M3 => Some(form),
            _ => None,
        });
        forms.for_each(|form| *form = Form::M2);
        if form == Form::M3 { Form::M2 } else { form }
    }
}

/// Messages that wait until a connection is open.
impl Connections {
    /// When the next queued message may time out.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.queue_deadlines.first()
    }

    /// Sets the deadline of a connection's queue, unless it has one already.
    pub(super) fn set_queue_deadline(&mut self, number: ConnectionNumber, deadline: Option<Time>) {
        if let Some(deadline) = deadline.filter(|_| !self.queue_deadlines.contains(&number)) {
            self.queue_deadlines.insert(number, deadline);
        }
    }

    /// Removes and returns the queued messages that have timed out, with their connections.
    pub(super) fn take_expired(&mut self, now: Time) -> Vec<(ConnectionNumber, ConsumerMessage)> {
        let late = |message: &mut ConsumerMessage| {
            message.deadline.is_some_and(|deadline| deadline <= now)
        };
        let mut expired = Vec::new();
        for number in self.queue_deadlines.take_due(now) {
            let connection = self.all.get_mut(&number);
            let Some(queued) = connection.and_then(Connection::queued_mut) else { continue };
            expired.extend(queued.extract_if(.., late).map(|message| (number, message)));
            if let Some(next) = queued.iter().filter_map(|message| message.deadline).min() {
                self.queue_deadlines.insert(number, next);
            }
        }
        expired
    }
}
