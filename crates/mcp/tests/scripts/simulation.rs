//! Random chains: several providers and consumers of any form, sessions, requests in both
//! directions, cancellations, disconnects, suspended proxies, and the passing of time. In every
//! second run components crash, and are restarted or bypassed. In every third run providers lose
//! answers. In every fifth run the shell is slow to open endpoints, or fails to. In every run:
//!
//! - Every request is answered exactly once, unless an MCP client has cancelled it or disconnected.
//! - At the end all tables are empty, in the broker and in the providers.
//! - The editor receives no message for the server of another component.
//! - A consumer that could use a server before a component was restarted can still use it
//!   afterwards.
//!
//! A seed replays exactly: `SEED=7 cargo test -p acp-conductor-mcp --test scripts simulation`.
//! `SEEDS=20000` runs more seeds.

mod checks;
mod crashes;
mod random;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use acp_wire::{Json, Outcome};
use mcp::form::Form;

use self::random::Random;
use crate::harness::*;
use crate::participants::*;
use crate::scenario::*;

const SEEDS: u64 = 1_200;

/// Seeds that have failed before.
const REGRESSION_SEEDS: [u64; 3] = [1492, 8829, 14694];
const STEPS: usize = 120;

#[test]
fn every_request_is_answered_and_all_tables_are_empty_at_the_end() {
    let seeds = match std::env::var("SEED") {
        Ok(seed) => vec![seed.parse().expect("SEED is a number")],
        Err(_) => {
            let seeds = std::env::var("SEEDS").map(|it| it.parse().expect("SEEDS is a number"));
            REGRESSION_SEEDS.into_iter().chain(0..seeds.unwrap_or(SEEDS)).collect()
        }
    };
    for seed in seeds {
        if let Err(why) = catch_unwind(AssertUnwindSafe(|| Simulation::new(seed, false).play())) {
            eprintln!("SEED={seed}");
            resume_unwind(why);
        }
    }
}

#[test]
fn every_run_replays_from_its_journal() {
    for seed in 0..60 {
        let journal = Simulation::new(seed, true).play();
        match engine::journal::replay(journal.split_inclusive(|byte| *byte == b'\n')) {
            Ok(report) => assert!(report.inputs > 0 && !report.cut_off, "{seed}: {report:?}"),
            Err(why) => panic!("SEED={seed}: {why}"),
        }
    }
}

/// The simulation fails if lost answers are not retried.
#[test]
fn the_simulation_detects_missing_retries() {
    let caught = (0..200).map(|n| n * 3).any(|seed| {
        let mut play = Simulation::new(seed, false);
        play.scenario.harness.stop_clock();
        catch_unwind(AssertUnwindSafe(|| play.play())).is_err()
    });
    assert!(caught, "answers are lost without a retry, and no run has failed");
}

/// One random run.
struct Simulation {
    random: Random,
    scenario: Scenario,
    /// The pass-through proxies, which may be suspended.
    pass_through: Vec<String>,
    /// Set-up requests that the agent has not answered: the id, the name of the editor's request,
    /// and the servers.
    pending: Vec<(String, String, Vec<Json>)>,
    /// The name of the editor's set-up request, by session.
    origins: BTreeMap<String, String>,
    sessions: BTreeMap<String, Vec<Json>>,
    /// Connects that are not answered.
    connecting: Vec<(ServerConnection, String)>,
    connections: Vec<ServerConnection>,
    /// The requests of the agent, and their connections.
    agent_requests: Vec<(String, ServerConnection)>,
    /// Requests that MCP clients have cancelled.
    abandoned: Vec<String>,
    editor_request_names: Vec<String>,
    last: u64,
    /// Components may crash.
    may_crash: bool,
    /// The components that are down, and those that are bypassed.
    down: Vec<String>,
    bypassed: Vec<String>,
    /// The components that are bypassed at their second crash.
    once: Vec<String>,
    /// The connections on which the agent, or its client, has sent an `initialize`.
    initialized_on: BTreeSet<String>,
    /// The number of crashes so far, and before each set-up request.
    crashes: usize,
    crashes_before: BTreeMap<String, usize>,
    /// Requests that close a session.
    closing: Vec<(String, String)>,
    /// Servers answer every request with a result.
    servers_obey: bool,
    /// Providers lose answers, as old SDKs do.
    loses_answers: bool,
    /// A consumer may use a server although its `initialize` has failed.
    lost_initialize: bool,
    /// How often a server has refused an `initialize` that the broker has sent on a reopened
    /// connection. The consumer receives a disconnect.
    refused_initializes: usize,
    /// The shell is slow to open endpoints.
    slow: bool,
}

