//! What each component of the chain receives and answers. Known only inside Conductor.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use acp_proxy::{Call, Id, Message, Outcome, Side};

use super::conversation::Passed;
use super::labels::{self, Ending, MessageKind, MethodNumber, Methods, OTHER, PermissionRequest};
use super::registry::{Named, Registry, SeriesId};

/// How many requests may be open in each direction. The durations of further ones are not measured.
const MAX_OPEN: usize = 10_000;

/// How many components are distinguished. Only the components of a chain have a name here.
const MAX_COMPONENTS: usize = 256;

/// The name of the pipe to the editor in events.
const OUTER: &str = "outer";

/// The names of that pipe in labels: it is the editor on one side, and in a chain that is a proxy itself the rest of the
/// outer chain on the other.
const EDITOR: &str = "editor";
const SUCCESSOR: &str = "successor";

/// The open requests of all components.
#[derive(Debug, Default)]
pub(super) struct Hops {
    /// The number of each component.
    components: HashMap<String, u16>,
    /// The counters of messages, by component, method, kind and side.
    messages: HashMap<u64, Option<SeriesId>>,
    /// The histograms of durations, by component, method and ending.
    durations: HashMap<u64, Option<SeriesId>>,
    /// The requests that a component has received and not answered.
    received: BTreeMap<(u16, Id), Received>,
    /// The methods of the requests that a component has sent, until they are answered.
    sent: BTreeMap<(u16, Id), MethodNumber>,
    permissions: BTreeMap<PermissionKey, OpenPermission>,
    last_permission: u64,
    /// Whether the chain is observed. If not, nothing is known about restarts.
    pub(super) is_attached: bool,
}

#[derive(Debug)]
struct Received {
    method: MethodNumber,
    since: Instant,
    permission: Option<PermissionKey>,
}

/// The key of a permission request: what it is about, and a number, because several requests may be about the same.
type PermissionKey = (String, u64);

/// A permission request on its way.
#[derive(Debug)]
struct OpenPermission {
    request: PermissionRequest,
    since: Instant,
    /// The components that have received it.
    seen_by: Vec<u16>,
    /// Those that have received and not answered it.
    open_at: Vec<u16>,
    /// The decision so far, and the component that has made it: the first that has answered, or a later one that has
    /// answered something else.
    decision: Option<(&'static str, String)>,
}

impl Hops {
    /// A component was started.
    pub(super) fn started(&self, registry: &mut Registry, component: &str, restarts: u32) {
        registry.gauge(Named::Restarts, &[("component", component)], restarts.into());
    }

    /// A component has ended. Its open requests have failed.
    pub(super) fn ended(
        &mut self,
        registry: &mut Registry,
        methods: &Methods,
        component: &str,
        now: Instant,
    ) {
        // The whole chain ends with the pipe to the editor.
        if component == OUTER {
            return;
        }
        let Some(number) = self.number(registry, component) else { return };
        let is_lost = |key: &&(u16, Id)| key.0 == number;
        let lost: Vec<(u16, Id)> = self.received.keys().filter(is_lost).cloned().collect();
        for received in lost.iter().filter_map(|key| self.received.remove(key)).collect::<Vec<_>>()
        {
            let seconds = (now - received.since).as_secs_f64();
            let method = (received.method, methods.name(received.method));
            self.record(registry, (number, component), method, Ending::Crashed, seconds);
            if let Some(key) = received.permission {
                self.permissions.remove(&key);
            }
        }
        self.sent.retain(|(it, _), _| *it != number);
    }

    /// A message was delivered to a component.
    pub(super) fn delivered(
        &mut self,
        registry: &mut Registry,
        methods: &mut Methods,
        (component, toward): (&str, Side),
        message: &Message,
        now: Instant,
    ) {
        let component = label(component, toward);
        let Some(number) = self.number(registry, component) else {
            return registry.count_dropped();
        };
        let (method, kind) = match message {
            Message::Request { id, call } => {
                let method = methods.number(call);
                self.receive(registry, (number, id), method, call, now);
                (method, MessageKind::Request)
            }
            Message::Notification(call) => (methods.number(call), MessageKind::Notification),
            Message::Response { id, outcome, .. } => {
                let method = self.sent.remove(&(number, id.detached()));
                (method.unwrap_or(OTHER), MessageKind::of(outcome))
            }
        };
        let method = (method, methods.name(method));
        self.count(registry, (number, component), method, kind, toward.opposite());
    }

    /// Counts a message that a component has received from this side.
    fn count(
        &mut self,
        registry: &mut Registry,
        (number, component): (u16, &str),
        (method, name): (MethodNumber, &str),
        kind: MessageKind,
        from: Side,
    ) {
        let last = (kind as u64) << 8 | u64::from(from == Side::Agent);
        let series = *self.messages.entry(key(number, method, last)).or_insert_with(|| {
            let labels = [
                ("method", name),
                ("kind", kind.name()),
                ("from", labels::side(from)),
                ("component", component),
            ];
            registry.series(Named::Messages, &labels)
        });
        series.into_iter().for_each(|series| registry.add(series, 1.0));
    }

    /// Adds the duration of a request that a component has answered.
    fn record(
        &mut self,
        registry: &mut Registry,
        (number, component): (u16, &str),
        (method, name): (MethodNumber, &str),
        ending: Ending,
        seconds: f64,
    ) {
        let series =
            *self.durations.entry(key(number, method, ending as u64)).or_insert_with(|| {
                let labels =
                    [("method", name), ("outcome", ending.name()), ("component", component)];
                registry.series(Named::RequestDuration, &labels)
            });
        series.into_iter().for_each(|series| registry.observe(series, seconds));
    }

