//! Checks at the end of a run.

use mcp::ClientId;

use super::Simulation;
use crate::participants::*;

impl Simulation {
    /// Connected clients have an answer to every request that they have not cancelled.
    pub(super) fn check_clients(&mut self) {
        let here = |client_id: ClientId| {
            let on_line = |it: &ServerConnection| matches!(it, ServerConnection::Client(it) if *it == client_id);
            self.connections.iter().any(on_line)
                && !self.scenario.harness.disconnected.contains(&client_id)
        };
        for (name, connection) in &self.agent_requests {
            let waits = matches!(connection, ServerConnection::Client(it) if here(*it));
            let answered = self.scenario.agent.outcomes.contains_key(name);
            if waits && !answered && !self.abandoned.contains(name) {
                self.scenario.harness.fail(&format!("a client has no answer to {name}"));
            }
        }
    }

    pub(super) fn check(&mut self) {
        let scenario = &mut self.scenario;
        for (name, connection) in &self.agent_requests {
            let answered = scenario.agent.outcomes.contains_key(name);
            if !answered && matches!(connection, ServerConnection::Native { .. }) {
                scenario.harness.fail(&format!("{name} was never answered"));
            }
        }
        assert!(self.connecting.is_empty(), "{:?}", self.connecting);
        for provider in &scenario.providers {
            for (name, answer) in &provider.client_requests {
                if answer.is_none() {
                    scenario.harness.fail(&format!("{} has no answer to {name}", provider.name));
                }
            }
            if !provider.open.is_empty() {
                scenario.harness.fail(&format!(
                    "{} still has open connections: {:?}",
                    provider.name, provider.open
                ));
            }
            assert!(provider.owed.is_empty());
        }
        for name in &self.editor_request_names {
            assert!(
                scenario.editor().answers.contains_key(name),
                "the editor has no answer to {name}"
            );
        }
        let misdelivered = scenario.editor().misdelivered.clone();
        if !misdelivered.is_empty() {
            scenario
                .harness
                .fail(&format!("the editor received messages for other servers: {misdelivered:?}"));
        }
        let closed_by_provider = &scenario.agent.closed_by_provider;
        if !self.may_crash && closed_by_provider.len() > self.refused_initializes {
            scenario.harness.fail(&format!(
                "these connections of the agent were closed: {closed_by_provider:?}"
            ));
        }
        scenario.harness.expect_nothing_more();
        scenario.harness.expect_all_closed();
    }
}
