//! The open requests of a chain: which answer belongs to which request, and which request is the continuation of
//! another one on the next hop.

use std::collections::BTreeMap;
use std::time::Duration;

use acp_wire::{Call, Id, Json, Side};

/// The maximum number of open requests that are remembered. Further requests have no number.
const MAX_OPEN: usize = 1000;

/// The maximum length of params that are compared to find the continuation of a request.
const MAX_COMPARED: usize = 1024 * 1024;

/// The position of a component: 0 is the editor.
pub(super) type Position = usize;

/// A request that a component has sent.
#[derive(Debug)]
pub(super) struct SentRequest {
    pub(super) number: u64,
    pub(super) method: String,
    pub(super) time: Duration,
}

/// The origin of a request that was delivered to a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// Another component has sent it, and gets the answer.
    Component,
    /// The conductor has created it. The answer is not delivered to a component.
    Conductor,
    /// The conductor has created it, or has converted the request of a component to another method.
    Unknown,
}

/// A request that was delivered to a component.
#[derive(Debug)]
pub(super) struct ReceivedRequest {
    pub(super) number: u64,
    /// The method, as the row shows it.
    pub(super) method: String,
    pub(super) time: Duration,
    /// The name of its sender.
    pub(super) from: String,
    pub(super) origin: Origin,
    toward: Side,
    name: String,
    params: Option<Json>,
}

/// A request that has arrived and is not delivered yet.
#[derive(Debug)]
struct Undelivered {
    position: Position,
    toward: Side,
    name: String,
    number: u64,
}

impl Undelivered {
    /// Whether the receiver is behind the sender. It is not always the neighbour: components may be bypassed.
    fn can_reach(&self, receiver: Position, toward: Side) -> bool {
        let is_behind = match toward {
            Side::Agent => self.position < receiver,
            Side::Editor => self.position > receiver,
        };
        self.toward == toward && is_behind
    }
}

/// The open requests.
#[derive(Debug, Default)]
pub(super) struct Requests {
    count: u64,
    sent: BTreeMap<(Position, Id), SentRequest>,
    received: BTreeMap<(Position, Id), ReceivedRequest>,
    undelivered: Vec<Undelivered>,
}

impl Requests {
    /// A component has sent a request. `method` is what the row shows.
    pub(super) fn on_sent(
        &mut self,
        position: Position,
        toward: Side,
        (id, call): (&Id, &Call),
        method: String,
        time: Duration,
    ) {
        if self.sent.len() >= MAX_OPEN || self.undelivered.len() >= MAX_OPEN {
            return;
        }
        let number = self.continued(position, toward, call).unwrap_or_else(|| self.new_number());
        let name = call.method.name().into_owned();
        self.undelivered.push(Undelivered { position, toward, name, number });
        self.sent.insert((position, id.detached()), SentRequest { number, method, time });
    }

    /// The positions of the components have changed.
    pub(super) fn forget_open(&mut self) {
        *self = Requests { count: self.count, ..Requests::default() };
    }

