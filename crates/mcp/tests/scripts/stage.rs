//! A chain without processes: the core, driven as the shell does it (`testkit::shell`), and all peers played by the
//! test.
//!
//! The cast is a line such as `p1:P5 (p2:P4+once) agent`: the components with their generations, and what is to be
//! done when they fail (`testkit::topology`); without a word on that, they are restarted. A component in brackets
//! passes everything on by itself. The editor is always there.
//!
//! Lines are written as in the scripts of the router: `method id params` is a request, without an id it
//! is a notification; `result id json` and `error id json` are answers. To and from a proxy, `~method`
//! is what is in an envelope: it goes to, or comes from, the agent's side. In what is expected, `?`
//! stands for any id, and `…` for any text.

mod desk;
mod lives;
mod sitter;
mod words;

use sitter::Sitter;
use words::fits;
pub use words::{id, json, parse, text, token};

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use acp_wire::dialect::Generation;
use acp_wire::{Call, Id, Json, Message, Outcome, Side, acp};
use engine::{Facts, Input, Line, Link, Output, Port, Rules, Setup};
use mcp::{BridgePolicy, Broker, ClientId, Ticket, Transport};
use router::{Chain, Component, Mode, Seat};
use testkit::peer::{Peer, Read};
use testkit::shell::{self, Effect, Shell};
use testkit::topology::parse_component;

/// What an agent answers to `initialize`, by what it can.
pub const STDIO: &str = r#"{"protocolVersion":1,"agentCapabilities":{}}"#;
pub const HTTP: &str =
    r#"{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"http":true}}}"#;
pub const NATIVE: &str =
    r#"{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"acp":true}}}"#;
pub const OLDER: &str =
    r#"{"protocolVersion":1,"agentCapabilities":{},"_meta":{"mcp_acp_transport":true}}"#;
pub const SCP: &str =
    r#"{"protocolVersion":1,"agentCapabilities":{},"_meta":{"symposium":{"version":"1.0"}}}"#;

pub struct Stage {
    shell: Shell,
    now: router::Time,
    sitters: Vec<Sitter>,
    told: BTreeMap<ClientId, VecDeque<Message>>,
    pub hung_up: BTreeSet<ClientId>,
    pub reports: Vec<String>,
    pub desk: desk::Desk,
    client_ids: u64,
    journal: Vec<String>,
    /// The params of what the test looked at last.
    seen: Json,
    clock_stopped: bool,
}

impl Stage {
    /// A chain that stands: its agent has answered `initialize` with this.
    pub fn new(cast: &str, agent: &str) -> Stage {
        Stage::with_policy(cast, agent, BridgePolicy::Auto)
    }

    pub fn with_policy(cast: &str, agent: &str, policy: BridgePolicy) -> Stage {
        let mut stage = Stage::before_greeting(cast, policy);
        stage.begin(agent);
        stage
    }

    /// Everybody is greeted. The agent answers with this.
    pub fn begin(&mut self, agent: &str) {
        let version = json(agent).member("protocolVersion").unwrap().as_str().to_owned();
        self.greet(&version, agent);
        self.sitters.iter_mut().for_each(|sitter| sitter.inbox.clear());
    }

    /// A chain that nobody has spoken to yet.
    pub fn before_greeting(cast: &str, policy: BridgePolicy) -> Stage {
        Stage::of_setup(cast, policy, |_| {})
    }

    /// The same, with a change to its setup.
    pub fn of_setup(cast: &str, policy: BridgePolicy, change: impl FnOnce(&mut Setup)) -> Stage {
        let mut sitters = vec![Sitter::new("editor", None, false)];
        let mut policies = Vec::new();
        let words: Vec<&str> = cast.split(' ').collect();
        for (index, word) in words.iter().enumerate() {
            let bare = word.trim_matches(['(', ')']);
            let with = if bare.contains('+') { bare.to_owned() } else { format!("{bare}+restart") };
            let (name, (generation, policy)) = parse_component(&with);
            let generation = (index + 1 < words.len()).then_some(generation);
            sitters.push(Sitter::new(name, generation, bare != *word));
            policies.push(policy);
        }
        let component = |it: &Sitter| Component::new(it.name.clone(), it.name.clone());
        let chain = Chain {
            mode: Mode::Agent,
            components: sitters[1..].iter().map(component).collect(),
            initialize_timeout: 60_000,
            grace: 1_000,
            any_version: false,
        };
        let facts =
            sitters[1..].iter().map(|it| Facts { generation: it.generation, ..Facts::default() });
        let setup = shell::setup(chain);
        let mut setup = Setup {
            facts: facts.collect(),
            rules: Rules { policies, ..setup.rules },
            bridge: Some(policy),
            ..setup
        };
        change(&mut setup);
        Stage {
            shell: Shell::new(setup),
            now: router::Time(0),
            sitters,
            told: BTreeMap::new(),
            hung_up: BTreeSet::new(),
            reports: Vec::new(),
            desk: desk::Desk::default(),
            client_ids: 0,
            journal: Vec::new(),
            seen: Json::NULL,
            clock_stopped: false,
        }
    }