    /// Counts a message that has passed the component `metrics` itself, which is the only one that it knows outside of
    /// Conductor.
    pub(super) fn passed(
        &mut self,
        registry: &mut Registry,
        methods: &Methods,
        own: &str,
        (from, message): (Side, &Message),
        passed: &Passed,
        now: Instant,
    ) {
        let Some(number) = self.number(registry, own) else { return };
        let method = (passed.method, methods.name(passed.method));
        self.count(registry, (number, own), method, passed.kind, from);
        if let (Message::Response { outcome, .. }, Some(requested)) = (message, passed.requested) {
            let seconds = (now - requested).as_secs_f64();
            self.record(registry, (number, own), method, Ending::of(outcome), seconds);
        }
    }

    fn receive(
        &mut self,
        registry: &mut Registry,
        (number, id): (u16, &Id),
        method: MethodNumber,
        call: &Call,
        now: Instant,
    ) {
        if self.received.len() >= MAX_OPEN {
            return registry.count_dropped();
        }
        let permission = match call.is("session/request_permission") {
            true => PermissionRequest::read(call),
            false => None,
        };
        let permission = permission.map(|request| self.receive_permission(number, request, now));
        let received = Received { method, since: now, permission };
        self.received.insert((number, id.detached()), received);
    }

    /// A component has received a permission request: an earlier one on its way, or a new one. Requests about the same tool
    /// call keep their order.
    fn receive_permission(
        &mut self,
        number: u16,
        request: PermissionRequest,
        now: Instant,
    ) -> PermissionKey {
        let about = request.key.clone();
        let same = || self.permissions.range((about.clone(), 0)..=(about.clone(), u64::MAX));
        let is_new_here = |it: &OpenPermission| !it.seen_by.contains(&number);
        // A component may ask the same question again.
        let is_answered_here = |it: &OpenPermission| !it.open_at.contains(&number);
        let known = same().find(|(_, it)| is_new_here(it));
        let known = known.or_else(|| same().find(|(_, it)| is_answered_here(it)));
        let key = known.map(|(key, _)| key.clone()).unwrap_or_else(|| {
            self.last_permission += 1;
            (about.clone(), self.last_permission)
        });
        let open = self.permissions.entry(key.clone()).or_insert_with(|| OpenPermission {
            request,
            since: now,
            seen_by: Vec::new(),
            open_at: Vec::new(),
            decision: None,
        });
        if is_new_here(open) {
            open.seen_by.push(number);
        }
        open.open_at.push(number);
        key
    }

    /// A component has sent a message.
    pub(super) fn arrived(
        &mut self,
        registry: &mut Registry,
        methods: &mut Methods,
        (component, toward): (&str, Side),
        message: &Message,
        now: Instant,
    ) {
        // The pipe to the editor is on the editor's side, so its messages travel toward the agent.
        let component = label(component, toward.opposite());
        let Some(number) = self.number(registry, component) else { return };
        match message {
            Message::Request { id, call } => {
                if self.sent.len() < MAX_OPEN {
                    self.sent.insert((number, id.detached()), methods.number(call));
                }
            }
            Message::Notification(_) => {}
            Message::Response { id, outcome, .. } => {
                let Some(received) = self.received.remove(&(number, id.detached())) else { return };
                let seconds = (now - received.since).as_secs_f64();
                let method = (received.method, methods.name(received.method));
                self.record(registry, (number, component), method, Ending::of(outcome), seconds);
                if let Some(key) = received.permission {
                    self.on_decision(registry, &key, (number, component), outcome, now);
                }
            }
        }
    }

    /// A component has answered a permission request. When all have, the agent has the answer.
    fn on_decision(
        &mut self,
        registry: &mut Registry,
        key: &PermissionKey,
        (number, component): (u16, &str),
        outcome: &Outcome,
        now: Instant,
    ) {
        let Some(open) = self.permissions.get_mut(key) else { return };
        open.open_at.retain(|it| *it != number);
        let decision = open.request.decision(outcome);
        if open.decision.as_ref().is_none_or(|(earlier, _)| *earlier != decision) {
            open.decision = Some((decision, component.to_owned()));
        }
        if !open.open_at.is_empty() {
            return;
        }
        if let Some(OpenPermission { since, decision: Some((decision, by)), .. }) =
            self.permissions.remove(key)
        {
            let labels = [("decision", decision), ("by", &*by)];
            registry.count(Named::PermissionRequests, &labels, 1.0);
            registry.record(Named::PermissionWait, &labels, (now - since).as_secs_f64());
        }
    }

    fn number(&mut self, registry: &mut Registry, component: &str) -> Option<u16> {
        if let Some(number) = self.components.get(component) {
            return Some(*number);
        }
        let number = self.components.len();
        if number >= MAX_COMPONENTS {
            return None;
        }
        self.components.insert(component.to_owned(), number as u16);
        // The component may have started before this one.
        if component != EDITOR && component != SUCCESSOR && self.is_attached {
            registry.count(Named::Restarts, &[("component", component)], 0.0);
        }
        Some(number as u16)
    }

    /// How many requests are open, for tests.
    #[cfg(test)]
    pub(super) fn open(&self) -> usize {
        self.received.len() + self.sent.len() + self.permissions.len()
    }
}

/// The key of a series, from small numbers.
fn key(component: u16, method: MethodNumber, last: u64) -> u64 {
    u64::from(component) << 32 | u64::from(method) << 16 | last
}

/// The name of a component as a label.
fn label(component: &str, side: Side) -> &str {
    match (component, side) {
        (OUTER, Side::Editor) => EDITOR,
        (OUTER, Side::Agent) => SUCCESSOR,
        _ => component,
    }
}
