//! A chain around an exchange: the router, the seats, the clients and their places, on paper.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use mcp::form::connection_of;
use mcp::{Exchange, Hop, Kind, Place, Policy, Ports, Step, Ticket};
use router::{Action, Chain, Component, Event, Exit, How, Mode, Role, Router, Seat, Time};
use wire::{Id, Json, Message, Outcome, Side, acp};

use super::ledger::Ledger;
use crate::line::reads_the_same;
use crate::story::tell;

/// More than this moves at once only if it moves in a circle.
const MOST_MOVES: usize = 20_000;

#[allow(missing_debug_implementations)] // neither a router nor an exchange has anything to show
pub struct World {
    /// Without one, everybody may say anything: then the exchange alone is looked at.
    pub router: Option<Router>,
    pub exchange: Exchange,
    pub chain: Chain,
    pub now: Time,
    pub sitters: Vec<Sitter>,
    pub ledger: Ledger,
    pub desk: Arc<Mutex<Desk>>,
    /// What the exchange has asked without a router.
    pub asked: Vec<Id>,
    /// Connections and sessions that there have been.
    pub connections: Vec<String>,
    pub sessions: BTreeSet<String>,
    /// The chain is over.
    pub finished: bool,
    routed: VecDeque<Event>,
    moves: usize,
}

#[derive(Debug)]
pub struct Sitter {
    pub dialect: &'static str,
    pub proxy: bool,
    /// What it adds to the servers of a session.
    pub declares: &'static str,
    /// What it was told or asked and has not dealt with.
    pub waiting: Vec<(Side, Message)>,
    inbox: VecDeque<(Side, Message)>,
    /// What it has passed on: its own id, and under which it was asked.
    passed: BTreeMap<String, Id>,
    last: u64,
}

/// The places where clients may call.
#[derive(Debug, Default)]
pub struct Desk {
    pub open: BTreeSet<Ticket>,
    /// Nobody is admitted any more.
    pub full: bool,
}

struct FakePorts(Arc<Mutex<Desk>>);

impl Ports for FakePorts {
    fn admit(&mut self, kind: Kind, ticket: Ticket) -> Result<Place, String> {
        let mut desk = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if desk.full {
            return Err("there is no room".into());
        }
        assert!(desk.open.insert(ticket), "{ticket:?} is given out twice");
        let secret = format!("s{}", ticket.0);
        let (program, port, variable) = ("/conductor".to_owned(), 7000, "SECRET");
        Ok(match kind {
            Kind::Stdio => Place::Stdio { program, port, variable, secret },
            Kind::Http => Place::Http { url: "http://127.0.0.1:7000/mcp".into(), secret },
        })
    }

    fn revoke(&mut self, ticket: Ticket) {
        let mut desk = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(desk.open.remove(&ticket), "{ticket:?} is revoked, and was not good");
    }
}

impl World {
    /// Proxies with these dialects and servers, before an agent or (in proxy mode) alone.
    pub fn new(mode: Mode, proxies: &[(&'static str, &'static str)], policy: Policy) -> World {
        let count = proxies.len() + usize::from(mode == Mode::Agent);
        let component = |number| Component::new(format!("c{number}"), "x");
        let chain = Chain {
            mode,
            components: (1..=count).map(component).collect(),
            greeting_limit: 60_000,
            grace: 1_000,
            any_version: false,
        };
        let sitters = (0..=count as u16).map(|seat| {
            let proxy = seat > 0 && chain.role(Seat(seat)) == Role::Proxy;
            let known = usize::from(seat).checked_sub(1).and_then(|index| proxies.get(index));
            let (dialect, declares) = known.copied().unwrap_or(("plain", ""));
            Sitter {
                dialect,
                proxy,
                declares,
                waiting: Vec::new(),
                inbox: VecDeque::new(),
                passed: BTreeMap::new(),
                last: 0,
            }
        });
        let desk = Arc::new(Mutex::new(Desk::default()));
        World {
            router: None,
            sitters: sitters.collect(),
            exchange: Exchange::new(chain.clone(), policy, Box::new(FakePorts(desk.clone()))),
            chain,
            now: Time(0),
            ledger: Ledger::default(),
            desk,
            asked: Vec::new(),
            connections: Vec::new(),
            sessions: BTreeSet::new(),
            finished: false,
            routed: VecDeque::new(),
            moves: 0,
        }
    }

    /// The seat beyond the last proxy: the agent, or what is behind the conductor above us.
    pub fn far(&self) -> usize {
        match self.chain.mode {
            Mode::Agent => self.sitters.len() - 1,
            Mode::Proxy => 0,
        }
    }

