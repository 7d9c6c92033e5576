//! A simulated chain: the core, its peers, and the MCP clients with their endpoints.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use acp_wire::{Generation, Id, Json, LinkProtocol, Message, Outcome, Side, acp};
use bytes::Bytes;
use engine::{Facts, Fallback, Input, Line, LinkId, Output, Rules, Setup};
use mcp::form::connection_id_of;
use mcp::{Action, BridgePolicy, Broker, Context, Hop, Ticket, Transport};
use router::{Chain, Component, Diagnostic, Exit, ExitCause, Mode, Role, Seat, Time};
use testkit::peer::{Peer, Read};
use testkit::shell::{self, Effect, Shell};

use super::client_log::ClientLog;
use super::endpoints::TestEndpoints;
use crate::line::assert_round_trips;
use crate::scenario::trace;

/// A scenario that needs more steps than this does not terminate.
const MAX_MOVES: usize = 50_000;

/// The simulated chain.
#[allow(missing_debug_implementations)] // a shell has none
pub struct Simulation {
    pub system: System,
    pub chain: Chain,
    pub now: Time,
    pub peers: Vec<SimulatedPeer>,
    pub clients: ClientLog,
    /// Without a core: the requests that the broker has sent.
    pub asked: Vec<Id>,
    /// All connections and sessions so far.
    pub connections: Vec<String>,
    pub sessions: BTreeSet<String>,
    /// Whether the chain has finished.
    pub finished: bool,
    /// The agent's answer to `initialize`.
    initialize_result: Json,
    endpoints: TestEndpoints,
    moves: usize,
}

/// The system under test.
#[allow(missing_debug_implementations)] // a shell has none
pub enum System {
    /// The whole core, run as the shell runs it.
    Core(Box<Shell>),
    /// Only the broker. Its inputs may come in any order.
    Broker(Box<Broker>),
}

#[derive(Debug)]
pub struct SimulatedPeer {
    generation: Option<Generation>,
    peer: Peer,
    pub proxy: bool,
    /// The MCP servers that it adds to a session.
    pub declares: &'static str,
    pub is_running: bool,
    /// Messages that it has received and not processed.
    pub waiting: Vec<(Side, Message)>,
    inbox: VecDeque<(Side, Message)>,
    /// Requests that it has passed on: its own id, and the id of the received request.
    passed: BTreeMap<String, Id>,
    last: u64,
}

impl SimulatedPeer {
    /// The component has exited, or a new one has started.
    fn reset(&mut self, is_running: bool) {
        self.is_running = is_running;
        self.peer = self.generation.map_or_else(Peer::agent, Peer::proxy);
        self.waiting.clear();
        self.inbox.clear();
        self.passed.clear();
    }
}

