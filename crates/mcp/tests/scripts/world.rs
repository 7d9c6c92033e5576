//! A whole chain with its players.

use acp_wire::{Call, Json, Outcome};
use mcp::form::Form;

use crate::cast::*;
use crate::stage::*;

/// What a stateless server answers to `server/discover`.
pub const DISCOVERED: &str = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}"#;

pub struct World {
    pub stage: Stage,
    pub agent: Agent,
    pub providers: Vec<Provider>,
    last: u64,
}

impl World {
    /// The editor is there in any case; the other providers sit where the cast says.
    pub fn new(cast: &str, consumer: Option<Form>, providers: Vec<Provider>) -> World {
        World::with_stage(Stage::new(cast, Agent::greeting(consumer)), consumer, providers)
    }

    pub fn with_stage(stage: Stage, consumer: Option<Form>, providers: Vec<Provider>) -> World {
        let mut providers = providers;
        if !providers.iter().any(|it| it.who == "editor") {
            providers.push(Provider::new("editor", Form::M7, &[]));
        }
        World { stage, agent: Agent::new(consumer), providers, last: 0 }
    }

    /// Everybody does what can be done without the test. Says whether there was anything.
    pub fn settle(&mut self) -> bool {
        let mut any = false;
        loop {
            let mut busy = self.agent.pump(&mut self.stage);
            for provider in &mut self.providers {
                busy |= provider.pump(&mut self.stage);
            }
            any |= busy;
            if !busy {
                return any;
            }
        }
    }

    pub fn provider(&mut self, who: &str) -> &mut Provider {
        self.providers.iter_mut().find(|it| it.who == who).unwrap()
    }

    pub fn editor(&mut self) -> &mut Provider {
        self.provider("editor")
    }

    /// The editor asks for something; returns the name of the request.
    pub fn editor_asks(&mut self, method: &str, params: &str) -> String {
        self.last += 1;
        let name = format!("e{}", self.last);
        self.stage.say("editor", &format!("{method} {name} {params}"));
        self.settle();
        name
    }

    /// The editor sets a session up, with its own servers. Returns the request that the agent got.
    pub fn begin_session(&mut self) -> (String, Call) {
        let servers = self.editor().declarations().join(",");
        self.editor_asks("session/new", &format!(r#"{{"cwd":"/","mcpServers":[{servers}]}}"#));
        match self.agent.requests.pop_back() {
            Some(request) => request,
            None => self.stage.fail("the agent was not asked for a session"),
        }
    }

    /// The agent answers a request.
    pub fn agent_says(&mut self, id: &str, result: &str) {
        self.stage.say(&self.stage.agent(), &format!("result {id} {result}"));
        self.settle();
    }

    /// A session with this id. Returns the servers that the agent got.
    pub fn session(&mut self, session: &str) -> Vec<Json> {
        let (id, call) = self.begin_session();
        self.agent_says(&id, &format!(r#"{{"sessionId":"{session}"}}"#));
        servers(&call)
    }

    pub fn close_session(&mut self, session: &str) {
        self.editor_asks("session/close", &format!(r#"{{"sessionId":"{session}"}}"#));
        let (id, _) = self.agent.requests.pop_back().unwrap();
        self.agent_says(&id, "{}");
    }

    /// A provider dies, and another takes its place that calls its servers so.
    pub fn restart(&mut self, who: &str, servers: &[(&str, &str)]) {
        self.stage.die(who);
        self.revive(who, servers);
    }

    /// Another takes the place of a provider that has died.
    pub fn revive(&mut self, who: &str, servers: &[(&str, &str)]) {
        self.provider(who).reborn(servers);
        self.told_all(who);
        self.stage.is_back(who);
        self.settle();
    }

    /// A newcomer is greeted and told of all sessions. Then it is one of the chain.
    pub fn told_all(&mut self, who: &str) {
        self.stage.boot(who, STDIO);
        if let Some(provider) = self.providers.iter_mut().find(|it| it.who == who) {
            while self.stage.learns(who) && provider.step(&mut self.stage) {}
        }
    }

    /// The agent dies, and another takes its place. Returns the servers it is given, by session.
    pub fn restart_agent(&mut self) -> Vec<(String, Vec<Json>)> {
        let who = self.stage.agent();
        self.stage.die(&who);
        self.revive_agent()
    }

    pub fn revive_agent(&mut self) -> Vec<(String, Vec<Json>)> {
        let who = self.stage.agent();
        self.agent.reborn();
        self.stage.boot(&who, Agent::greeting(self.agent.form));
        let mut given = Vec::new();
        while self.stage.learns(&who) {
            self.agent.pump(&mut self.stage);
            let (id, call) = self.agent.requests.pop_back().expect("it is told of a session");
            let session = call.params.as_ref().and_then(|it| it.member("sessionId"));
            let session = session.and_then(|it| it.text().map(|it| it.into_owned()));
            given.push((session.expect("the id of a session"), servers(&call)));
            self.stage.say(&who, &format!("result {id} {{}}"));
        }
        self.settle();
        given
    }

    /// A line to this server; everybody helps to open it.
    pub fn line(&mut self, entry: &Json) -> Line {
        let (line, name) = self.agent.reach(&mut self.stage, entry);
        self.discover();
        let Some(name) = name else { return line };
        match self.agent.reached(line, &name) {
            Ok(line) => line,
            Err(outcome) => self.stage.fail(&format!("no connection: {outcome:?}")),
        }
    }

    /// The agent asks a server; everybody does what can be done without the test.
    pub fn ask(&mut self, line: &Line, method: &str, params: &str) -> String {
        let name = self.agent.ask(&mut self.stage, line, &call(method, params));
        self.settle();
        name
    }

    pub fn note(&mut self, line: &Line, method: &str, params: &str) {
        self.agent.note(&mut self.stage, line, &call(method, params));
        self.settle();
    }

    /// What a provider's server has heard next. Discovery is answered on the way.
    #[track_caller]
    pub fn heard(&mut self, who: &str) -> Said {
        self.discover();
        let index = self.providers.iter().position(|it| it.who == who).unwrap();
        match self.providers[index].heard.pop_front() {
            Some(said) => said,
            None => self.stage.fail(&format!("the server of {who} has heard nothing")),
        }
    }

    /// Servers say what they can, if they are asked.
    pub fn discover(&mut self) {
        self.settle();
        for index in 0..self.providers.len() {
            let provider = &mut self.providers[index];
            let is_discovery = |said: &Said| said.call.is("server/discover");
            while let Some(place) = provider.heard.iter().position(is_discovery) {
                if let Some(said) = provider.heard.remove(place) {
                    provider.result(&mut self.stage, &said, DISCOVERED);
                }
            }
        }
        self.settle();
    }

    /// The server answers.
    pub fn result(&mut self, who: &str, said: &Said, result: &str) {
        self.answer(who, said, Outcome::Result(json(result)));
    }

    pub fn answer(&mut self, who: &str, said: &Said, outcome: Outcome) {
        let index = self.providers.iter().position(|it| it.who == who).unwrap();
        self.providers[index].answer(&mut self.stage, said, outcome);
        self.settle();
    }
}

/// The servers in a set-up request.
pub fn servers(call: &Call) -> Vec<Json> {
    let params = call.params.as_ref().unwrap();
    params.member("mcpServers").map(|it| it.elements()).unwrap_or_default()
}
