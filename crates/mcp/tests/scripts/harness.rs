//! A chain without processes. The harness drives the core in place of the shell (`testkit::shell`),
//! and the test plays all peers.
//!
//! The participants are described by a line such as `p1:P5 (p2:P4+once) agent`: the components,
//! their generations, and their restart policies (`testkit::topology`). The default policy is
//! restart. A component in brackets passes every message on without help of the test. The editor is
//! always there.
//!
//! Messages are written as in the scripts of the router. `method id params` is a request, `method
//! params` is a notification, `result id json` and `error id json` are answers. On the link of a
//! proxy, `~method` is a message in an envelope: it goes to the agent's side, or comes from there.
//! In an expected message, `?` stands for any id and `…` for any text.

mod component;
mod endpoints;
mod lifecycle;
mod notation;

use component::TestComponent;
use notation::matches_pattern;
pub use notation::{id, json, parse, text, token};

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use acp_wire::dialect::Generation;
use acp_wire::{Call, Id, Json, Message, Outcome, Side, acp};
use engine::{Facts, Input, Line, LinkId, Output, Port, Rules, Setup};
use mcp::{BridgePolicy, Broker, ClientId, Ticket, Transport};
use router::{Chain, Component, Mode, Seat};
use testkit::peer::{Peer, Read};
use testkit::shell::{self, Effect, Shell};
use testkit::topology::parse_component;

/// Answers of an agent to `initialize`, by its capabilities.
pub const STDIO: &str = r#"{"protocolVersion":1,"agentCapabilities":{}}"#;
pub const HTTP: &str =
    r#"{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"http":true}}}"#;
pub const NATIVE: &str =
    r#"{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"acp":true}}}"#;
pub const OLDER: &str =
    r#"{"protocolVersion":1,"agentCapabilities":{},"_meta":{"mcp_acp_transport":true}}"#;
pub const SCP: &str =
    r#"{"protocolVersion":1,"agentCapabilities":{},"_meta":{"symposium":{"version":"1.0"}}}"#;

/// Drives the core of a chain and records what each peer receives.
pub struct Harness {
    shell: Shell,
    now: router::Time,
    components: Vec<TestComponent>,
    client_messages: BTreeMap<ClientId, VecDeque<Message>>,
    pub disconnected: BTreeSet<ClientId>,
    pub reports: Vec<String>,
    pub endpoints: endpoints::ShellEndpoints,
    client_ids: u64,
    journal: Vec<String>,
    /// The params of the last message that the test has looked at.
    seen: Json,
    clock_stopped: bool,
}

impl Harness {
    /// A chain that is up. Its agent has answered `initialize` with this result.
    pub fn new(participants: &str, agent: &str) -> Harness {
        Harness::with_policy(participants, agent, BridgePolicy::Auto)
    }

    pub fn with_policy(participants: &str, agent: &str, policy: BridgePolicy) -> Harness {
        let mut harness = Harness::before_initialize(participants, policy);
        harness.begin(agent);
        harness
    }

    /// Runs the `initialize` handshake of the chain. The agent answers with this result.
    pub fn begin(&mut self, agent: &str) {
        let version = json(agent).member("protocolVersion").unwrap().as_str().to_owned();
        self.handshake(&version, agent);
        self.components.iter_mut().for_each(|component| component.inbox.clear());
    }

    /// A chain before its `initialize` handshake.
    pub fn before_initialize(participants: &str, policy: BridgePolicy) -> Harness {
        Harness::with_setup(participants, policy, |_| {})
    }

