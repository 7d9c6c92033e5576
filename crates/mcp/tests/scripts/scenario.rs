//! A chain with an agent and providers that answer as their forms require.

use acp_wire::{Call, Json, Outcome};
use mcp::form::Form;

use crate::harness::*;
use crate::participants::*;

/// The answer of a stateless server to `server/discover`.
pub const DISCOVERED: &str = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}"#;

/// A chain with its participants.
pub struct Scenario {
    pub harness: Harness,
    pub agent: Agent,
    pub providers: Vec<Provider>,
    last: u64,
}

impl Scenario {
    /// Creates a chain with these providers. The editor is added if it is missing.
    pub fn new(participants: &str, consumer: Option<Form>, providers: Vec<Provider>) -> Scenario {
        Scenario::with_harness(
            Harness::new(participants, Agent::initialize_result(consumer)),
            consumer,
            providers,
        )
    }

    pub fn with_harness(
        harness: Harness,
        consumer: Option<Form>,
        providers: Vec<Provider>,
    ) -> Scenario {
        let mut providers = providers;
        if !providers.iter().any(|it| it.name == "editor") {
            providers.push(Provider::new("editor", Form::M7, &[]));
        }
        Scenario { harness, agent: Agent::new(consumer), providers, last: 0 }
    }

    /// All participants handle their messages. Returns whether there were any.
    pub fn settle(&mut self) -> bool {
        let mut any = false;
        loop {
            let mut busy = self.agent.pump(&mut self.harness);
            for provider in &mut self.providers {
                busy |= provider.pump(&mut self.harness);
            }
            any |= busy;
            if !busy {
                return any;
            }
        }
    }

    pub fn provider(&mut self, participant: &str) -> &mut Provider {
        self.providers.iter_mut().find(|it| it.name == participant).unwrap()
    }

    pub fn editor(&mut self) -> &mut Provider {
        self.provider("editor")
    }

    /// The editor sends a request. Returns the name of the request.
    pub fn editor_requests(&mut self, method: &str, params: &str) -> String {
        self.last += 1;
        let name = format!("e{}", self.last);
        self.harness.send_line("editor", &format!("{method} {name} {params}"));
        self.settle();
        name
    }