impl Simulation {
    /// A chain of proxies of these generations, with the MCP servers that they declare, and of an agent unless the mode
    /// is proxy. Without a policy, only the broker is tested.
    pub fn new(
        mode: Mode,
        proxies: &[(Generation, &'static str)],
        bridge: BridgePolicy,
        policy: Option<engine::ComponentPolicy>,
        initialize_result: &'static str,
    ) -> Simulation {
        let count = proxies.len() + usize::from(mode == Mode::Agent);
        let chain = Chain {
            mode,
            components: (1..=count).map(|n| Component::new(format!("c{n}"), "x")).collect(),
            order: Chain::first_order(count),
            initialize_timeout: 60_000,
            grace: 1_000,
            any_version: false,
        };
        let peer = |seat: u16| {
            let known = usize::from(seat).checked_sub(1).and_then(|index| proxies.get(index));
            let generation = known.map(|(generation, _)| *generation);
            let peer = match (generation, mode) {
                (Some(generation), _) => Peer::proxy(generation),
                (None, Mode::Agent) if seat == 0 => Peer::editor(),
                (None, Mode::Proxy) => Peer::conductor(),
                (None, Mode::Agent) => Peer::agent(),
            };
            SimulatedPeer {
                generation,
                peer,
                proxy: seat > 0 && chain.role(Seat(seat)) == Role::Proxy,
                declares: known.map_or("", |(_, declares)| declares),
                is_running: true,
                waiting: Vec::new(),
                inbox: VecDeque::new(),
                passed: BTreeMap::new(),
                last: 0,
            }
        };
        let peers: Vec<SimulatedPeer> = (0..=count as u16).map(peer).collect();
        let system = match policy {
            None => System::Broker(Box::new(Broker::new(chain.clone(), bridge, "word"))),
            Some(policy) => {
                let mut policies = vec![policy; count];
                if mode == Mode::Agent {
                    // The agent cannot be bypassed.
                    policies[count - 1].fallback = Fallback::Stop;
                }
                let facts = peers[1..].iter();
                let facts = facts.map(|it| Facts { generation: it.generation, ..Facts::default() });
                let setup = shell::setup(chain.clone());
                let rules = Rules { policies, seed: 1, ..setup.rules };
                let setup = Setup { facts: facts.collect(), rules, bridge: Some(bridge), ..setup };
                System::Core(Box::new(Shell::new(setup)))
            }
        };
        let mut simulation = Simulation {
            system,
            chain,
            now: Time(0),
            peers,
            clients: ClientLog::default(),
            asked: Vec::new(),
            connections: Vec::new(),
            sessions: BTreeSet::new(),
            finished: false,
            initialize_result: Json::trusted(initialize_result),
            endpoints: TestEndpoints::default(),
            moves: 0,
        };
        simulation.begin();
        simulation
    }

    /// The editor sends `initialize`, and every component answers.
    fn begin(&mut self) {
        if self.has_core() {
            let version = self.initialize_result.member("protocolVersion");
            let params = Json::object([("protocolVersion", version)]);
            let hello = Message::request(Id::string("hello"), acp::INITIALIZE, params);
            self.send(0, Side::Agent, hello);
        }
    }

    pub fn has_core(&self) -> bool {
        matches!(self.system, System::Core(_))
    }

    pub fn broker(&self) -> &Broker {
        match &self.system {
            System::Core(shell) => shell.core().stages().broker().expect("there is one"),
            System::Broker(broker) => broker,
        }
    }

    /// Whether the chain is stopping.
    pub fn is_ending(&self) -> bool {
        match &self.system {
            System::Core(shell) => self.finished || shell.core().router().is_ending(),
            System::Broker(_) => false,
        }
    }

    /// The next deadline.
    pub fn deadline(&self) -> Option<Time> {
        match &self.system {
            System::Core(shell) => shell.core().deadline(),
            System::Broker(broker) => broker.deadline(),
        }
    }

    /// The peer after the last proxy: the agent, or in proxy mode the conductor above.
    pub fn last_peer(&self) -> usize {
        match self.chain.mode {
            Mode::Agent => self.peers.len() - 1,
            Mode::Proxy => 0,
        }
    }

    pub fn tickets(&self) -> Vec<(Ticket, Transport)> {
        self.endpoints.open()
    }

    pub fn set_full(&mut self, full: bool) {
        self.endpoints.full = full;
    }

    /// The number of requested endpoints that the shell has not opened yet.
    pub fn open_endpoint_requests(&self) -> usize {
        self.endpoints.requested()
    }

    /// Whether the shell opens endpoints when the scenario says so, instead of at once.
    pub fn set_slow_shell(&mut self, slow: bool) {
        self.endpoints.slow = slow;
        self.answer_endpoint_requests();
        self.process_inboxes();
    }

    /// The shell opens one of the requested endpoints, or fails to.
    pub fn answer_endpoint_request(&mut self, which: usize) {
        let (ticket, endpoint) = self.endpoints.answer(which);
        trace(|| format!("  the shell answers for {ticket:?}: {endpoint:?}"));
        self.handle_input(Input::EndpointOpened { ticket, endpoint });
    }

    fn answer_endpoint_requests(&mut self) {
        while !self.endpoints.slow && !self.finished && self.endpoints.requested() > 0 {
            let (ticket, endpoint) = self.endpoints.answer(0);
            self.handle(Input::EndpointOpened { ticket, endpoint });
        }
    }

    pub fn fresh_id(&mut self, index: usize) -> Id {
        self.peers[index].last += 1;
        Id::string(&format!("s{index}-{}", self.peers[index].last))
    }

    // // The shell.

    /// Handles an input. The peers process its effects.
    pub fn handle_input(&mut self, input: Input) {
        self.handle(input);
        self.process_inboxes();
    }

    /// A peer sends a message.
    pub fn send(&mut self, index: usize, toward: Side, message: Message) {
        self.arrive(index, toward, message);
        self.process_inboxes();
    }

    fn arrive(&mut self, index: usize, toward: Side, message: Message) {
        if !self.peers[index].is_running {
            return;
        }
        trace(|| format!("  seat {index} sends toward {toward:?}: {}", message.to_line()));
        let seat = Seat(index as u16);
        if !self.has_core() {
            self.with_broker(|it, simulation, cx| {
                let hop = Hop { seat, toward, protocol: simulation.dialect(seat) };
                if let Some(message) = it.arrived(hop, message, cx) {
                    assert_round_trips(&message);
                }
            });
            return self.answer_endpoint_requests();
        }
        for (port, line) in self.peers[index].peer.write(toward, &message) {
            self.handle(Input::Line { link: LinkId { seat, port }, line: Line::Text(line) });
        }
    }

    pub fn exit(&mut self, index: usize) {
        if !self.peers[index].is_running {
            return;
        }
        let seat = Seat(index as u16);
        self.peers[index].reset(false);
        let how = if index == 0 { ExitCause::ClosedInput } else { ExitCause::Status(1) };
        self.with_shell(|shell, now| shell.exit(now, seat, Exit::new(how)));
        self.with_broker(|it, _, cx| it.component_removed(seat, cx));
        self.answer_endpoint_requests();
        self.process_inboxes();
    }

    pub fn wait(&mut self, milliseconds: u64) {
        self.now = self.now.plus(milliseconds);
        self.with_shell(Shell::tick);
        for _ in 0..10 {
            let due = match &self.system {
                System::Broker(broker) => broker.deadline(),
                System::Core(_) => None,
            };
            if due.is_none_or(|it| it > self.now) {
                self.answer_endpoint_requests();
                return self.process_inboxes();
            }
            self.with_broker(|it, _, cx| it.tick(cx));
        }
        panic!("a deadline stays due");
    }

    fn handle(&mut self, input: Input) {
        if self.has_core() {
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
                input => panic!("an input that is not for a broker: {input:?}"),
            });
        }
        self.answer_endpoint_requests();
    }

