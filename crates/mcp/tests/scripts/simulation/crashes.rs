//! Components that crash at any time, and are restarted or bypassed.

use acp_wire::Outcome;
use mcp::form::Form;

use super::Simulation;
use crate::harness::*;
use crate::participants::*;

/// The server that a connection leads to.
#[derive(Debug)]
struct Found {
    name: String,
    /// The index of the server at its provider.
    place: usize,
    /// The server has accepted an `initialize` of the current agent process.
    initialized: bool,
}

impl Simulation {
    /// The live components that may crash: all except the editor.
    fn crashable(&self) -> Vec<String> {
        let providers = self.scenario.providers.iter().map(|it| &it.name);
        let proxies = providers.filter(|it| *it != "editor").chain(&self.pass_through);
        let here = proxies.filter(|it| !self.down.contains(it) && !self.bypassed.contains(it));
        let mut here: Vec<String> = here.cloned().collect();
        here.extend(self.is_agent_up().then(|| "agent".to_owned()));
        here
    }

    pub(super) fn is_agent_up(&self) -> bool {
        !self.down.iter().any(|it| it == "agent")
    }

    pub(super) fn crash_someone(&mut self) {
        let crashable = self.crashable();
        let Some(participant) = self.random.pick(&crashable).cloned() else { return };
        self.crashes += 1;
        self.scenario.harness.crash(&participant);
        if participant == "agent" {
            self.scenario.agent.reset();
            self.pending.clear();
            self.connecting.clear();
            self.connections.clear();
            self.agent_requests.clear();
        } else {
            self.restart_provider(&participant, false);
        }
        self.note_down(participant);
    }

    /// Records whether a crashed component is down or bypassed.
    fn note_down(&mut self, participant: String) {
        if !self.scenario.harness.is_bypassed(&participant) {
            return self.down.push(participant);
        }
        if let Some(provider) = self.scenario.providers.iter_mut().find(|it| it.name == participant)
        {
            provider.reset(&[]);
        }
        self.bypassed.push(participant);
    }

    /// Changes a restarted provider: its servers have other ids, and some may be missing. Sometimes
    /// it uses another form.
    fn restart_provider(&mut self, participant: &str, faithful: bool) {
        self.last += 1;
        let incarnation = self.last;
        let Some(index) = self.scenario.providers.iter().position(|it| it.name == participant)
        else {
            return;
        };
        let provider = &self.scenario.providers[index];
        let form = provider.form;
        let mut servers = provider.servers.clone();
        if !faithful && self.random.one_in(5) {
            servers.pop();
        }
        let scp = form == Form::M0;
        for (_, id) in servers.iter_mut().filter(|_| !scp) {
            if !self.random.one_in(4) {
                let bare = id.split('@').next().unwrap_or_default();
                *id = format!("{bare}@{incarnation}");
            }
        }
        let alike: Vec<Form> =
            FORMS.into_iter().filter(|it| generation_of(*it) == generation_of(form)).collect();
        let next = if self.random.one_in(4) { self.random.pick(&alike).copied() } else { None };
        let servers: Vec<(&str, &str)> =
            servers.iter().map(|(name, id)| (name.as_str(), id.as_str())).collect();
        let provider = &mut self.scenario.providers[index];
        provider.reset(&servers);
        provider.form = next.unwrap_or(form);
    }

    /// Restarts a crashed component, or lets it crash again.
    pub(super) fn restart_someone(&mut self) {
        if self.down.is_empty() {
            return;
        }
        let index = self.random.below(self.down.len());
        let participant = self.down.remove(index);
        match self.random.one_in(5) {
            // The component may be bypassed by now, because its handshake has timed out.
            _ if self.scenario.harness.is_bypassed(&participant) => self.note_down(participant),
            true => self.crashes_again(participant),
            false => self.restart_component(&participant),
        }
    }

    fn crashes_again(&mut self, participant: String) {
        match (participant.as_str(), self.random.below(2)) {
            ("agent", _) => self
                .scenario
                .harness
                .restart_handshake("agent", Agent::initialize_result(self.scenario.agent.form)),
            (_, 0) => self.scenario.harness.restart_handshake(&participant, STDIO),
            _ => self.scenario.replay_sessions(&participant),
        }
        self.scenario.harness.crash(&participant);
        self.restart_provider(&participant, true);
        self.note_down(participant);
    }

    fn restart_component(&mut self, participant: &str) {
        if participant == "agent" {
            self.scenario.harness.delay_shell(false);
            for (session, entries) in self.scenario.finish_agent_restart() {
                self.sessions.insert(session, entries);
            }
            self.scenario.harness.delay_shell(self.slow);
        } else {
            self.scenario.replay_sessions(participant);
            self.scenario.harness.assert_restarted(participant);
        }
    }

