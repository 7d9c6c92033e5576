//! Proxies of several kinds. A restarted proxy has no state.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use acp_wire::{Call, Generation, Id, Json, Message, Outcome, Side, acp, code};
use router::Time;

use crate::agent::Disk;
use crate::outbox::{
    Outbox, PANEL, Serial, USE_PANEL, ends, is_mcp, json, key, serial, session, sets_up, text,
};
use crate::provider::Provider;

/// What a proxy does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Forwards everything.
    Transparent,
    /// Adds a member to prompts.
    Context,
    /// Sends a request of its own before it forwards a prompt.
    Holder,
    /// Offers an MCP server.
    Provider,
    /// The same, but its ids are the same after a restart.
    Counter,
    /// Marks each prompt that it forwards.
    Guard,
    /// Refuses unknown methods.
    Refuser,
    /// Neither forwards nor answers barriers.
    Swallower,
}

impl Kind {
    pub fn has_server(self) -> bool {
        matches!(self, Kind::Provider | Kind::Counter)
    }

    pub const ALL: [(&'static str, Kind); 8] = [
        ("transparent", Kind::Transparent),
        ("context", Kind::Context),
        ("holder", Kind::Holder),
        ("provider", Kind::Provider),
        ("counter", Kind::Counter),
        ("guard", Kind::Guard),
        ("refuser", Kind::Refuser),
        ("swallower", Kind::Swallower),
    ];
}

pub struct Proxy {
    kind: Kind,
    /// Whether its generation cannot read every update.
    old: bool,
    last: u64,
    initialized: bool,
    sessions: BTreeSet<String>,
    /// Forwarded requests, by its own request id.
    forwarded: BTreeMap<String, Forwarded>,
    /// Prompts that wait for the answer to its own request.
    held: BTreeMap<String, (Id, Call)>,
    pub provider: Option<Provider>,
    disk: Rc<RefCell<Disk>>,
}

struct Forwarded {
    id: Id,
    toward: Side,
    method: String,
    session: Option<String>,
}

impl Proxy {
    pub fn new(
        (kind, generation): (Kind, Generation),
        provider: Option<Provider>,
        disk: Rc<RefCell<Disk>>,
    ) -> Proxy {
        Proxy {
            kind,
            old: [Generation::P3, Generation::P4].contains(&generation),
            last: 0,
            initialized: false,
            sessions: BTreeSet::new(),
            forwarded: BTreeMap::new(),
            held: BTreeMap::new(),
            provider,
            disk,
        }
    }

    /// The next request id. Each process counts from one, so ids repeat after a restart.
    fn next_id(&mut self) -> Id {
        self.last += 1;
        Id::from(self.last)
    }

    pub fn receive(&mut self, toward: Side, message: Message, outbox: &mut Outbox<'_>) {
        match message {
            Message::Request { id, call } => self.on_request(toward, id, call, outbox),
            Message::Notification(call) => self.on_notification(toward, call, outbox),
            Message::Response { id, outcome, extras } => {
                self.on_response(
                    &id,
                    Message::Response { id: id.clone(), outcome, extras },
                    outbox,
                );
            }
        }
    }