    /// Runs the core, and performs its effects.
    fn with_shell(&mut self, act: impl FnOnce(&mut Shell, Time) -> Vec<Effect>) {
        self.moves += 1;
        assert!(self.moves < MAX_MOVES, "the scenario does not terminate");
        let System::Core(shell) = &mut self.system else { return };
        for effect in act(shell, self.now) {
            match effect {
                Effect::Line { to, line } => self.read(to, &line),
                Effect::Output(output) => self.perform(output),
            }
        }
    }

    /// A peer reads a line.
    fn read(&mut self, link: LinkId, line: &Bytes) {
        let index = link.seat.index();
        if !self.peers[index].is_running {
            return;
        }
        let reply = match self.peers[index].peer.read(link.port, line) {
            Ok(Read::Message(toward, message)) => {
                return self.receive(link.seat, toward, message);
            }
            Ok(Read::Join(toward, message)) => {
                self.with_shell(|shell, now| shell.join_relay(now, link.seat));
                return self.receive(link.seat, toward, message);
            }
            Ok(Read::Reply(line)) => Some(line),
            Ok(Read::Nothing) => None,
            // A peer that breaks the rules can make another peer reject a message.
            Err(rejection) => rejection.reply.map(|reply| reply.to_line().into()),
        };
        if let Some(line) = reply {
            self.handle(Input::Line { link, line: Line::Text(line) });
        }
    }