    /// Writes a journal. To be called before anything happens.
    pub fn record(&mut self) {
        self.shell.record();
    }

    /// The journal, if it was wanted.
    pub fn recorded(&mut self) -> Vec<u8> {
        self.shell.journal()
    }

    pub fn broker(&self) -> &Broker {
        self.shell.core().stages().broker().expect("there is a bridge")
    }

    /// The editor greets; every proxy does its part, and the agent answers with this.
    pub fn greet(&mut self, version: &str, agent: &str) {
        let before: Vec<bool> = self.sitters.iter().map(|it| it.transparent).collect();
        let last = self.sitters.len() - 1;
        for sitter in &mut self.sitters[1..last] {
            sitter.transparent = true;
        }
        self.say("editor", &format!(r#"initialize hello {{"protocolVersion":{version}}}"#));
        let id = self.see(&self.agent(), "initialize ? …");
        self.say(&self.agent(), &format!("result {id} {agent}"));
        for (sitter, before) in self.sitters.iter_mut().zip(before) {
            sitter.transparent = before;
        }
    }

    /// The name of the last component.
    pub fn agent(&self) -> String {
        self.sitters.last().unwrap().name.clone()
    }

    fn index(&self, who: &str) -> usize {
        match self.sitters.iter().position(|it| it.name == who) {
            Some(index) => index,
            None => panic!("nobody is called {who}"),
        }
    }

    fn seat(&self, who: &str) -> Seat {
        Seat(self.index(who) as u16)
    }

    /// Somebody says a line.
    pub fn say(&mut self, who: &str, line: &str) {
        let (toward, message) = self.parse(who, line);
        self.send(who, toward, message);
    }

    pub fn send(&mut self, who: &str, toward: Side, message: Message) {
        self.sends(self.index(who), toward, message);
        self.pass_on();
    }

    fn sends(&mut self, index: usize, toward: Side, message: Message) {
        let line = self.text(index, toward.opposite(), &message);
        self.journal.push(format!("{} > {line}", self.sitters[index].name));
        for (port, line) in self.sitters[index].peer.write(toward, &message) {
            let link = Link { seat: Seat(index as u16), port };
            self.handle(Input::Line { link, line: Line::Text(line) });
        }
    }

    /// Time passes.
    pub fn wait(&mut self, milliseconds: u64) {
        self.now = self.now.plus(milliseconds);
        self.journal.push(format!("{} ms", self.now.0));
        if !self.clock_stopped {
            self.tick();
        }
        self.pass_on();
    }

    /// What is due is done.
    fn tick(&mut self) {
        let effects = self.shell.tick(self.now);
        self.perform_all(effects);
    }

    /// Waits until something is due. False if nothing ever is.
    pub fn skip_to_deadline(&mut self) -> bool {
        let deadline = self.shell.core().deadline().filter(|_| !self.clock_stopped);
        if let Some(deadline) = deadline {
            self.wait(deadline.0.saturating_sub(self.now.0));
        }
        deadline.is_some()
    }

    /// Is a request to this component asked again, if it is not answered?
    pub fn repeats(&self, who: &str, asked: &str) -> bool {
        self.broker().is_retried(self.seat(who), &id(asked))
    }

    /// A fault: nothing that is due is done from now on.
    pub fn stop_clock(&mut self) {
        self.clock_stopped = true;
    }

    /// A transparent proxy does nothing from now on, or again what it does.
    pub fn sleep(&mut self, who: &str, asleep: bool) {
        let index = self.index(who);
        self.sitters[index].asleep = asleep;
        self.pass_on();
    }

    /// Somebody comes with the ticket that was given out as the so-many-eth.
    pub fn call(&mut self, ticket: Ticket) -> ClientId {
        self.client_ids += 1;
        let client_id = ClientId(self.client_ids);
        self.told.insert(client_id, VecDeque::new());
        self.journal.push(format!("client {} calls with ticket {}", client_id.0, ticket.0));
        self.handle(Input::ClientConnected { ticket, client_id });
        client_id
    }

    pub fn client_ids(&self) -> Vec<ClientId> {
        self.told.keys().copied().collect()
    }

    /// The tickets that are good, oldest first.
    pub fn tickets(&self) -> Vec<Ticket> {
        self.desk.open.keys().copied().collect()
    }

    pub fn kinds(&self) -> Vec<Transport> {
        self.desk.open.values().copied().collect()
    }

    /// A client says a line.
    pub fn hear(&mut self, client_id: ClientId, line: &str) {
        let message = parse(line);
        self.hear_raw(client_id, &message.to_line());
    }

    pub fn hear_raw(&mut self, client_id: ClientId, line: &str) {
        self.hear_at_once(client_id, line);
        // It is held back for a moment, to go together with the next line; here none comes so soon.
        if line.contains("\"notifications/initialized\"") && self.broker().deadline().is_some() {
            self.wait(200);
        }
    }

    /// A client says a line, and may say more in the same moment.
    pub fn hear_at_once(&mut self, client_id: ClientId, line: &str) {
        self.journal.push(format!("client {} > {line}", client_id.0));
        self.handle(Input::ClientMessage { client_id, line: line.to_owned().into() });
        self.pass_on();
    }

    pub fn hang_up(&mut self, client_id: ClientId) {
        self.journal.push(format!("client {} hangs up", client_id.0));
        self.handle(Input::ClientDisconnected(client_id));
        self.pass_on();
    }

    // What the shell does.

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
            Output::Start { seat, .. } => self.sitters[seat.index()].begin(),
            Output::OpenRelay { seat, life } => {
                let servers = json(r#"{"servers":[{"name":"next","command":"/conductor"}]}"#);
                self.handle(Input::RelayOpened { seat, life, servers: Ok(servers) });
            }
            Output::SendToClient { client_id, message } => {
                self.journal.push(format!("client {} < {}", client_id.0, message.to_line()));
                if !self.hung_up.contains(&client_id) {
                    self.told.entry(client_id).or_default().push_back(message);
                }
            }
            Output::DisconnectClient(client_id) => {
                self.journal.push(format!("client {} is hung up on", client_id.0));
                self.hung_up.insert(client_id);
            }
            Output::OpenEndpoint { ticket, transport } => self.desk.ask(ticket, transport),
            Output::RevokeTicket(ticket) => self.desk.revoke(ticket),
            Output::Report(notice) => self.reports.push(notice.text),
            Output::Discard(seat) => self.sitters[seat.index()].end(),
            // Here, all that is written is read at once.
            Output::Read { .. }
            | Output::ReadClients(_)
            | Output::RememberPoison { .. }
            | Output::Finish(_) => {}
            output => self.fail(&format!("nobody has a reason for {output:?}")),
        }
    }

    /// A peer reads a line.
    fn read(&mut self, link: Link, line: &bytes::Bytes) {
        let index = link.seat.index();
        match self.sitters[index].peer.read(link.port, line).expect("a line that can be read") {
            Read::Message(toward, message) => self.deliver(index, toward, message),
            Read::Reply(line) => {
                let link = Link { seat: link.seat, port: Port::Main };
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
        let sitter = &mut self.sitters[index];
        self.journal.push(format!("{} < {line}", sitter.name));
        sitter.inbox.push_back((toward, message));
    }

    // What transparent proxies do.

    fn pass_on(&mut self) {
        loop {
            let ready =
                |it: &Sitter| it.transparent && !it.asleep && !it.boots && !it.inbox.is_empty();
            let Some(index) = self.sitters.iter().position(ready) else { return };
            if let Some((toward, message)) = self.sitters[index].inbox.pop_front() {
                self.forwards(index, toward, message);
            }
        }
    }

    /// A proxy passes on what it was sent, as it came.
    pub fn forward(&mut self, who: &str, toward: Side, message: Message) {
        self.forwards(self.index(who), toward, message);
        self.pass_on();
    }

    fn forwards(&mut self, index: usize, toward: Side, message: Message) {
        if let Some(message) = self.pass(index, message) {
            self.sends(index, toward, message);
        }
    }

    /// A message under the id that it has on the other side of a proxy.
    fn pass(&mut self, index: usize, message: Message) -> Option<Message> {
        let sitter = &mut self.sitters[index];
        Some(match message {
            Message::Request { id, call } => {
                sitter.last += 1;
                let own = format!("{}-{}", sitter.name, sitter.last);
                sitter.passed.insert(own.clone(), id);
                Message::Request { id: Id::string(&own), call }
            }
            Message::Response { id, outcome, extras } => {
                let own = id.text().map(|it| it.into_owned()).unwrap_or_default();
                let Some(id) = sitter.passed.remove(&own) else {
                    panic!("{} is answered what it did not ask: {id}", sitter.name);
                };
                Message::Response { id, outcome, extras }
            }
            Message::Notification(call) if call.is(acp::CANCEL_REQUEST) => {
                let params = call.params.unwrap();
                let asked = acp::cancelled_id(&params);
                let found = sitter.passed.iter().find(|(_, it)| Some(*it) == asked.as_ref());
                let (own, _) = found?;
                let params = acp::cancel_params(&params, &Id::string(own));
                Message::notification(acp::CANCEL_REQUEST, params)
            }
            message => message,
        })
    }

    // What is expected.

    /// The next message that somebody got. A component that was started again does nothing before `boot`.
    pub fn next(&mut self, who: &str) -> Option<(Side, Message)> {
        let index = self.index(who);
        let sitter = &mut self.sitters[index];
        if sitter.boots { None } else { sitter.inbox.pop_front() }
    }

    /// What somebody got so far is of no interest.
    pub fn drop_all(&mut self, who: &str) {
        let index = self.index(who);
        self.sitters[index].inbox.clear();
    }

    /// The next thing that somebody gets is this. Returns its id.
    #[track_caller]
    pub fn see(&mut self, who: &str, expected: &str) -> String {
        let index = self.index(who);
        let Some((toward, message)) = self.sitters[index].inbox.pop_front() else {
            self.fail(&format!("{who} got nothing, and should have got:\n{expected}"));
        };
        let text = self.text(index, toward, &message);
        if let Message::Request { call, .. } | Message::Notification(call) = &message {
            self.seen = call.params.clone().unwrap_or(Json::NULL);
        }
        self.compare(who, &text, expected, &message)
    }

    /// The next thing that a client is told is this. Returns its id.
    #[track_caller]
    pub fn told(&mut self, client_id: ClientId, expected: &str) -> String {
        let Some(message) = self.told.get_mut(&client_id).and_then(VecDeque::pop_front) else {
            self.fail(&format!("client {} was told nothing, and not:\n{expected}", client_id.0));
        };
        let text = text(&message);
        self.compare("the client", &text, expected, &message)
    }

    pub fn next_told(&mut self, client_id: ClientId) -> Option<Message> {
        self.told.get_mut(&client_id)?.pop_front()
    }

    /// A text in the last message that anybody got and the test has looked at.
    pub fn last_member(&self, key: &str) -> String {
        let member = self.seen.member(key).unwrap_or(Json::NULL);
        member.text().map(|it| it.into_owned()).unwrap_or_else(|| self.fail(key))
    }

    /// A text in the first server of the last set-up that the test has looked at.
    pub fn last_server(&self, key: &str) -> String {
        let server = self.seen.member("mcpServers").unwrap_or(Json::NULL).elements();
        let text = server.first().and_then(|it| it.member(key));
        text.and_then(|it| it.text().map(|it| it.into_owned())).unwrap_or_else(|| self.fail(key))
    }

    /// Nobody has got anything that the test has not looked at.
    #[track_caller]
    pub fn quiet(&self) {
        for sitter in &self.sitters {
            self.quiet_at(&sitter.name);
        }
        for (client_id, told) in &self.told {
            if let Some(message) = told.front() {
                self.fail(&format!("client {} was told, too: {}", client_id.0, text(message)));
            }
        }
    }

    #[track_caller]
    pub fn quiet_at(&self, who: &str) {
        let index = self.index(who);
        if let Some((toward, message)) = self.sitters[index].inbox.front() {
            self.fail(&format!("{who} got, too:\n{}", self.text(index, *toward, message)));
        }
    }

    /// Nothing is open any more: no session, no client, no server, no question.
    #[track_caller]
    pub fn empty(&self) {
        let sizes = self.broker().sizes();
        if sizes != [0; 10] {
            self.fail(&format!("something is left open: {sizes:?}"));
        }
        let open = &self.desk.open;
        assert!(open.is_empty(), "tickets are good that nobody needs: {open:?}");
        let questions = self.shell.core().router().open_request_count();
        if questions != 0 {
            self.fail(&format!("{questions} questions are open"));
        }
    }

    #[track_caller]
    fn compare(&self, who: &str, text: &str, expected: &str, message: &Message) -> String {
        let id = match message {
            Message::Request { id, .. } | Message::Response { id, .. } => token(id),
            Message::Notification(_) => String::new(),
        };
        let wanted = expected.replacen(" ?", &format!(" {id}"), 1);
        if !fits(&wanted, text) {
            self.fail(&format!("{who} got\n  {text}\nand should have got\n  {wanted}"));
        }
        id
    }

    /// Ends the test, with all that was said.
    #[track_caller]
    pub fn fail(&self, why: &str) -> ! {
        let most = std::env::var("JOURNAL").ok().and_then(|it| it.parse().ok()).unwrap_or(60);
        let start = self.journal.len().saturating_sub(most);
        panic!("{why}\n\nWhat was said:\n{}\n", self.journal[start..].join("\n"));
    }

    fn parse(&self, who: &str, line: &str) -> (Side, Message) {
        let index = self.index(who);
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
        let proxy = index > 0 && index < self.sitters.len() - 1;
        let call = !matches!(message, Message::Response { .. });
        let envelope = if proxy && call && toward == Side::Editor { "~" } else { "" };
        format!("{envelope}{}", text(message))
    }
}