    /// The same, with a change to its setup.
    pub fn with_setup(
        participants: &str,
        policy: BridgePolicy,
        change: impl FnOnce(&mut Setup),
    ) -> Harness {
        let mut components = vec![TestComponent::new("editor", None, false)];
        let mut policies = Vec::new();
        let words: Vec<&str> = participants.split(' ').collect();
        for (index, frame) in words.iter().enumerate() {
            let bare = frame.trim_matches(['(', ')']);
            let with = if bare.contains('+') { bare.to_owned() } else { format!("{bare}+restart") };
            let (name, (generation, policy)) = parse_component(&with);
            let generation = (index + 1 < words.len()).then_some(generation);
            components.push(TestComponent::new(name, generation, bare != *frame));
            policies.push(policy);
        }
        let component = |it: &TestComponent| Component::new(it.name.clone(), it.name.clone());
        let chain = Chain {
            mode: Mode::Agent,
            components: components[1..].iter().map(component).collect(),
            order: Chain::first_order(components.len() - 1),
            initialize_timeout: 60_000,
            grace: 1_000,
            any_version: false,
        };
        let facts = components[1..]
            .iter()
            .map(|it| Facts { generation: it.generation, ..Facts::default() });
        let setup = shell::setup(chain);
        let mut setup = Setup {
            facts: facts.collect(),
            rules: Rules { policies, ..setup.rules },
            bridge: Some(policy),
            ..setup
        };
        change(&mut setup);
        Harness {
            shell: Shell::new(setup),
            now: router::Time(0),
            components,
            client_messages: BTreeMap::new(),
            disconnected: BTreeSet::new(),
            reports: Vec::new(),
            endpoints: endpoints::ShellEndpoints::default(),
            client_ids: 0,
            journal: Vec::new(),
            seen: Json::NULL,
            clock_stopped: false,
        }
    }

    /// Records a journal. Call this before the first message.
    pub fn record(&mut self) {
        self.shell.record();
    }

    /// The journal, if one was recorded.
    pub fn recorded(&mut self) -> Vec<u8> {
        self.shell.journal()
    }

    pub fn broker(&self) -> &Broker {
        self.shell.core().stages().broker().expect("there is a bridge")
    }