    /// From now on a router decides where messages go, and the chain stands: its agent can do this.
    pub fn begin(&mut self, abilities: &str) {
        self.router = Some(Router::new(self.chain.clone()));
        let abilities = Json::trusted(abilities.to_owned());
        let version = abilities.member("protocolVersion").unwrap_or(Json::NULL);
        let params = Json::object([("protocolVersion", Some(version))]);
        let hello = Message::request(Id::string("hello"), acp::INITIALIZE, params);
        self.send(0, Side::Agent, hello);
        let far = self.far();
        let asks = |message: &Message| matches!(message, Message::Request { call, .. } if call.is(acp::INITIALIZE));
        let index = self.sitters[far].waiting.iter().position(|(_, message)| asks(message));
        self.answer(far, index.expect("the agent is greeted"), Outcome::Result(abilities));
        self.sitters.iter_mut().for_each(|sitter| sitter.waiting.clear());
    }

    pub fn tickets(&self) -> Vec<Ticket> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner).open.iter().copied().collect()
    }

    pub fn set_full(&mut self, full: bool) {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner).full = full;
    }

    pub fn fresh_id(&mut self, index: usize) -> Id {
        self.sitters[index].last += 1;
        Id::string(&format!("s{index}-{}", self.sitters[index].last))
    }

    // What the shell does.

    /// Somebody says something; everybody deals with what comes of it.
    pub fn send(&mut self, index: usize, toward: Side, message: Message) {
        self.arrive(index, toward, message);
        self.pump();
    }

    fn arrive(&mut self, index: usize, toward: Side, message: Message) {
        self.moves += 1;
        assert!(self.moves < MOST_MOVES, "this never comes to rest");
        tell(|| format!("  seat {index} says toward {toward:?}: {}", message.to_line()));
        let from = Seat(index as u16);
        if !self.exchange.minds(&message) {
            self.route(Event::Arrived { from, toward, message });
            return self.settle();
        }
        let hop = Hop { seat: from, toward, dialect: self.sitters[index].dialect };
        let mut steps = Vec::new();
        if let Some(message) = self.exchange.arrived(self.now, hop, message, &mut steps) {
            reads_the_same(&message);
            self.route(Event::Arrived { from, toward, message });
        }
        self.take(steps);
        self.settle();
    }

    /// Something is to be delivered to a seat.
    pub fn deliver(&mut self, to: Seat, toward: Side, message: Message) {
        if !self.exchange.minds(&message) {
            return self.receive(to, toward, message);
        }
        let hop = Hop { seat: to, toward, dialect: self.sitters[to.index()].dialect };
        let mut steps = Vec::new();
        if let Some(message) = self.exchange.deliver(self.now, hop, message, &mut steps) {
            self.receive(to, toward, message);
        }
        self.take(steps);
    }

    pub fn leave(&mut self, index: usize) {
        let seat = Seat(index as u16);
        self.exchange.left(seat);
        self.route(Event::Left { seat, why: Exit::new(How::Status(1)) });
        self.settle();
        self.pump();
    }

    pub fn wait(&mut self, milliseconds: u64) {
        self.now = self.now.plus(milliseconds);
        if self.exchange.deadline().is_some_and(|it| it <= self.now) {
            self.with_exchange(|exchange, now, steps| exchange.tick(now, steps));
            let next = self.exchange.deadline();
            assert!(next.is_none_or(|it| it > self.now), "what is due is done: {next:?}");
        }
        self.pump();
    }

    /// Lets the exchange do something, and does what it says.
    pub fn with_exchange(&mut self, act: impl FnOnce(&mut Exchange, Time, &mut Vec<Step>)) {
        let mut steps = Vec::new();
        act(&mut self.exchange, self.now, &mut steps);
        self.take(steps);
        self.settle();
        self.pump();
    }

    fn settle(&mut self) {
        while let Some(event) = self.routed.pop_front() {
            self.moves += 1;
            assert!(self.moves < MOST_MOVES, "this never comes to rest");
            self.route(event);
        }
    }

    fn route(&mut self, event: Event) {
        let Some(router) = &mut self.router else {
            if let Event::Arrived { message: Message::Request { id, .. }, .. } = event {
                self.asked.push(id);
            }
            return;
        };
        let mut actions = Vec::new();
        router.handle(self.now, event, &mut actions);
        for action in actions {
            match action {
                Action::Deliver { to, toward, message } => self.deliver(to, toward, message),
                Action::Finish(_) => self.finished = true,
                Action::Start(_) | Action::Returned { .. } | Action::Report(_) => {}
            }
        }
    }

    fn take(&mut self, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::Arrive { from, toward, message } => {
                    assert!(from.index() < self.sitters.len(), "{from:?} does not exist");
                    reads_the_same(&message);
                    self.routed.push_back(Event::Arrived { from, toward, message });
                }
                Step::Deliver { to, toward, message } => self.receive(to, toward, message),
                Step::Tell { caller, message } => {
                    tell(|| format!("  client {} is told: {}", caller.0, message.to_line()));
                    self.ledger.told(caller, &message);
                }
                Step::HangUp(caller) => {
                    tell(|| format!("  client {} is hung up on", caller.0));
                    self.ledger.gone(caller);
                }
                Step::Report(_) => {}
            }
        }
    }

    fn receive(&mut self, to: Seat, toward: Side, message: Message) {
        tell(|| format!("  seat {} hears: {}", to.0, message.to_line()));
        reads_the_same(&message);
        if let Message::Response { outcome: Outcome::Result(result), .. } = &message {
            self.connections.extend(connection_of(result));
            let session = result.member("sessionId");
            self.sessions.extend(session.and_then(|it| Some(it.text()?.into_owned())));
        }
        self.sitters[to.index()].inbox.push_back((toward, message));
    }

    // What the seats do by themselves.

    /// Proxies pass on what has nothing to do with MCP; everything else waits to be dealt with.
    fn pump(&mut self) {
        while let Some(index) = self.sitters.iter().position(|it| !it.inbox.is_empty()) {
            if let Some((toward, message)) = self.sitters[index].inbox.pop_front() {
                self.deal_with(index, toward, message);
            }
        }
    }

    fn deal_with(&mut self, index: usize, toward: Side, message: Message) {
        let sitter = &mut self.sitters[index];
        let routed = self.router.is_some();
        match message {
            Message::Response { id, outcome, extras } => {
                let own = id.text().map(|it| it.into_owned()).unwrap_or_default();
                if let Some(id) = sitter.passed.remove(&own) {
                    let message = Message::Response { id, outcome, extras };
                    self.arrive(index, toward, message);
                }
            }
            Message::Notification(call) if call.is(acp::CANCEL_REQUEST) => {
                let asked = call.params.as_ref().and_then(acp::cancelled_id);
                let found = sitter.passed.iter().find(|(_, it)| Some(*it) == asked.as_ref());
                let own = found.map(|(own, _)| Id::string(own));
                if let (Some(own), Some(params)) = (own, &call.params) {
                    let params = acp::cancel_params(params, &own);
                    let message = Message::notification(acp::CANCEL_REQUEST, params);
                    self.arrive(index, toward, message);
                }
            }
            message if sitter.proxy && routed && !is_mcp(&message) => {
                self.pass_on(index, toward, message);
            }
            message => sitter.waiting.push((toward, message)),
        }
    }

    /// A proxy passes something on, with its own servers if it sets a session up.
    pub fn pass_on(&mut self, index: usize, toward: Side, message: Message) {
        let message = match message {
            Message::Request { id, mut call } => {
                let own = self.fresh_id(index);
                let name = own.text().map(|it| it.into_owned()).unwrap_or_default();
                let sitter = &mut self.sitters[index];
                sitter.passed.insert(name, id);
                let sets_up = toward == Side::Agent && mcp::declaration::sets_up(&call);
                if let Some(params) = call.params.as_mut().filter(|_| sets_up) {
                    *params = with_servers(params, sitter.declares);
                }
                Message::Request { id: own, call }
            }
            message => message,
        };
        self.arrive(index, toward, message);
    }

    /// Somebody answers what waits, if it is a question; else a proxy passes it on, since it may be
    /// for another.
    pub fn answer(&mut self, index: usize, which: usize, outcome: Outcome) {
        let (toward, message) = self.sitters[index].waiting.remove(which);
        match message {
            Message::Request { id, .. } => {
                self.send(index, toward.opposite(), Message::response(id, outcome));
            }
            message if self.sitters[index].proxy => {
                self.pass_on(index, toward, message);
                self.pump();
            }
            _ => {}
        }
    }
}

fn is_mcp(message: &Message) -> bool {
    let (Message::Request { call, .. } | Message::Notification(call)) = message else {
        return false;
    };
    let method = call.method.name();
    ["mcp/", "_mcp/", "_scp/"].iter().any(|prefix| method.starts_with(prefix))
}

/// The params of a set-up request, with these servers after those that are there.
pub fn with_servers(params: &Json, declared: &str) -> Json {
    let Some(servers) = params.member("mcpServers").filter(Json::is_array) else {
        return params.clone();
    };
    let own = Json::trusted(format!("[{declared}]")).elements();
    let all: Vec<Json> = servers.elements().into_iter().chain(own).collect();
    params.with_member("mcpServers", &Json::array(&all))
}