impl Simulation {
    fn new(seed: u64, recorded: bool) -> Simulation {
        let mut random = Random(seed.wrapping_mul(7_919).wrapping_add(17));
        let consumer = [None, None, None]
            .into_iter()
            .chain(FORMS.into_iter().map(Some))
            .nth(random.below(12))
            .unwrap();
        let mut participants = Vec::new();
        let mut providers = Vec::new();
        let mut pass_through = Vec::new();
        let mut once = Vec::new();
        // Some servers have the same names and ids. The ids of connections differ: a restarted
        // provider that used the same ones could mistake messages that were sent before (see
        // `same_ids`).
        let names = ["tools", "tools", "more"];
        for number in 1..=1 + random.below(3) {
            let form = FORMS[random.below(FORMS.len())];
            let participant = format!("p{number}");
            let ids: [String; 2] = std::array::from_fn(|n| match random.one_in(4) {
                true => format!("U{n}"),
                false => format!("U{n}-{participant}"),
            });
            let servers: Vec<(&str, &str)> = (0..1 + random.below(2))
                .map(|n| (names[random.below(3 - n) + n], ids[n].as_str()))
                .collect();
            let mut provider = Provider::new(&participant, form, &servers);
            if form == Form::M0 {
                provider.servers.truncate(1);
            }
            provider.passes_unknown = random.one_in(2);
            providers.push(provider);
            // Some providers are bypassed at their second crash.
            let survival = if random.one_in(4) { "once" } else { "restart" };
            once.extend((survival == "once").then(|| participant.clone()));
            participants.push(format!("{participant}:{}+{survival}", generation_of(form)));
            if random.one_in(3) {
                pass_through.push(format!("x{number}"));
                participants.push(format!("(x{number}:{})", ["P3", "P4", "P5"][random.below(3)]));
            }
        }
        if random.one_in(3) {
            let form = [Form::M3, Form::M5, Form::M6, Form::M7][random.below(4)];
            providers.push(Provider::new("editor", form, &[("tools", "UE")]));
        }
        participants.push("agent".into());
        let mut harness =
            Harness::before_initialize(&participants.join(" "), mcp::BridgePolicy::Auto);
        if recorded {
            harness.record();
        }
        harness.begin(Agent::initialize_result(consumer));
        let scenario = Scenario::with_harness(harness, consumer, providers);
        Simulation {
            random,
            scenario,
            pass_through,
            pending: Vec::new(),
            origins: BTreeMap::new(),
            sessions: BTreeMap::new(),
            connecting: Vec::new(),
            connections: Vec::new(),
            agent_requests: Vec::new(),
            abandoned: Vec::new(),
            editor_request_names: Vec::new(),
            last: 0,
            may_crash: seed % 2 == 1,
            down: Vec::new(),
            bypassed: Vec::new(),
            once,
            initialized_on: BTreeSet::new(),
            crashes: 0,
            crashes_before: BTreeMap::new(),
            closing: Vec::new(),
            servers_obey: false,
            loses_answers: seed.is_multiple_of(3),
            lost_initialize: false,
            refused_initializes: 0,
            slow: seed.is_multiple_of(5),
        }
    }

    /// Runs the simulation. Returns the journal, if it is recorded.
    fn play(mut self) -> Vec<u8> {
        self.scenario.harness.delay_shell(self.slow);
        for _ in 0..STEPS {
            self.step();
            self.one_participant_handles_messages();
        }
        self.finish();
        self.scenario.harness.recorded()
    }

    /// One participant handles its messages. The others have not read their messages yet.
    fn one_participant_handles_messages(&mut self) {
        let scenario = &mut self.scenario;
        match self.random.below(scenario.providers.len() + 2) {
            0 => scenario.agent.pump(&mut scenario.harness),
            1 => scenario.settle(),
            n => scenario.providers[n - 2].pump(&mut scenario.harness),
        };
        self.answer_endpoint();
        self.record_agent_state();
    }

    /// A slow shell may answer requests in any order.
    fn answer_endpoint(&mut self) {
        let count = self.scenario.harness.requested_endpoints().len();
        if count > 0 && self.random.one_in(3) {
            let full = self.random.one_in(6).then(|| "no port is free".to_owned());
            self.scenario.harness.endpoints.failure = full;
            self.scenario.harness.answer_endpoint(self.random.below(count));
            self.scenario.harness.endpoints.failure = None;
        }
    }