    fn new_number(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    /// The number of the request that a component passes on with this one: it has received a request with the same
    /// method, and this one has the same params or more.
    fn continued(&self, position: Position, toward: Side, call: &Call) -> Option<u64> {
        let name = call.method.name();
        let open = self
            .received
            .iter()
            .filter(|((at, _), it)| *at == position && it.toward == toward && it.name == *name);
        let open: Vec<&ReceivedRequest> = open.map(|(_, it)| it).collect();
        let same = open.iter().find(|it| texts(&it.params) == texts(&call.params));
        let extended = || open.iter().find(|it| continues(call, it));
        same.or_else(extended).map(|found| found.number)
    }

    /// A request is delivered to a component. Returns its number and the position of its sender, unless the conductor
    /// has created it.
    pub(super) fn on_delivered(
        &mut self,
        position: Position,
        toward: Side,
        call: &Call,
    ) -> Option<(u64, Position)> {
        let name = call.method.name();
        let fits = |it: &Undelivered| it.name == *name && it.can_reach(position, toward);
        let distance = |it: &Undelivered| it.position.abs_diff(position);
        let candidates = self.undelivered.iter().enumerate().filter(|(_, it)| fits(it));
        let (index, _) = candidates.min_by_key(|(index, it)| (distance(it), *index))?;
        let found = self.undelivered.remove(index);
        Some((found.number, found.position))
    }

    /// Remembers a request that was delivered. `sender` is the result of [`on_delivered`](Self::on_delivered).
    /// Returns its number.
    pub(super) fn remember(
        &mut self,
        (position, toward): (Position, Side),
        (id, call): (&Id, &Call),
        sender: Option<(u64, Position)>,
        (method, from): (&str, &str),
        time: Duration,
    ) -> Option<u64> {
        if self.received.len() >= MAX_OPEN {
            return sender.map(|(number, _)| number);
        }
        let number = sender.map(|(number, _)| number).unwrap_or_else(|| self.new_number());
        let is_converted = || self.undelivered.iter().any(|it| it.can_reach(position, toward));
        let origin = match sender {
            Some(_) => Origin::Component,
            None if is_converted() => Origin::Unknown,
            None => Origin::Conductor,
        };
        let small = |params: &&Json| params.as_str().len() <= MAX_COMPARED;
        let received = ReceivedRequest {
            number,
            method: method.to_owned(),
            time,
            from: from.to_owned(),
            origin,
            toward,
            name: call.method.name().into_owned(),
            params: call.params.as_ref().filter(small).map(Json::detached),
        };
        self.received.insert((position, id.detached()), received);
        Some(number)
    }

    /// A component has answered a request.
    pub(super) fn on_answered(&mut self, position: Position, id: &Id) -> Option<ReceivedRequest> {
        self.received.remove(&(position, id.detached()))
    }

    /// An answer is delivered to the component that has sent the request. The conductor answers some requests itself,
    /// and does not deliver them.
    pub(super) fn on_answer_delivered(
        &mut self,
        position: Position,
        id: &Id,
    ) -> Option<SentRequest> {
        let sent = self.sent.remove(&(position, id.detached()))?;
        self.undelivered.retain(|it| (it.position, it.number) != (position, sent.number));
        Some(sent)
    }

    /// A component has ended. It answers nothing any more, and gets no answers.
    pub(super) fn on_ended(&mut self, position: Position) {
        self.sent.retain(|(at, _), _| *at != position);
        self.received.retain(|(at, _), _| *at != position);
        self.undelivered.retain(|it| it.position != position);
    }
}

fn texts(params: &Option<Json>) -> Option<&str> {
    params.as_ref().map(Json::as_str)
}

/// Whether a request passes on another one, which has the same method.
fn continues(call: &Call, original: &ReceivedRequest) -> bool {
    // A proxy may change everything in it, and receives it only once.
    if original.name == "initialize" {
        return true;
    }
    let (Some(copy), Some(params)) = (&call.params, &original.params) else { return false };
    if copy.as_str().len() > MAX_COMPARED {
        return false;
    }
    copy.extends(params) || original.name == "session/prompt" && contains_texts(copy, params)
}

/// Whether the texts of a prompt occur in another prompt of the same session. Proxies also add text inside a block.
fn contains_texts(copy: &Json, original: &Json) -> bool {
    let session = |params: &Json| params.member("sessionId").map(|it| it.as_str().to_owned());
    let texts = |params: &Json| -> Vec<String> {
        let blocks = params.member("prompt").map(|it| it.elements()).unwrap_or_default();
        let text = |block: &Json| Some(block.member("text")?.text()?.into_owned());
        blocks.iter().filter_map(text).collect()
    };
    let (copies, originals) = (texts(copy), texts(original));
    let occurs = |text: &String| copies.iter().any(|copy| copy.contains(text.trim()));
    session(copy) == session(original) && !originals.is_empty() && originals.iter().all(occurs)
}