    /// The editor creates a session with its own servers. Returns the request that the agent has
    /// received.
    pub fn begin_session(&mut self) -> (String, Call) {
        let servers = self.editor().declarations().join(",");
        self.editor_requests("session/new", &format!(r#"{{"cwd":"/","mcpServers":[{servers}]}}"#));
        match self.agent.requests.pop_back() {
            Some(request) => request,
            None => self.harness.fail("the agent received no request for a session"),
        }
    }

    /// The agent answers a request.
    pub fn agent_answers_with(&mut self, id: &str, result: &str) {
        self.harness.send_line(&self.harness.agent(), &format!("result {id} {result}"));
        self.settle();
    }

    /// Creates a session with this id. Returns the servers that the agent has received.
    pub fn session(&mut self, session: &str) -> Vec<Json> {
        let (id, call) = self.begin_session();
        self.agent_answers_with(&id, &format!(r#"{{"sessionId":"{session}"}}"#));
        servers(&call)
    }

    pub fn close_session(&mut self, session: &str) {
        self.editor_requests("session/close", &format!(r#"{{"sessionId":"{session}"}}"#));
        let (id, _) = self.agent.requests.pop_back().unwrap();
        self.agent_answers_with(&id, "{}");
    }

    /// A provider crashes and is restarted, with these servers.
    pub fn restart(&mut self, participant: &str, servers: &[(&str, &str)]) {
        self.harness.crash(participant);
        self.finish_restart(participant, servers);
    }

    /// Finishes the restart of a crashed provider, with these servers.
    pub fn finish_restart(&mut self, participant: &str, servers: &[(&str, &str)]) {
        self.provider(participant).reset(servers);
        self.replay_sessions(participant);
        self.harness.assert_restarted(participant);
        self.settle();
    }

    /// Runs the handshake and the session replay of a restarted component.
    pub fn replay_sessions(&mut self, participant: &str) {
        self.harness.restart_handshake(participant, STDIO);
        if let Some(provider) = self.providers.iter_mut().find(|it| it.name == participant) {
            while self.harness.is_replaying(participant) && provider.step(&mut self.harness) {}
        }
    }

    /// The agent crashes and is restarted. Returns the servers that it receives, by session.
    pub fn restart_agent(&mut self) -> Vec<(String, Vec<Json>)> {
        let participant = self.harness.agent();
        self.harness.crash(&participant);
        self.finish_agent_restart()
    }

    pub fn finish_agent_restart(&mut self) -> Vec<(String, Vec<Json>)> {
        let participant = self.harness.agent();
        self.agent.reset();
        self.harness.restart_handshake(&participant, Agent::initialize_result(self.agent.form));
        let mut given = Vec::new();
        while self.harness.is_replaying(&participant) {
            self.agent.pump(&mut self.harness);
            let (id, call) = self.agent.requests.pop_back().expect("a replayed session");
            let session = call.params.as_ref().and_then(|it| it.member("sessionId"));
            let session = session.and_then(|it| it.text().map(|it| it.into_owned()));
            given.push((session.expect("the id of a session"), servers(&call)));
            self.harness.send_line(&participant, &format!("result {id} {{}}"));
        }
        self.settle();
        given
    }

    /// Connects to this server.
    pub fn connect(&mut self, entry: &Json) -> ServerConnection {
        let (connection, name) = self.agent.start_connect(&mut self.harness, entry);
        self.discover();
        let Some(name) = name else { return connection };
        match self.agent.finish_connect(connection, &name) {
            Ok(connection) => connection,
            Err(outcome) => self.harness.fail(&format!("no connection: {outcome:?}")),
        }
    }

    /// The agent sends a request to a server.
    pub fn ask(&mut self, connection: &ServerConnection, method: &str, params: &str) -> String {
        let name = self.agent.ask(&mut self.harness, connection, &call(method, params));
        self.settle();
        name
    }

    pub fn note(&mut self, connection: &ServerConnection, method: &str, params: &str) {
        self.agent.note(&mut self.harness, connection, &call(method, params));
        self.settle();
    }

    /// The next message for the servers of a provider. `server/discover` is answered on the way.
    #[track_caller]
    pub fn next_received(&mut self, participant: &str) -> ReceivedMessage {
        self.discover();
        let index = self.providers.iter().position(|it| it.name == participant).unwrap();
        match self.providers[index].received.pop_front() {
            Some(received) => received,
            None => self.harness.fail(&format!("the servers of {participant} received nothing")),
        }
    }

    /// Servers answer `server/discover`.
    pub fn discover(&mut self) {
        self.settle();
        for index in 0..self.providers.len() {
            let provider = &mut self.providers[index];
            let is_discovery = |received: &ReceivedMessage| received.call.is("server/discover");
            while let Some(place) = provider.received.iter().position(is_discovery) {
                if let Some(received) = provider.received.remove(place) {
                    provider.result(&mut self.harness, &received, DISCOVERED);
                }
            }
        }
        self.settle();
    }

    /// A server answers with this result.
    pub fn result(&mut self, participant: &str, received: &ReceivedMessage, result: &str) {
        self.answer(participant, received, Outcome::Result(json(result)));
    }

    pub fn answer(&mut self, participant: &str, received: &ReceivedMessage, outcome: Outcome) {
        let index = self.providers.iter().position(|it| it.name == participant).unwrap();
        self.providers[index].answer(&mut self.harness, received, outcome);
        self.settle();
    }
}

/// The servers in a set-up request.
pub fn servers(call: &Call) -> Vec<Json> {
    let params = call.params.as_ref().unwrap();
    params.member("mcpServers").map(|it| it.elements()).unwrap_or_default()
}