    /// Records the requests and answers that the agent has received.
    fn record_agent_state(&mut self) {
        for (id, call) in self.scenario.agent.requests.drain(..).collect::<Vec<_>>() {
            match call.is("session/new") {
                true => self.pending.push((id, origin_of(&call), servers(&call))),
                false => self.scenario.harness.send_line("agent", &format!("result {id} {{}}")),
            }
        }
        let known = |outcomes: &BTreeMap<String, Outcome>, name: &str| outcomes.contains_key(name);
        let outcomes = &self.scenario.agent.outcomes;
        let (done, open) = std::mem::take(&mut self.connecting)
            .into_iter()
            .partition(|(_, name)| known(outcomes, name));
        self.connecting = open;
        for (connection, name) in done as Vec<(ServerConnection, String)> {
            self.connections.extend(self.scenario.agent.finish_connect(connection, &name));
        }
    }

    fn step(&mut self) {
        match self.random.below(if self.may_crash { 20 } else { 16 }) {
            16 if self.random.one_in(3) => self.restart_when_idle(),
            16 | 17 => self.crash_someone(),
            18 | 19 => self.restart_someone(),
            0 | 1 => self.begin_session(),
            2 => self.answer_set_up(),
            3 => self.close_session(),
            4 | 5 => self.start_connect(),
            6 | 7 => self.ask(),
            8 => self.cancel(),
            9 => self.disconnect(),
            10 | 11 => self.provider_answers(),
            12 => self.provider_sends(),
            13 => self.agent_answers(),
            14 => {
                let time = [1, 700, 2_500, 31_000][self.random.below(4)];
                if time > 25_000 {
                    self.lose_timed_out_requests();
                }
                self.scenario.harness.wait(time);
            }
            _ => {
                if let Some(proxy) = self.random.pick(&self.pass_through).cloned() {
                    let suspended = self.random.one_in(2);
                    self.scenario.harness.suspend(&proxy, suspended);
                }
            }
        }
    }

    /// Loses the answers to requests that are about to time out. The provider answers all other
    /// requests in time.
    fn lose_timed_out_requests(&mut self) {
        let Scenario { providers, harness, .. } = &mut self.scenario;
        while providers.iter_mut().fold(false, |busy, it| it.pump(harness) | busy) {}
        for index in 0..self.scenario.providers.len() {
            let provider = &self.scenario.providers[index];
            for received in provider.owed.values().cloned().collect::<Vec<_>>() {
                if self.may_be_lost(index, &received) {
                    self.lose(index, &received);
                }
            }
        }
    }

    fn lose(&mut self, index: usize, received: &ReceivedMessage) {
        self.lost_initialize |= received.call.is("initialize");
        self.scenario.providers[index].lose(received);
    }

    /// Whether a request has retries. (The broker does not know servers that are in no session.)
    fn may_be_lost(&self, index: usize, received: &ReceivedMessage) -> bool {
        let provider = &self.scenario.providers[index].name;
        received.id.as_ref().is_some_and(|it| self.scenario.harness.is_retried(provider, it))
    }

    fn editor_requests(&mut self, method: &str, params: &str) -> String {
        self.last += 1;
        let name = format!("editor-{}", self.last);
        self.scenario.harness.send_line("editor", &format!("{method} {name} {params}"));
        self.editor_request_names.push(name.clone());
        name
    }