    fn dialect(&self, seat: Seat) -> LinkProtocol {
        self.peers[seat.index()].generation.into()
    }

    fn perform(&mut self, output: Output) {
        match output {
            Output::Start { seat, .. } | Output::Discard(seat) => {
                let is_running = matches!(output, Output::Start { .. });
                trace(|| format!("  seat {} is there: {is_running}", seat.0));
                self.peers[seat.index()].reset(is_running);
            }
            Output::OpenRelay { seat, incarnation } => {
                let servers = Json::trusted(r#"{"servers":[{"name":"next","command":"/x"}]}"#);
                self.handle(Input::RelayOpened { seat, incarnation, servers: Ok(servers) });
            }
            Output::SendToClient { client_id, message } => {
                trace(|| format!("  client {} receives: {}", client_id.0, message.to_line()));
                self.clients.record_received(client_id, &message);
            }
            Output::DisconnectClient(client_id) => {
                trace(|| format!("  client {} is disconnected", client_id.0));
                self.clients.disconnect(client_id);
            }
            Output::OpenEndpoint { ticket, transport } => self.endpoints.request(ticket, transport),
            Output::RevokeTicket(ticket) => self.endpoints.revoke(ticket),
            Output::Report(Diagnostic { text, .. }) => trace(|| format!("  {text}")),
            Output::Finish(_) => self.finished = true,
            // In this simulation, every line is read at once, and nothing is stored.
            Output::Read { .. } | Output::ReadClients(_) | Output::RememberPoison { .. } => {}
            output => panic!("an unexpected output: {output:?}"),
        }
    }

    /// Without a core: runs the broker, and performs its actions.
    pub fn with_broker(&mut self, act: impl FnOnce(&mut Broker, &Simulation, &mut Context<'_>)) {
        let System::Broker(broker) = &mut self.system else { return };
        // `act` also reads the simulation, so the broker is taken out of it.
        let chain = self.chain.clone();
        let placeholder = Box::new(Broker::new(chain, BridgePolicy::Auto, "word"));
        let mut broker = std::mem::replace(broker, placeholder);
        let mut actions = Vec::new();
        act(&mut broker, self, &mut Context { now: self.now, out: &mut actions });
        self.system = System::Broker(broker);
        for action in actions {
            match action {
                Action::Inject { from, message, .. } => {
                    assert!(from.index() < self.peers.len(), "{from:?} does not exist");
                    assert_round_trips(&message);
                    if let Message::Request { id, .. } = message {
                        self.asked.push(id);
                    }
                }
                Action::Deliver { to, toward, message } => self.receive(to, toward, message),
                Action::SendToClient { client_id, message } => {
                    self.perform(Output::SendToClient { client_id, message })
                }
                Action::DisconnectClient(client_id) => {
                    self.perform(Output::DisconnectClient(client_id))
                }
                Action::OpenEndpoint { ticket, transport } => {
                    self.perform(Output::OpenEndpoint { ticket, transport })
                }
                Action::RevokeTicket(ticket) => self.perform(Output::RevokeTicket(ticket)),
                Action::Report(notice) => self.perform(Output::Report(notice)),
            }
        }
    }

    /// Without a core: delivers a message to a peer.
    pub fn deliver(&mut self, index: usize, toward: Side, message: Message) {
        let mut delivered = None;
        self.with_broker(|it, simulation, cx| {
            let seat = Seat(index as u16);
            let hop = Hop { seat, toward, protocol: simulation.dialect(seat) };
            delivered = it.deliver(hop, message, cx);
        });
        if let Some(message) = delivered {
            self.receive(Seat(index as u16), toward, message);
        }
        self.answer_endpoint_requests();
        self.process_inboxes();
    }

    fn receive(&mut self, to: Seat, toward: Side, message: Message) {
        trace(|| format!("  seat {} receives: {}", to.0, message.to_line()));
        assert_round_trips(&message);
        if let Message::Response { outcome: Outcome::Result(result), .. } = &message {
            self.connections.extend(connection_id_of(result));
            let session = result.member("sessionId");
            self.sessions.extend(session.and_then(|it| Some(it.text()?.into_owned())));
        }
        let peer = &mut self.peers[to.index()];
        if peer.is_running {
            peer.inbox.push_back((toward, message));
        }
    }

    // // The peers.

    /// Lets the peers process their inboxes. Proxies pass on messages that are not about MCP. All other messages wait
    /// until the scenario processes them.
    pub fn process_inboxes(&mut self) {
        while let Some(index) = self.peers.iter().position(|it| !it.inbox.is_empty()) {
            if let Some((toward, message)) = self.peers[index].inbox.pop_front() {
                self.process(index, toward, message);
            }
        }
    }

    fn process(&mut self, index: usize, toward: Side, message: Message) {
        let (whole, far) = (self.has_core(), self.last_peer());
        let peer = &mut self.peers[index];
        match message {
            Message::Request { id, call }
                if whole && index == far && toward == Side::Agent && call.is(acp::INITIALIZE) =>
            {
                let outcome = Outcome::Result(self.initialize_result.clone());
                self.arrive(index, Side::Editor, Message::response(id, outcome));
            }
            Message::Response { id, outcome, extras } => {
                let own = id.text().map(|it| it.into_owned()).unwrap_or_default();
                if let Some(id) = peer.passed.remove(&own) {
                    let message = Message::Response { id, outcome, extras };
                    self.arrive(index, toward, message);
                }
            }
            Message::Notification(call) if call.is(acp::CANCEL_REQUEST) => {
                let asked = call.params.as_ref().and_then(acp::cancelled_id);
                let found = peer.passed.iter().find(|(_, it)| Some(*it) == asked.as_ref());
                let own = found.map(|(own, _)| Id::string(own));
                if let (Some(own), Some(params)) = (own, &call.params) {
                    let params = acp::with_cancelled_id(params, &own);
                    let message = Message::notification(acp::CANCEL_REQUEST, params);
                    self.arrive(index, toward, message);
                }
            }
            message if peer.proxy && whole && !is_mcp(&message) => {
                self.pass_on(index, toward, message);
            }
            message => peer.waiting.push((toward, message)),
        }
    }

    /// A proxy passes a message on. To a request that sets up a session it adds its servers.
    pub fn pass_on(&mut self, index: usize, toward: Side, message: Message) {
        let message = match message {
            Message::Request { id, mut call } => {
                let own = self.fresh_id(index);
                let name = own.text().map(|it| it.into_owned()).unwrap_or_default();
                let peer = &mut self.peers[index];
                peer.passed.insert(name, id);
                let sets_up = toward == Side::Agent && mcp::may_carry_servers(&call);
                if let Some(params) = call.params.as_mut().filter(|_| sets_up) {
                    *params = with_servers(params, peer.declares);
                }
                Message::Request { id: own, call }
            }
            message => message,
        };
        self.arrive(index, toward, message);
    }

    /// A peer answers a waiting request. Any other waiting message is passed on by a proxy.
    pub fn answer(&mut self, index: usize, which: usize, outcome: Outcome) {
        let (toward, message) = self.peers[index].waiting.remove(which);
        match message {
            Message::Request { id, .. } => {
                self.send(index, toward.opposite(), Message::response(id, outcome));
            }
            message if self.peers[index].proxy => {
                self.pass_on(index, toward, message);
                self.process_inboxes();
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

/// The params of a set-up request, with these servers after the declared ones.
pub fn with_servers(params: &Json, declared: &str) -> Json {
    let Some(servers) = params.member("mcpServers").filter(Json::is_array) else {
        return params.clone();
    };
    let own = Json::trusted(format!("[{declared}]")).elements();
    let all: Vec<Json> = servers.elements().into_iter().chain(own).collect();
    params.with_member("mcpServers", &Json::array(&all))
}