    /// The editor sends `initialize`, every proxy passes it on, and the agent answers with this
    /// result.
    pub fn handshake(&mut self, version: &str, agent: &str) {
        let before: Vec<bool> = self.components.iter().map(|it| it.is_pass_through).collect();
        let last = self.components.len() - 1;
        for component in &mut self.components[1..last] {
            component.is_pass_through = true;
        }
        self.send_line("editor", &format!(r#"initialize hello {{"protocolVersion":{version}}}"#));
        let id = self.expect(&self.agent(), "initialize ? …");
        self.send_line(&self.agent(), &format!("result {id} {agent}"));
        for (component, before) in self.components.iter_mut().zip(before) {
            component.is_pass_through = before;
        }
    }

    /// The name of the last component.
    pub fn agent(&self) -> String {
        self.components.last().unwrap().name.clone()
    }

    fn index(&self, participant: &str) -> usize {
        match self.components.iter().position(|it| it.name == participant) {
            Some(index) => index,
            None => panic!("there is no participant {participant}"),
        }
    }

    fn seat(&self, participant: &str) -> Seat {
        Seat(self.index(participant) as u16)
    }

    /// A participant sends a message.
    pub fn send_line(&mut self, participant: &str, line: &str) {
        let (toward, message) = self.parse(participant, line);
        self.send(participant, toward, message);
    }

    pub fn send(&mut self, participant: &str, toward: Side, message: Message) {
        self.sends(self.index(participant), toward, message);
        self.run_pass_through();
    }

    fn sends(&mut self, index: usize, toward: Side, message: Message) {
        let line = self.text(index, toward.opposite(), &message);
        self.journal.push(format!("{} > {line}", self.components[index].name));
        for (port, line) in self.components[index].peer.write(toward, &message) {
            let link = LinkId { seat: Seat(index as u16), port };
            self.handle(Input::Line { link, line: Line::Text(line) });
        }
    }

    /// Advances the time.
    pub fn wait(&mut self, milliseconds: u64) {
        self.now = self.now.plus(milliseconds);
        self.journal.push(format!("{} ms", self.now.0));
        if !self.clock_stopped {
            self.tick();
        }
        self.run_pass_through();
    }

    /// Lets the core handle what is due.
    fn tick(&mut self) {
        let effects = self.shell.tick(self.now);
        self.perform_all(effects);
    }

    /// Advances the time to the next deadline. False if there is none.
    pub fn skip_to_deadline(&mut self) -> bool {
        let deadline = self.shell.core().deadline().filter(|_| !self.clock_stopped);
        if let Some(deadline) = deadline {
            self.wait(deadline.0.saturating_sub(self.now.0));
        }
        deadline.is_some()
    }

    /// Whether a request to this component has retries.
    pub fn is_retried(&self, participant: &str, request: &str) -> bool {
        self.broker().is_retried(self.seat(participant), &id(request))
    }

    /// An injected fault: the core handles no deadline from now on.
    pub fn stop_clock(&mut self) {
        self.clock_stopped = true;
    }

    /// Suspends a pass-through proxy, or resumes it.
    pub fn suspend(&mut self, participant: &str, suspended: bool) {
        let index = self.index(participant);
        self.components[index].suspended = suspended;
        self.run_pass_through();
    }

    /// An MCP client connects with this ticket.
    pub fn connect_client(&mut self, ticket: Ticket) -> ClientId {
        self.client_ids += 1;
        let client_id = ClientId(self.client_ids);
        self.client_messages.insert(client_id, VecDeque::new());
        self.journal.push(format!("client {} connects with ticket {}", client_id.0, ticket.0));
        self.handle(Input::ClientConnected { ticket, client_id });
        client_id
    }

    pub fn client_ids(&self) -> Vec<ClientId> {
        self.client_messages.keys().copied().collect()
    }

    /// The valid tickets, oldest first.
    pub fn tickets(&self) -> Vec<Ticket> {
        self.endpoints.open.keys().copied().collect()
    }

    pub fn transports(&self) -> Vec<Transport> {
        self.endpoints.open.values().copied().collect()
    }

    /// An MCP client sends a message.
    pub fn client_sends(&mut self, client_id: ClientId, line: &str) {
        let message = parse(line);
        self.client_sends_raw(client_id, &message.to_line());
    }

    pub fn client_sends_raw(&mut self, client_id: ClientId, line: &str) {
        self.client_sends_at_once(client_id, line);
        // The bridge delays this notification, to send it with the next message. No message follows
        // that soon here.
        if line.contains("\"notifications/initialized\"") && self.broker().deadline().is_some() {
            self.wait(200);
        }
    }

    /// An MCP client sends a line. Another one may follow without delay.
    pub fn client_sends_at_once(&mut self, client_id: ClientId, line: &str) {
        self.journal.push(format!("client {} > {line}", client_id.0));
        self.handle(Input::ClientMessage { client_id, line: line.to_owned().into() });
        self.run_pass_through();
    }

    pub fn disconnect(&mut self, client_id: ClientId) {
        self.journal.push(format!("client {} disconnects", client_id.0));
        self.handle(Input::ClientDisconnected(client_id));
        self.run_pass_through();
    }

    // The part of the shell.

    fn handle(&mut self, input: Input) {
        let effects = self.shell.handle(self.now, input);
        self.perform_all(effects);
    }

    fn perform_all(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Line { to, line } => self.read(to, &line),
                Effect::Output(output) => self.perform(output),
            }
        }
        self.answer_at_once();
    }

