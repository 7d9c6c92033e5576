//! A chain on paper: the core, the seats, the clients and their places.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use acp_wire::{Generation, Id, Json, LinkProtocol, Message, Outcome, Side, acp};
use bytes::Bytes;
use engine::{Facts, Fallback, Input, Line, Link, Output, Rules, Setup};
use mcp::form::connection_id_of;
use mcp::{BridgePolicy, Broker, Context, Hop, Step, Ticket, Transport};
use router::{Chain, Component, Diagnostic, Exit, ExitCause, Mode, Role, Seat, Time};
use testkit::peer::{Peer, Read};
use testkit::shell::{self, Effect, Shell};

use super::desk::Desk;
use super::ledger::Ledger;
use crate::line::reads_the_same;
use crate::story::tell;

/// More than this moves in a story only if it moves in a circle.
const MOST_MOVES: usize = 50_000;

#[allow(missing_debug_implementations)] // a shell has nothing to show
pub struct World {
    pub core: Core,
    pub chain: Chain,
    pub now: Time,
    pub sitters: Vec<Sitter>,
    pub ledger: Ledger,
    /// What the broker alone has asked, of nobody.
    pub asked: Vec<Id>,
    /// Connections and sessions that there have been.
    pub connections: Vec<String>,
    pub sessions: BTreeSet<String>,
    /// The chain is over.
    pub finished: bool,
    /// What the agent answers to `initialize`.
    abilities: Json,
    desk: Desk,
    moves: usize,
}

/// What is looked at.
#[allow(missing_debug_implementations)] // a shell has nothing to show
pub enum Core {
    /// All of it, as the shell runs it.
    Whole(Box<Shell>),
    /// The broker, to which anything may happen.
    Broker(Box<Broker>),
}

#[derive(Debug)]
pub struct Sitter {
    generation: Option<Generation>,
    peer: Peer,
    pub proxy: bool,
    /// What it adds to the servers of a session.
    pub declares: &'static str,
    pub is_there: bool,
    /// What it was told or asked and has not dealt with.
    pub waiting: Vec<(Side, Message)>,
    inbox: VecDeque<(Side, Message)>,
    /// What it has passed on: its own id, and under which it was asked.
    passed: BTreeMap<String, Id>,
    last: u64,
}

impl Sitter {
    /// Nobody sits there any more, or somebody who knows of nothing.
    fn vacate(&mut self, is_there: bool) {
        self.is_there = is_there;
        self.peer = self.generation.map_or_else(Peer::agent, Peer::proxy);
        self.waiting.clear();
        self.inbox.clear();
        self.passed.clear();
    }
}