    fn on_request(&mut self, toward: Side, id: Id, call: Call, outbox: &mut Outbox<'_>) {
        let method = call.method.name().into_owned();
        if toward == Side::Agent && method == "initialize" {
            if std::mem::replace(&mut self.initialized, true) {
                outbox.violation("a proxy is initialized twice");
            }
        } else if !self.initialized {
            outbox.violation(format!("a proxy gets {method} before it was initialized"));
        }
        if let Some(provider) = &mut self.provider
            && toward == Side::Editor
            && provider.on_request(&id, &call, outbox)
        {
            return;
        }
        self.check_session(&method, call.params.as_ref(), outbox);
        let plan = call.params.as_ref().and_then(|it| text(it, &["do"]));
        if method == "session/prompt" && plan.is_some_and(|it| it.contains('s')) {
            outbox.show_panel();
        }
        if self.kind == Kind::Refuser && method.starts_with('_') && !is_mcp(&method) {
            let to = call.params.as_ref().and_then(serial);
            return outbox.error(
                toward.opposite(),
                id,
                to,
                code::METHOD_NOT_FOUND,
                "unknown method",
            );
        }
        if self.kind == Kind::Swallower && method == "_conductor/barrier" {
            return;
        }
        if self.kind == Kind::Holder && method == "session/prompt" {
            let own = self.next_id();
            let params = json(format!(r#"{{"n":{}}}"#, outbox.next_serial()));
            self.held.insert(key(&own), (id, call));
            return outbox.send(Side::Agent, Message::request(own, "_holder/look", params));
        }
        self.forward(toward, id, call, outbox);
    }

    fn forward(&mut self, toward: Side, id: Id, call: Call, outbox: &mut Outbox<'_>) {
        let method = call.method.name().into_owned();
        let named = session(call.params.as_ref());
        if sets_up(&method) {
            self.sessions.extend(named.clone());
        }
        let call = Call { params: call.params.map(|it| self.edit(&method, it)), ..call };
        let own = self.next_id();
        self.forwarded.insert(key(&own), Forwarded { id, toward, method, session: named });
        outbox.send(toward, Message::Request { id: own, call });
    }

    fn edit(&mut self, method: &str, params: Json) -> Json {
        match (self.kind, &mut self.provider) {
            (_, Some(provider)) if sets_up(method) => provider.declare(&params),
            (Kind::Context, _) if method == "session/prompt" => {
                params.with_at(&["context"], Some(&Json::string("the weather is fine")))
            }
            (Kind::Guard, _) if method == "session/prompt" => {
                let stamp = serial(&params).map_or(Json::NULL, |it| Json::trusted(it.to_string()));
                params.with_at(&["guard"], Some(&stamp))
            }
            _ => params,
        }
    }

    fn on_notification(&mut self, toward: Side, call: Call, outbox: &mut Outbox<'_>) {
        let method = call.method.name().into_owned();
        if method == acp::CANCEL_REQUEST {
            return self.on_cancel(call, outbox);
        }
        if let Some(provider) = &mut self.provider
            && toward == Side::Editor
            && provider.on_notification(&call, outbox)
        {
            return;
        }
        self.check_session(&method, call.params.as_ref(), outbox);
        // A guard gets all updates.
        let kind = call.params.as_ref().and_then(|it| text(it, &["update", "sessionUpdate"]));
        if self.old && self.kind != Kind::Guard && kind.as_deref() == Some("usage_update") {
            outbox.violation(format!("a {:?} gets an update that it cannot read", self.kind));
        }
        // The event of its own panel. The message log checks that it is its own.
        let id = call.params.as_ref().and_then(|it| text(it, &["id"]));
        if method == USE_PANEL && id.as_deref() == Some(PANEL) {
            return;
        }
        outbox.send(toward, Message::Notification(call));
    }

    fn on_cancel(&mut self, call: Call, outbox: &mut Outbox<'_>) {
        let params = call.params.clone().unwrap_or(Json::EMPTY_OBJECT);
        let Some(id) = acp::cancelled_id(&params) else { return };
        if let Some(name) =
            self.held.iter().find(|(_, (pending, _))| *pending == id).map(|(name, _)| name.clone())
            && let Some((id, call)) = self.held.remove(&name)
        {
            let to = call.params.as_ref().and_then(serial);
            return outbox.error(Side::Editor, id, to, code::CANCELLED, "cancelled");
        }
        if let Some((own, forwarded)) =
            self.forwarded.iter().find(|(_, forwarded)| forwarded.id == id)
        {
            let params = params.with_member("requestId", &Json::trusted(own.clone()));
            let call = Call { params: Some(params), ..call };
            outbox.send(forwarded.toward, Message::Notification(call));
        }
    }

    fn on_response(&mut self, id: &Id, message: Message, outbox: &mut Outbox<'_>) {
        let Message::Response { outcome, extras, .. } = message else { return };
        let name = key(id);
        if self.forwarded.contains_key(&name) {
            let Some(forwarded) = self.forwarded.remove(&name) else { return };
            self.update_sessions(&forwarded, &outcome);
            let message = Message::Response { id: forwarded.id, outcome, extras };
            return outbox.send(forwarded.toward.opposite(), message);
        }
        // This is the answer to its own request. The prompt may have been cancelled meanwhile.
        if let Some((id, call)) = self.held.remove(&name) {
            self.forward(Side::Agent, id, call, outbox);
        }
    }

    fn update_sessions(&mut self, forwarded: &Forwarded, outcome: &Outcome) {
        match outcome {
            Outcome::Result(result) if sets_up(&forwarded.method) => {
                self.sessions.extend(session(Some(result)).or(forwarded.session.clone()));
            }
            Outcome::Result(_) if ends(&forwarded.method) => {
                if let Some(session) = &forwarded.session {
                    self.sessions.remove(session);
                }
            }
            Outcome::Error(_) if sets_up(&forwarded.method) => {
                if let Some(session) = &forwarded.session {
                    self.sessions.remove(session);
                }
            }
            _ => {}
        }
    }

    fn check_session(&self, method: &str, params: Option<&Json>, outbox: &mut Outbox<'_>) {
        if let Some(session) = session(params)
            && !sets_up(method)
            && !ends(method)
            // It may arrive while the session is being closed.
            && method != "session/cancel"
            && !self.sessions.contains(&session)
            // It may have been sent before the session was closed.
            && !self.disk.borrow().closed.contains(&session)
        {
            let serial: Option<Serial> = params.and_then(serial);
            outbox.violation(format!(
                "a {:?} gets {method} {serial:?} for session {session}, which was never set up",
                self.kind
            ));
        }
    }

    /// Handles an expired timer.
    pub fn wake(&mut self, outbox: &mut Outbox<'_>) {
        if let Some(provider) = &mut self.provider {
            provider.wake(outbox);
        }
    }

    pub fn next_timer(&self) -> Option<Time> {
        self.provider.as_ref()?.next_timer()
    }
}