    pub(super) fn restart_all(&mut self) {
        for participant in std::mem::take(&mut self.down) {
            match self.scenario.harness.is_bypassed(&participant) {
                true => self.note_down(participant),
                false => self.restart_component(&participant),
            }
        }
    }

    /// A session stays open if its close request has failed in a crash.
    pub(super) fn restore_open_sessions(&mut self) {
        for (name, session) in std::mem::take(&mut self.closing) {
            if matches!(self.scenario.editor().answers.get(&name), Some(Outcome::Error(_))) {
                self.sessions.entry(session).or_default();
            }
        }
    }

    /// Restarts a provider while the chain is idle. Every consumer that could use its servers
    /// before can still use them, under their new ids.
    pub(super) fn restart_when_idle(&mut self) {
        self.restart_all();
        for proxy in self.pass_through.clone() {
            self.scenario.harness.suspend(&proxy, false);
        }
        self.servers_obey = true;
        self.drain();
        let mut here = self.crashable();
        here.retain(|it| it != "agent" && !self.once.contains(it));
        let Some(participant) = self.random.pick(&here).cloned() else { return };
        let mut good = Vec::new();
        let connections: Vec<ServerConnection> =
            self.connections.iter().filter(|it| self.is_of_a_session(it)).cloned().collect();
        for connection in connections {
            good.extend(self.probe(&connection).map(|found| (connection, found)));
        }
        self.crashes += 1;
        self.scenario.harness.crash(&participant);
        self.restart_provider(&participant, true);
        self.restart_component(&participant);
        self.drain();
        for (connection, before) in good {
            let after = self.probe(&connection);
            let form = self.scenario.provider(&before.name).form;
            // Without connections, the server may have been initialized through another connection
            // that is closed since.
            let on_another = !form.has_connections()
                && !self.initialized_on.contains(&format!("{connection:?}"));
            let abandoned =
                form == Form::M7 || on_another || !before.initialized || self.lost_initialize;
            let same = |after: &Found| {
                (&after.name, after.place) == (&before.name, before.place)
                    && (after.initialized || abandoned)
            };
            if !after.as_ref().is_some_and(same) {
                let why = format!(
                    "{connection:?} led to {before:?} before the restart, and to {after:?} afterwards"
                );
                self.scenario.harness.fail(&why);
            }
        }
        self.servers_obey = false;
    }

    /// Whether a connection leads to a server of an open session. (Clients of other sessions are
    /// disconnected.)
    fn is_of_a_session(&self, connection: &ServerConnection) -> bool {
        let (ServerConnection::Native { server, .. }, Some(form)) =
            (connection, self.scenario.agent.form)
        else {
            return true;
        };
        let sessions = self
            .sessions
            .iter()
            .filter(|(name, _)| self.is_unaffected_by_crashes(&self.origins[*name]));
        let mut entries = sessions.flat_map(|(_, entries)| entries);
        entries.any(|entry| server_id_in(form, entry) == *server)
    }

    /// Finds the server that receives the requests of a connection.
    fn probe(&mut self, connection: &ServerConnection) -> Option<Found> {
        self.last += 1;
        let mark = format!(r#"{{"name":"probe-{}"}}"#, self.last);
        let name = self.scenario.agent.ask(
            &mut self.scenario.harness,
            connection,
            &call("tools/call", &mark),
        );
        self.agent_requests.push((name.clone(), connection.clone()));
        let mark = mark.trim_matches(['{', '}']);
        let mut found = None;
        let mut busy = true;
        while std::mem::take(&mut busy) {
            self.scenario.settle();
            for index in 0..self.scenario.providers.len() {
                let owed: Vec<ReceivedMessage> =
                    self.scenario.providers[index].owed.values().cloned().collect();
                for received in owed {
                    busy = true;
                    let params = received.call.params.as_ref();
                    if params.is_some_and(|it| it.as_str().contains(mark)) {
                        let provider = &self.scenario.providers[index];
                        let initialized = provider.is_initialized(&received, &self.scenario.agent);
                        found = provider.find_server(&received).map(|(participant, place)| Found {
                            name: participant,
                            place,
                            initialized,
                        });
                    }
                    self.answer_as(index, &received);
                }
            }
        }
        self.drain();
        let answered = matches!(self.scenario.agent.outcomes.get(&name), Some(Outcome::Result(_)));
        found.filter(|_| answered)
    }
}