    fn begin_session(&mut self) {
        if self.pending.len() + self.sessions.len() < 4 {
            let servers = self.scenario.editor().declarations().join(",");
            let name = format!("editor-{}", self.last + 1);
            self.crashes_before.insert(name.clone(), self.crashes);
            let params = format!(r#"{{"cwd":"{name}","mcpServers":[{servers}]}}"#);
            self.editor_requests("session/new", &params);
        }
    }

    fn answer_set_up(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let index = self.random.below(self.pending.len());
        let (id, origin, entries) = self.pending.remove(index);
        if self.random.one_in(4) {
            let error = r#"{"code":-32000,"message":"not now"}"#;
            self.scenario.harness.send_line("agent", &format!("error {id} {error}"));
            return;
        }
        self.last += 1;
        let session = format!("S{}", self.last);
        self.scenario
            .harness
            .send_line("agent", &format!(r#"result {id} {{"sessionId":"{session}"}}"#));
        self.origins.insert(session.clone(), origin);
        self.sessions.insert(session, entries);
    }

    fn close_session(&mut self) {
        // The editor can close only sessions that it knows.
        let answers = &self.scenario.editor().answers;
        let known_sessions = answers.values().filter_map(|it| match it {
            Outcome::Result(result) => result.member("sessionId")?.text().map(|it| it.into_owned()),
            Outcome::Error(_) => None,
        });
        let known_sessions: Vec<String> = known_sessions.collect();
        let known: Vec<String> =
            self.sessions.keys().filter(|it| known_sessions.contains(it)).cloned().collect();
        if let Some(session) = self.random.pick(&known) {
            self.sessions.remove(session);
            let method = ["session/close", "session/delete"][self.random.below(2)];
            let name = self.editor_requests(method, &format!(r#"{{"sessionId":"{session}"}}"#));
            self.closing.push((name, session.clone()));
        }
    }

    fn start_connect(&mut self) {
        if !self.is_agent_up() {
            return;
        }
        let pending = self.pending.iter().map(|(_, origin, entries)| (origin, entries));
        let sessions = self.sessions.iter().map(|(name, entries)| (&self.origins[name], entries));
        let sound =
            pending.chain(sessions).filter(|(origin, _)| self.is_unaffected_by_crashes(origin));
        let entries: Vec<Json> = sound.flat_map(|(_, entries)| entries).cloned().collect();
        let Some(entry) = self.random.pick(&entries) else { return };
        // An SCP agent is bridged to all servers that are not SCP servers.
        match self.scenario.agent.start_connect(&mut self.scenario.harness, entry) {
            (connection, Some(name)) => self.connecting.push((connection, name)),
            (connection, None) => self.connections.push(connection),
        }
    }

    /// Whether no component has crashed since the set-up request of a session. If one has, only the
    /// components behind it know the session.
    fn is_unaffected_by_crashes(&self, origin: &str) -> bool {
        let mut providers = self.scenario.providers.iter();
        let editor = providers.find(|it| it.name == "editor");
        let answer = editor.and_then(|it| it.answers.get(origin));
        matches!(answer, Some(Outcome::Result(_))) || self.crashes_before[origin] == self.crashes
    }

    fn ask(&mut self) {
        let Some(connection) = self.random.pick(&self.connections).cloned() else { return };
        let stateless = self.scenario.agent.form == Some(Form::M7);
        let received = match self.random.below(5) {
            0 if !stateless => {
                self.initialized_on.insert(format!("{connection:?}"));
                self.scenario.agent.initialize()
            }
            1 => call("tools/list", ""),
            2 => {
                return self.scenario.agent.note(
                    &mut self.scenario.harness,
                    &connection,
                    &call("notifications/x", "{}"),
                );
            }
            _ => call("tools/call", r#"{"name":"x","_meta":{"progressToken":1}}"#),
        };
        let name = self.scenario.agent.ask(&mut self.scenario.harness, &connection, &received);
        self.agent_requests.push((name, connection));
    }

    fn cancel(&mut self) {
        let Some((name, connection)) = self.random.pick(&self.agent_requests).cloned() else {
            return;
        };
        self.scenario.agent.cancel(&mut self.scenario.harness, &connection, &name);
        self.abandoned.push(name);
    }

    fn disconnect(&mut self) {
        if self.connections.is_empty() {
            return;
        }
        let index = self.random.below(self.connections.len());
        let connection = self.connections.swap_remove(index);
        let disconnect_id = self.scenario.agent.disconnect(&mut self.scenario.harness, &connection);
        self.agent_requests.extend(disconnect_id.map(|name| (name, connection)));
    }

    fn provider_answers(&mut self) {
        let index = self.random.below(self.scenario.providers.len());
        let provider = &mut self.scenario.providers[index];
        let owed: Vec<ReceivedMessage> = provider.owed.values().cloned().collect();
        if let Some(received) = self.random.pick(&owed).cloned() {
            self.answer_as(index, &received);
        }
    }

    fn answer_as(&mut self, index: usize, received: &ReceivedMessage) {
        let lost = self.loses_answers
            && !self.servers_obey
            && self.may_be_lost(index, received)
            && self.random.one_in(3);
        if lost {
            return self.lose(index, received);
        }
        let from_exchange = received.id.as_ref().is_some_and(|id| id.starts_with("m:"));
        let provider = &mut self.scenario.providers[index];
        let outcome = match self.random.below(6) {
            0 | 1 if self.servers_obey => Outcome::Result(json(r#"{"content":[]}"#)),
            0 => Outcome::error(-32000, "the tool failed"),
            1 if provider.form == Form::M7 => Outcome::Result(json(
                r#"{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}}}"#,
            )),
            _ => Outcome::Result(json(r#"{"content":[]}"#)),
        };
        let refused = matches!(outcome, Outcome::Error(_)) && received.call.is("initialize");
        self.refused_initializes += usize::from(refused && from_exchange);
        provider.answer(&mut self.scenario.harness, received, outcome);
    }

    /// A server sends a notification or a request.
    fn provider_sends(&mut self) {
        let index = self.random.below(self.scenario.providers.len());
        let message = self.apply_cancellations(index);
        let provider = &mut self.scenario.providers[index];
        let Some(received) = self.random.pick(&message).cloned() else { return };
        let alive = received.connection_id.is_empty()
            || provider.open.contains_key(&received.connection_id);
        let harness = &mut self.scenario.harness;
        let progress = call("notifications/progress", r#"{"progressToken":1}"#);
        match self.random.below(3) {
            // A server may send requests only on a connection.
            0 if provider.form.has_connections() && alive => {
                let name = provider.ask(harness, &received, &call("roots/list", ""));
                if self.random.one_in(3) {
                    let cancel = format!(r#"~$/cancel_request {{"requestId":"{name}"}}"#);
                    let cancel =
                        cancel.trim_start_matches(if provider.name == "editor" { "~" } else { "" });
                    harness.send_line(&provider.name, cancel);
                }
            }
            _ if alive && provider.owed.contains_key(received.id.as_deref().unwrap_or("")) => {
                provider.note(harness, &received, &progress);
            }
            _ => {}
        }
    }

    fn agent_answers(&mut self) {
        if let Some(message) = self.scenario.agent.received.pop_front().filter(|it| it.id.is_some())
        {
            self.scenario.agent.answer(&mut self.scenario.harness, &message, r#"{"roots":[]}"#);
        }
    }

    /// Closes all sessions and connections, and checks the end state.
    fn finish(&mut self) {
        self.restart_all();
        for proxy in self.pass_through.clone() {
            self.scenario.harness.suspend(&proxy, false);
        }
        self.drain();
        self.check_clients();
        self.restore_open_sessions();
        for session in self.sessions.keys().cloned().collect::<Vec<_>>() {
            self.editor_requests("session/close", &format!(r#"{{"sessionId":"{session}"}}"#));
        }
        self.drain();
        for connection in std::mem::take(&mut self.connections) {
            let disconnect_id =
                self.scenario.agent.disconnect(&mut self.scenario.harness, &connection);
            self.agent_requests.extend(disconnect_id.map(|name| (name, connection)));
        }
        self.drain();
        self.check();
    }

    fn drain(&mut self) {
        self.scenario.harness.delay_shell(false);
        loop {
            let mut busy = self.scenario.settle();
            self.record_agent_state();
            while !self.pending.is_empty() {
                self.answer_set_up();
                busy = true;
            }
            for index in 0..self.scenario.providers.len() {
                self.apply_cancellations(index);
                for received in
                    self.scenario.providers[index].owed.values().cloned().collect::<Vec<_>>()
                {
                    self.answer_as(index, &received);
                    busy = true;
                }
            }
            while !self.scenario.agent.received.is_empty() {
                self.agent_answers();
                busy = true;
            }
            if !busy && !self.scenario.harness.skip_to_deadline() {
                break;
            }
        }
        self.scenario.harness.delay_shell(self.slow);
    }

    /// Servers with connections do not answer requests that were cancelled with
    /// `notifications/cancelled`. Returns the other messages.
    fn apply_cancellations(&mut self, index: usize) -> Vec<ReceivedMessage> {
        let provider = &mut self.scenario.providers[index];
        let (back, message): (Vec<ReceivedMessage>, Vec<ReceivedMessage>) = provider
            .received
            .drain(..)
            .partition(|received| received.call.is("notifications/cancelled"));
        for received in back {
            let id = received.call.params.and_then(|params| params.member("requestId"));
            let id = id.and_then(|id| id.text().map(|id| id.into_owned())).unwrap_or_default();
            let inner = |received: &ReceivedMessage| {
                received.inner.as_ref().is_some_and(|it| token(it) == id)
            };
            provider.owed.retain(|name, received| *name != id && !inner(received));
        }
        message
    }
}

/// The name of the editor's request that has led to this set-up request.
fn origin_of(call: &acp_wire::Call) -> String {
    let origin = call.params.as_ref().and_then(|params| params.member("cwd"));
    origin.and_then(|it| it.text().map(|it| it.into_owned())).unwrap_or_default()
}