impl World {
    /// Proxies with these dialects and servers, before an agent or (in proxy mode) alone. Without
    /// rules, only the broker is looked at.
    pub fn new(
        mode: Mode,
        proxies: &[(Generation, &'static str)],
        bridge: BridgePolicy,
        survival: Option<engine::ComponentPolicy>,
        abilities: &'static str,
    ) -> World {
        let count = proxies.len() + usize::from(mode == Mode::Agent);
        let chain = Chain {
            mode,
            components: (1..=count).map(|n| Component::new(format!("c{n}"), "x")).collect(),
            initialize_timeout: 60_000,
            grace: 1_000,
            any_version: false,
        };
        let sitter = |seat: u16| {
            let known = usize::from(seat).checked_sub(1).and_then(|index| proxies.get(index));
            let generation = known.map(|(generation, _)| *generation);
            let peer = match (generation, mode) {
                (Some(generation), _) => Peer::proxy(generation),
                (None, Mode::Agent) if seat == 0 => Peer::editor(),
                (None, Mode::Proxy) => Peer::conductor(),
                (None, Mode::Agent) => Peer::agent(),
            };
            Sitter {
                generation,
                peer,
                proxy: seat > 0 && chain.role(Seat(seat)) == Role::Proxy,
                declares: known.map_or("", |(_, declares)| declares),
                is_there: true,
                waiting: Vec::new(),
                inbox: VecDeque::new(),
                passed: BTreeMap::new(),
                last: 0,
            }
        };
        let sitters: Vec<Sitter> = (0..=count as u16).map(sitter).collect();
        let core = match survival {
            None => Core::Broker(Box::new(Broker::new(chain.clone(), bridge, "word"))),
            Some(policy) => {
                let mut policies = vec![policy; count];
                if mode == Mode::Agent {
                    // Nobody can be left out whom nobody follows.
                    policies[count - 1].fallback = Fallback::Stop;
                }
                let facts = sitters[1..].iter();
                let facts = facts.map(|it| Facts { generation: it.generation, ..Facts::default() });
                let setup = shell::setup(chain.clone());
                let rules = Rules { policies, seed: 1, ..setup.rules };
                let setup = Setup { facts: facts.collect(), rules, bridge: Some(bridge), ..setup };
                Core::Whole(Box::new(Shell::new(setup)))
            }
        };
        let mut world = World {
            core,
            chain,
            now: Time(0),
            sitters,
            ledger: Ledger::default(),
            asked: Vec::new(),
            connections: Vec::new(),
            sessions: BTreeSet::new(),
            finished: false,
            abilities: Json::trusted(abilities),
            desk: Desk::default(),
            moves: 0,
        };
        world.begin();
        world
    }

    /// The editor greets, and everybody answers.
    fn begin(&mut self) {
        if self.is_whole() {
            let version = self.abilities.member("protocolVersion");
            let params = Json::object([("protocolVersion", version)]);
            let hello = Message::request(Id::string("hello"), acp::INITIALIZE, params);
            self.send(0, Side::Agent, hello);
        }
    }

    pub fn is_whole(&self) -> bool {
        matches!(self.core, Core::Whole(_))
    }

    pub fn broker(&self) -> &Broker {
        match &self.core {
            Core::Whole(shell) => shell.core().stages().broker().expect("there is one"),
            Core::Broker(broker) => broker,
        }
    }

    /// The chain comes to its end.
    pub fn is_ending(&self) -> bool {
        match &self.core {
            Core::Whole(shell) => self.finished || shell.core().router().is_ending(),
            Core::Broker(_) => false,
        }
    }

    /// When something is due.
    pub fn deadline(&self) -> Option<Time> {
        match &self.core {
            Core::Whole(shell) => shell.core().deadline(),
            Core::Broker(broker) => broker.deadline(),
        }
    }

    /// The seat beyond the last proxy: the agent, or what is behind the conductor above us.
    pub fn far(&self) -> usize {
        match self.chain.mode {
            Mode::Agent => self.sitters.len() - 1,
            Mode::Proxy => 0,
        }
    }

    pub fn tickets(&self) -> Vec<(Ticket, Transport)> {
        self.desk.open()
    }

    pub fn set_full(&mut self, full: bool) {
        self.desk.full = full;
    }

    /// How many places the shell was asked for and has not opened.
    pub fn asked_of_shell(&self) -> usize {
        self.desk.asked()
    }

    /// The shell answers when the story says so, or at once.
    pub fn slow_shell(&mut self, slow: bool) {
        self.desk.slow = slow;
        self.answer_at_once();
        self.pump();
    }

    /// The shell answers one of the questions.
    pub fn shell_answers(&mut self, which: usize) {
        let (ticket, endpoint) = self.desk.answer(which);
        tell(|| format!("  the shell answers for {ticket:?}: {endpoint:?}"));
        self.happen(Input::EndpointOpened { ticket, endpoint });
    }

    fn answer_at_once(&mut self) {
        while !self.desk.slow && !self.finished && self.desk.asked() > 0 {
            let (ticket, endpoint) = self.desk.answer(0);
            self.handle(Input::EndpointOpened { ticket, endpoint });
        }
    }

    pub fn fresh_id(&mut self, index: usize) -> Id {
        self.sitters[index].last += 1;
        Id::string(&format!("s{index}-{}", self.sitters[index].last))
    }

    // What the shell does.

    /// Something happens; everybody deals with what comes of it.
    pub fn happen(&mut self, input: Input) {
        self.handle(input);
        self.pump();
    }

    /// Somebody says something.
    pub fn send(&mut self, index: usize, toward: Side, message: Message) {
        self.arrive(index, toward, message);
        self.pump();
    }

    fn arrive(&mut self, index: usize, toward: Side, message: Message) {
        if !self.sitters[index].is_there {
            return;
        }
        tell(|| format!("  seat {index} says toward {toward:?}: {}", message.to_line()));
        let seat = Seat(index as u16);
        if !self.is_whole() {
            self.with_broker(|it, world, cx| {
                let hop = Hop { seat, toward, dialect: world.dialect(seat) };
                if let Some(message) = it.arrived(hop, message, cx) {
                    reads_the_same(&message);
                }
            });
            return self.answer_at_once();
        }
        for (port, line) in self.sitters[index].peer.write(toward, &message) {
            self.handle(Input::Line { link: Link { seat, port }, line: Line::Text(line) });
        }
    }

    pub fn leave(&mut self, index: usize) {
        if !self.sitters[index].is_there {
            return;
        }
        let seat = Seat(index as u16);
        self.sitters[index].vacate(false);
        let how = if index == 0 { ExitCause::ClosedInput } else { ExitCause::Status(1) };
        self.with_shell(|shell, now| shell.exit(now, seat, Exit::new(how)));
        self.with_broker(|it, _, cx| it.component_removed(seat, cx));
        self.answer_at_once();
        self.pump();
    }

    pub fn wait(&mut self, milliseconds: u64) {
        self.now = self.now.plus(milliseconds);
        self.with_shell(Shell::tick);
        for _ in 0..10 {
            let due = match &self.core {
                Core::Broker(broker) => broker.deadline(),
                Core::Whole(_) => None,
            };
            if due.is_none_or(|it| it > self.now) {
                self.answer_at_once();
                return self.pump();
            }
            self.with_broker(|it, _, cx| it.tick(cx));
        }
        panic!("what is due is never done");
    }

    fn handle(&mut self, input: Input) {
        if self.is_whole() {
            self.with_shell(|shell, now| shell.handle(now, input));
        } else {
            self.with_broker(|it, _, cx| match input {
                Input::ClientConnected { ticket, client_id } => {
                    it.client_connected(ticket, client_id, cx)
                }
                Input::ClientMessage { client_id, line } => it.client_message(client_id, &line, cx),
                Input::ClientDisconnected(client_id) => it.client_disconnected(client_id, cx),
                Input::EndpointOpened { ticket, endpoint } => {
                    it.endpoint_opened(ticket, endpoint, cx)
                }
                input => panic!("a broker is not told {input:?}"),
            });
        }
        self.answer_at_once();
    }

    /// Lets the whole core do something, and does what it says.
    fn with_shell(&mut self, act: impl FnOnce(&mut Shell, Time) -> Vec<Effect>) {
        self.moves += 1;
        assert!(self.moves < MOST_MOVES, "this never comes to rest");
        let Core::Whole(shell) = &mut self.core else { return };
        for effect in act(shell, self.now) {
            match effect {
                Effect::Line { to, line } => self.read(to, &line),
                Effect::Output(output) => self.perform(output),
            }
        }
    }

    /// A peer reads a line.
    fn read(&mut self, link: Link, line: &Bytes) {
        let index = link.seat.index();
        if !self.sitters[index].is_there {
            return;
        }
        let reply = match self.sitters[index].peer.read(link.port, line) {
            Ok(Read::Message(toward, message)) => {
                return self.receive(link.seat, toward, message);
            }
            Ok(Read::Join(toward, message)) => {
                self.with_shell(|shell, now| shell.join_relay(now, link.seat));
                return self.receive(link.seat, toward, message);
            }
            Ok(Read::Reply(line)) => Some(line),
            Ok(Read::Nothing) => None,
            // Rude seats say what makes others refuse a message.
            Err(rejection) => rejection.reply.map(|reply| reply.to_line().into()),
        };
        if let Some(line) = reply {
            self.handle(Input::Line { link, line: Line::Text(line) });
        }
    }

    fn dialect(&self, seat: Seat) -> LinkProtocol {
        self.sitters[seat.index()].generation.into()
    }

    fn perform(&mut self, output: Output) {
        match output {
            Output::Start { seat, .. } | Output::Discard(seat) => {
                let is_there = matches!(output, Output::Start { .. });
                tell(|| format!("  seat {} is there: {is_there}", seat.0));
                self.sitters[seat.index()].vacate(is_there);
            }
            Output::OpenRelay { seat, life } => {
                let servers = Json::trusted(r#"{"servers":[{"name":"next","command":"/x"}]}"#);
                self.handle(Input::RelayOpened { seat, life, servers: Ok(servers) });
            }
            Output::SendToClient { client_id, message } => {
                tell(|| format!("  client {} is told: {}", client_id.0, message.to_line()));
                self.ledger.told(client_id, &message);
            }
            Output::DisconnectClient(client_id) => {
                tell(|| format!("  client {} is hung up on", client_id.0));
                self.ledger.gone(client_id);
            }
            Output::OpenEndpoint { ticket, transport } => self.desk.ask(ticket, transport),
            Output::RevokeTicket(ticket) => self.desk.revoke(ticket),
            Output::Report(Diagnostic { text, .. }) => tell(|| format!("  {text}")),
            Output::Finish(_) => self.finished = true,
            // Here, all that is written is read at once, and nothing is remembered.
            Output::Read { .. } | Output::ReadClients(_) | Output::RememberPoison { .. } => {}
            output => panic!("nobody has a reason for {output:?}"),
        }
    }

    /// Lets a broker that is alone do something, and does what it says.
    pub fn with_broker(&mut self, act: impl FnOnce(&mut Broker, &World, &mut Context<'_>)) {
        let Core::Broker(broker) = &mut self.core else { return };
        // It is looked at from outside meanwhile.
        let chain = self.chain.clone();
        let nobody = Box::new(Broker::new(chain, BridgePolicy::Auto, "word"));
        let mut broker = std::mem::replace(broker, nobody);
        let mut steps = Vec::new();
        act(&mut broker, self, &mut Context { now: self.now, out: &mut steps });
        self.core = Core::Broker(broker);
        for step in steps {
            match step {
                Step::Inject { from, message, .. } => {
                    assert!(from.index() < self.sitters.len(), "{from:?} does not exist");
                    reads_the_same(&message);
                    if let Message::Request { id, .. } = message {
                        self.asked.push(id);
                    }
                }
                Step::Deliver { to, toward, message } => self.receive(to, toward, message),
                Step::SendToClient { client_id, message } => {
                    self.perform(Output::SendToClient { client_id, message })
                }
                Step::DisconnectClient(client_id) => {
                    self.perform(Output::DisconnectClient(client_id))
                }
                Step::OpenEndpoint { ticket, transport } => {
                    self.perform(Output::OpenEndpoint { ticket, transport })
                }
                Step::RevokeTicket(ticket) => self.perform(Output::RevokeTicket(ticket)),
                Step::Report(notice) => self.perform(Output::Report(notice)),
            }
        }
    }

    /// Something is to be delivered to a seat, if there is nobody but the broker.
    pub fn deliver(&mut self, index: usize, toward: Side, message: Message) {
        let mut delivered = None;
        self.with_broker(|it, world, cx| {
            let seat = Seat(index as u16);
            let hop = Hop { seat, toward, dialect: world.dialect(seat) };
            delivered = it.deliver(hop, message, cx);
        });
        if let Some(message) = delivered {
            self.receive(Seat(index as u16), toward, message);
        }
        self.answer_at_once();
        self.pump();
    }

    fn receive(&mut self, to: Seat, toward: Side, message: Message) {
        tell(|| format!("  seat {} hears: {}", to.0, message.to_line()));
        reads_the_same(&message);
        if let Message::Response { outcome: Outcome::Result(result), .. } = &message {
            self.connections.extend(connection_id_of(result));
            let session = result.member("sessionId");
            self.sessions.extend(session.and_then(|it| Some(it.text()?.into_owned())));
        }
        let sitter = &mut self.sitters[to.index()];
        if sitter.is_there {
            sitter.inbox.push_back((toward, message));
        }
    }

    // What the seats do by themselves.

    /// Proxies pass on what has nothing to do with MCP; everything else waits to be dealt with.
    pub fn pump(&mut self) {
        while let Some(index) = self.sitters.iter().position(|it| !it.inbox.is_empty()) {
            if let Some((toward, message)) = self.sitters[index].inbox.pop_front() {
                self.deal_with(index, toward, message);
            }
        }
    }

    fn deal_with(&mut self, index: usize, toward: Side, message: Message) {
        let (whole, far) = (self.is_whole(), self.far());
        let sitter = &mut self.sitters[index];
        match message {
            Message::Request { id, call }
                if whole && index == far && toward == Side::Agent && call.is(acp::INITIALIZE) =>
            {
                let outcome = Outcome::Result(self.abilities.clone());
                self.arrive(index, Side::Editor, Message::response(id, outcome));
            }
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
            message if sitter.proxy && whole && !is_mcp(&message) => {
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
                let sets_up = toward == Side::Agent && mcp::may_carry_servers(&call);
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