    fn perform(&mut self, output: Output) {
        match output {
            Output::Start { seat, .. } => self.components[seat.index()].begin(),
            Output::OpenRelay { seat, incarnation } => {
                let servers = json(r#"{"servers":[{"name":"next","command":"/conductor"}]}"#);
                self.handle(Input::RelayOpened { seat, incarnation, servers: Ok(servers) });
            }
            Output::SendToClient { client_id, message } => {
                self.journal.push(format!("client {} < {}", client_id.0, message.to_line()));
                if !self.disconnected.contains(&client_id) {
                    self.client_messages.entry(client_id).or_default().push_back(message);
                }
            }
            Output::DisconnectClient(client_id) => {
                self.journal.push(format!("client {} is disconnected", client_id.0));
                self.disconnected.insert(client_id);
            }
            Output::OpenEndpoint { ticket, transport } => self.endpoints.ask(ticket, transport),
            Output::RevokeTicket(ticket) => self.endpoints.revoke(ticket),
            Output::Report(notice) => self.reports.push(notice.text),
            Output::Discard(seat) => self.components[seat.index()].end(),
            // In these tests every peer reads at once.
            Output::Read { .. }
            | Output::ReadClients(_)
            | Output::RememberPoison { .. }
            | Output::Finish(_) => {}
            output => self.fail(&format!("unexpected output {output:?}")),
        }
    }

    /// A peer reads a line.
    fn read(&mut self, link: LinkId, line: &bytes::Bytes) {
        let index = link.seat.index();
        match self.components[index].peer.read(link.port, line).expect("a line that can be read") {
            Read::Message(toward, message) => self.deliver(index, toward, message),
            Read::Reply(line) => {
                let link = LinkId { seat: link.seat, port: Port::Main };
                self.handle(Input::Line { link, line: Line::Text(line) });
            }
            Read::Join(toward, message) => {
                self.join_relay(link.seat);
                self.deliver(index, toward, message);
            }
            Read::Nothing => {}
        }
    }

    fn join_relay(&mut self, seat: Seat) {
        let effects = self.shell.join_relay(self.now, seat);
        self.perform_all(effects);
    }

    fn deliver(&mut self, index: usize, toward: Side, message: Message) {
        let line = self.text(index, toward, &message);
        let component = &mut self.components[index];
        self.journal.push(format!("{} < {line}", component.name));
        component.inbox.push_back((toward, message));
    }

    // The part of pass-through proxies.

    fn run_pass_through(&mut self) {
        loop {
            let ready = |it: &TestComponent| {
                it.is_pass_through && !it.suspended && !it.is_restarting && !it.inbox.is_empty()
            };
            let Some(index) = self.components.iter().position(ready) else { return };
            if let Some((toward, message)) = self.components[index].inbox.pop_front() {
                self.forwards(index, toward, message);
            }
        }
    }

    /// A proxy passes a message on unchanged.
    pub fn forward(&mut self, participant: &str, toward: Side, message: Message) {
        self.forwards(self.index(participant), toward, message);
        self.run_pass_through();
    }

    fn forwards(&mut self, index: usize, toward: Side, message: Message) {
        if let Some(message) = self.pass(index, message) {
            self.sends(index, toward, message);
        }
    }

    /// Replaces the id of a message by the id that it has on the other side of a proxy.
    fn pass(&mut self, index: usize, message: Message) -> Option<Message> {
        let component = &mut self.components[index];
        Some(match message {
            Message::Request { id, call } => {
                component.last += 1;
                let own = format!("{}-{}", component.name, component.last);
                component.passed.insert(own.clone(), id);
                Message::Request { id: Id::string(&own), call }
            }
            Message::Response { id, outcome, extras } => {
                let own = id.text().map(|it| it.into_owned()).unwrap_or_default();
                let Some(id) = component.passed.remove(&own) else {
                    panic!(
                        "{} got an answer to a request that it did not send: {id}",
                        component.name
                    );
                };
                Message::Response { id, outcome, extras }
            }
            Message::Notification(call) if call.is(acp::CANCEL_REQUEST) => {
                let params = call.params.unwrap();
                let request = acp::cancelled_id(&params);
                let found = component.passed.iter().find(|(_, it)| Some(*it) == request.as_ref());
                let (own, _) = found?;
                let params = acp::with_cancelled_id(&params, &Id::string(own));
                Message::notification(acp::CANCEL_REQUEST, params)
            }
            message => message,
        })
    }

    // Expectations.

    /// The next message of a participant. A restarted component handles no messages before
    /// `restart_handshake`.
    pub fn next(&mut self, participant: &str) -> Option<(Side, Message)> {
        let index = self.index(participant);
        let component = &mut self.components[index];
        if component.is_restarting { None } else { component.inbox.pop_front() }
    }

    /// Ignores the messages that a participant has received so far.
    pub fn discard_all(&mut self, participant: &str) {
        let index = self.index(participant);
        self.components[index].inbox.clear();
    }

    /// Expects this message as the next one of a participant. Returns its id.
    #[track_caller]
    pub fn expect(&mut self, participant: &str, expected: &str) -> String {
        let index = self.index(participant);
        let Some((toward, message)) = self.components[index].inbox.pop_front() else {
            self.fail(&format!("{participant} received nothing, expected:\n{expected}"));
        };
        let text = self.text(index, toward, &message);
        if let Message::Request { call, .. } | Message::Notification(call) = &message {
            self.seen = call.params.clone().unwrap_or(Json::NULL);
        }
        self.compare(participant, &text, expected, &message)
    }

    /// Expects this message as the next one of an MCP client. Returns its id.
    #[track_caller]
    pub fn expect_client(&mut self, client_id: ClientId, expected: &str) -> String {
        let Some(message) = self.client_messages.get_mut(&client_id).and_then(VecDeque::pop_front)
        else {
            self.fail(&format!("client {} received nothing, expected:\n{expected}", client_id.0));
        };
        let text = text(&message);
        self.compare("the client", &text, expected, &message)
    }

    pub fn next_client_message(&mut self, client_id: ClientId) -> Option<Message> {
        self.client_messages.get_mut(&client_id)?.pop_front()
    }

    /// A text member in the params of the last message that the test has looked at.
    pub fn last_member(&self, key: &str) -> String {
        let member = self.seen.member(key).unwrap_or(Json::NULL);
        member.text().map(|it| it.into_owned()).unwrap_or_else(|| self.fail(key))
    }

    /// A text member of the first server in the last set-up request that the test has looked at.
    pub fn last_server(&self, key: &str) -> String {
        let server = self.seen.member("mcpServers").unwrap_or(Json::NULL).elements();
        let text = server.first().and_then(|it| it.member(key));
        text.and_then(|it| it.text().map(|it| it.into_owned())).unwrap_or_else(|| self.fail(key))
    }

    /// Expects that no participant has a message that the test has not looked at.
    #[track_caller]
    pub fn expect_nothing_more(&self) {
        for component in &self.components {
            self.expect_nothing_more_at(&component.name);
        }
        for (client_id, messages) in &self.client_messages {
            if let Some(message) = messages.front() {
                self.fail(&format!("client {} also received: {}", client_id.0, text(message)));
            }
        }
    }

    #[track_caller]
    pub fn expect_nothing_more_at(&self, participant: &str) {
        let index = self.index(participant);
        if let Some((toward, message)) = self.components[index].inbox.front() {
            self.fail(&format!(
                "{participant} also received:\n{}",
                self.text(index, *toward, message)
            ));
        }
    }

    /// Expects that nothing is open: no session, client, server or request.
    #[track_caller]
    pub fn expect_all_closed(&self) {
        let sizes = self.broker().sizes();
        if sizes != [0; 10] {
            self.fail(&format!("tables are not empty: {sizes:?}"));
        }
        let open = &self.endpoints.open;
        assert!(open.is_empty(), "unused tickets are still valid: {open:?}");
        let requests = self.shell.core().router().open_request_count();
        if requests != 0 {
            self.fail(&format!("{requests} requests are not answered"));
        }
    }

    #[track_caller]
    fn compare(&self, participant: &str, text: &str, expected: &str, message: &Message) -> String {
        let id = match message {
            Message::Request { id, .. } | Message::Response { id, .. } => token(id),
            Message::Notification(_) => String::new(),
        };
        let wanted = expected.replacen(" ?", &format!(" {id}"), 1);
        if !matches_pattern(&wanted, text) {
            self.fail(&format!("{participant} received\n  {text}\nexpected\n  {wanted}"));
        }
        id
    }

    /// Fails the test and prints the conversation.
    #[track_caller]
    pub fn fail(&self, why: &str) -> ! {
        let most = std::env::var("JOURNAL").ok().and_then(|it| it.parse().ok()).unwrap_or(60);
        let start = self.journal.len().saturating_sub(most);
        panic!("{why}\n\nThe conversation:\n{}\n", self.journal[start..].join("\n"));
    }

    fn parse(&self, participant: &str, line: &str) -> (Side, Message) {
        let index = self.index(participant);
        let plain = match index {
            0 => Side::Agent,
            _ => Side::Editor,
        };
        match line.strip_prefix('~') {
            Some(line) => (Side::Agent, parse(line)),
            None => (plain, parse(line)),
        }
    }

    fn text(&self, index: usize, toward: Side, message: &Message) -> String {
        let proxy = index > 0 && index < self.components.len() - 1;
        let call = !matches!(message, Message::Response { .. });
        let envelope = if proxy && call && toward == Side::Editor { "~" } else { "" };
        format!("{envelope}{}", text(message))
    }
}
