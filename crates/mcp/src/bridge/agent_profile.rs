//! What is known about an agent, and which transport its MCP clients use: what the agent declares,
//! what is known about the product, and what has worked so far.

use acp_wire::{Outcome, code};

use super::BridgePolicy;
use crate::capability::{AgentCapabilities, NativeSupport};
use crate::endpoint::Transport;

/// Agents that do not behave as they declare, and the transport that works with them.
const KNOWN_AGENTS: [(&str, Transport); 2] =
    [("openhands", Transport::Stdio), ("copilot", Transport::Http)];

/// What is known about the agent.
#[derive(Debug)]
pub(super) struct AgentProfile {
    policy: BridgePolicy,
    /// The name of the agent in messages to users.
    agent: String,
    /// The command that starts the agent, in lower case.
    command: String,
    capabilities: Option<AgentCapabilities>,
    /// The transport to use instead of the first choice, because that did not work.
    fallback: Option<Transport>,
    /// The transport over which the agent has connected before.
    working: Option<Transport>,
}

impl AgentProfile {
    pub(super) fn new(policy: BridgePolicy, agent: String, command: &str) -> AgentProfile {
        let command = command.to_lowercase();
        AgentProfile { policy, agent, command, capabilities: None, fallback: None, working: None }
    }

    /// The name of the agent in messages to users.
    pub(super) fn name(&self) -> &str {
        &self.agent
    }

    /// Records the capabilities of the agent.
    pub(super) fn set_capabilities(&mut self, capabilities: AgentCapabilities) {
        self.capabilities = Some(capabilities);
    }

    /// How the agent supports MCP over ACP, if it does.
    pub(super) fn native(&self) -> Option<NativeSupport> {
        self.capabilities.as_ref()?.native
    }

    /// Whether the agent accepts SCP servers.
    pub(super) fn accepts_scp(&self) -> bool {
        self.capabilities.as_ref().is_some_and(|it| it.scp)
    }

    /// Whether the agent uses ACP v2.
    pub(super) fn is_v2(&self) -> bool {
        self.capabilities.as_ref().is_some_and(|it| it.v2)
    }

    /// Whether another transport may be tried if one does not work.
    pub(super) fn may_change(&self) -> bool {
        self.policy == BridgePolicy::Auto
    }

    /// Sets the transport of later sessions, after the agent has refused the first choice and accepted
    /// this one.
    pub(super) fn set_fallback(&mut self, transport: Option<Transport>) {
        self.fallback = transport;
    }

    /// Records that the agent has connected over this transport.
    pub(super) fn set_working(&mut self, transport: Transport) {
        self.working = Some(transport);
    }

    /// The agent has not connected in a session with this transport. Returns the transport to try
    /// in the next session.
    pub(super) fn on_never_connected(&mut self, transport: Transport) -> Option<Transport> {
        if self.working == Some(transport) || self.fallback.is_some() {
            return None;
        }
        self.fallback = self.alternative(transport);
        self.fallback
    }

    /// The transport for the MCP clients of this agent.
    pub(super) fn choose(&self) -> Result<Transport, Outcome> {
        let transport = match self.policy {
            BridgePolicy::Only(transport) => return Ok(transport),
            BridgePolicy::Auto => self.known_transport().or(self.fallback),
        };
        let (http, stdio) = self
            .capabilities
            .as_ref()
            .map_or((false, true), |capabilities| (capabilities.http, capabilities.stdio));
        match transport {
            Some(transport) => Ok(transport),
            None if http => Ok(Transport::Http),
            None if stdio => Ok(Transport::Stdio),
            None => {
                let why = format!(
                    "{} accepts MCP servers neither over ACP nor over HTTP nor over stdio; remove \
                     them, or force a transport with --mcp-bridge",
                    self.agent
                );
                Err(Outcome::error(code::INVALID_PARAMS, &why))
            }
        }
    }

    /// The transport of a known agent.
    fn known_transport(&self) -> Option<Transport> {
        let declared_name =
            self.capabilities.as_ref().map_or("", |capabilities| &capabilities.name);
        let known = KNOWN_AGENTS
            .iter()
            .find(|(name, _)| declared_name.contains(name) || self.command.contains(name));
        known.map(|(_, transport)| *transport)
    }

    /// The transport to try after one has failed. `None` if the policy, or what is known about the
    /// agent, excludes another one.
    pub(super) fn alternative(&self, transport: Transport) -> Option<Transport> {
        let other = transport.other();
        // Only a transport that the agent accepts is tried.
        let offered = self.capabilities.as_ref().is_some_and(|it| match other {
            Transport::Http => it.http,
            Transport::Stdio => it.stdio,
        });
        (self.policy == BridgePolicy::Auto && self.known_transport().is_none() && offered)
            .then_some(other)
    }
}
