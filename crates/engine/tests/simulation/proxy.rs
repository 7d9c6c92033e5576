//! Proxies of several kinds. What each life knows it has been told itself: it begins with nothing.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use acp_wire::{Call, Generation, Id, Json, Message, Outcome, Side, acp, code};
use router::Time;

use crate::agent::Disk;
use crate::pen::{Pen, Serial, ends, is_mcp, json, key, serial, session, sets_up, text};
use crate::provider::Provider;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Passes everything on.
    Transparent,
    /// Adds something to prompts.
    Context,
    /// Asks something of its own before it passes a prompt on.
    Holder,
    /// Offers an MCP server.
    Provider,
    /// The same, but its ids are the same in each life.
    Counter,
    /// Stamps each prompt that it lets through.
    Guard,
    /// Refuses what it does not know.
    Refuser,
    /// Neither passes barriers on nor answers them.
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
    /// Its generation cannot read every update.
    old: bool,
    last: u64,
    greeted: bool,
    sessions: BTreeSet<String>,
    /// What it has passed on, by its own ids.
    passed: BTreeMap<String, Passed>,
    /// Prompts that wait for the answer to a question of its own.
    held: BTreeMap<String, (Id, Call)>,
    pub provider: Option<Provider>,
    disk: Rc<RefCell<Disk>>,
}

struct Passed {
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
            greeted: false,
            sessions: BTreeSet::new(),
            passed: BTreeMap::new(),
            held: BTreeMap::new(),
            provider,
            disk,
        }
    }

    /// Each life counts from one: what was asked in another has the same ids.
    fn fresh(&mut self) -> Id {
        self.last += 1;
        Id::from(self.last)
    }

    pub fn hear(&mut self, toward: Side, message: Message, pen: &mut Pen<'_>) {
        match message {
            Message::Request { id, call } => self.on_request(toward, id, call, pen),
            Message::Notification(call) => self.on_notification(toward, call, pen),
            Message::Response { id, outcome, extras } => {
                self.on_response(&id, Message::Response { id: id.clone(), outcome, extras }, pen);
            }
        }
    }

    fn on_request(&mut self, toward: Side, id: Id, call: Call, pen: &mut Pen<'_>) {
        let method = call.method.name().into_owned();
        if toward == Side::Agent && method == "initialize" {
            if std::mem::replace(&mut self.greeted, true) {
                pen.wrong("a proxy is initialized twice");
            }
        } else if !self.greeted {
            pen.wrong(format!("a proxy hears {method} before it was initialized"));
        }
        if let Some(provider) = &mut self.provider
            && toward == Side::Editor
            && provider.on_request(&id, &call, pen)
        {
            return;
        }
        self.check_session(&method, call.params.as_ref(), pen);
        if self.kind == Kind::Refuser && method.starts_with('_') && !is_mcp(&method) {
            let to = call.params.as_ref().and_then(serial);
            return pen.error(toward.opposite(), id, to, code::METHOD_NOT_FOUND, "what is this?");
        }
        if self.kind == Kind::Swallower && method == "_conductor/barrier" {
            return;
        }
        if self.kind == Kind::Holder && method == "session/prompt" {
            let own = self.fresh();
            let params = json(format!(r#"{{"n":{}}}"#, pen.fresh()));
            self.held.insert(key(&own), (id, call));
            return pen.say(Side::Agent, Message::request(own, "_holder/look", params));
        }
        self.pass(toward, id, call, pen);
    }

    fn pass(&mut self, toward: Side, id: Id, call: Call, pen: &mut Pen<'_>) {
        let method = call.method.name().into_owned();
        let named = session(call.params.as_ref());
        if sets_up(&method) {
            self.sessions.extend(named.clone());
        }
        let call = Call { params: call.params.map(|it| self.edit(&method, it)), ..call };
        let own = self.fresh();
        self.passed.insert(key(&own), Passed { id, toward, method, session: named });
        pen.say(toward, Message::Request { id: own, call });
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

    fn on_notification(&mut self, toward: Side, call: Call, pen: &mut Pen<'_>) {
        let method = call.method.name().into_owned();
        if method == acp::CANCEL_REQUEST {
            return self.on_cancel(call, pen);
        }
        if let Some(provider) = &mut self.provider
            && toward == Side::Editor
            && provider.on_notification(&call, pen)
        {
            return;
        }
        self.check_session(&method, call.params.as_ref(), pen);
        // A guard sees everything.
        let kind = call.params.as_ref().and_then(|it| text(it, &["update", "sessionUpdate"]));
        if self.old && self.kind != Kind::Guard && kind.as_deref() == Some("usage_update") {
            pen.wrong(format!("a {:?} hears an update that it cannot read", self.kind));
        }
        pen.say(toward, Message::Notification(call));
    }

    fn on_cancel(&mut self, call: Call, pen: &mut Pen<'_>) {
        let params = call.params.clone().unwrap_or(Json::EMPTY);
        let Some(id) = acp::cancelled_id(&params) else { return };
        if let Some(name) =
            self.held.iter().find(|(_, (asked, _))| *asked == id).map(|(name, _)| name.clone())
            && let Some((id, call)) = self.held.remove(&name)
        {
            let to = call.params.as_ref().and_then(serial);
            return pen.error(Side::Editor, id, to, code::CANCELLED, "cancelled");
        }
        if let Some((own, passed)) = self.passed.iter().find(|(_, passed)| passed.id == id) {
            let params = params.with_member("requestId", &Json::trusted(own.clone()));
            let call = Call { params: Some(params), ..call };
            pen.say(passed.toward, Message::Notification(call));
        }
    }

    fn on_response(&mut self, id: &Id, message: Message, pen: &mut Pen<'_>) {
        let Message::Response { outcome, extras, .. } = message else { return };
        let name = key(id);
        if self.passed.contains_key(&name) {
            let Some(passed) = self.passed.remove(&name) else { return };
            self.learn(&passed, &outcome);
            let message = Message::Response { id: passed.id, outcome, extras };
            return pen.say(passed.toward.opposite(), message);
        }
        // Its own question is answered, or was before the prompt was cancelled.
        if let Some((id, call)) = self.held.remove(&name) {
            self.pass(Side::Agent, id, call, pen);
        }
    }

    fn learn(&mut self, passed: &Passed, outcome: &Outcome) {
        match outcome {
            Outcome::Result(result) if sets_up(&passed.method) => {
                self.sessions.extend(session(Some(result)).or(passed.session.clone()));
            }
            Outcome::Result(_) if ends(&passed.method) => {
                if let Some(session) = &passed.session {
                    self.sessions.remove(session);
                }
            }
            Outcome::Error(_) if sets_up(&passed.method) => {
                if let Some(session) = &passed.session {
                    self.sessions.remove(session);
                }
            }
            _ => {}
        }
    }

    fn check_session(&self, method: &str, params: Option<&Json>, pen: &mut Pen<'_>) {
        if let Some(session) = session(params)
            && !sets_up(method)
            && !ends(method)
            // May come while the session is being closed.
            && method != "session/cancel"
            && !self.sessions.contains(&session)
            // Was on its way when the session was closed.
            && !self.disk.borrow().closed.contains(&session)
        {
            let serial: Option<Serial> = params.and_then(serial);
            pen.wrong(format!(
                "a {:?} hears {method} {serial:?} of session {session}, of which it was never told",
                self.kind
            ));
        }
    }

    /// Does what it wanted to do at this time.
    pub fn wake(&mut self, pen: &mut Pen<'_>) {
        if let Some(provider) = &mut self.provider {
            provider.wake(pen);
        }
    }

    pub fn alarm(&self) -> Option<Time> {
        self.provider.as_ref()?.alarm()
    }
}
