//! Which kind of place an agent is given that does not speak MCP over ACP: what it says, what is known of it,
//! and what it has turned out to do.

use acp_wire::{Outcome, code};

use super::BridgePolicy;
use crate::capability::{AgentCapabilities, NativeSupport};
use crate::endpoint::Transport;

/// Agents that do not do what they say, and what works with them.
const KNOWN_AGENTS: [(&str, Transport); 2] =
    [("openhands", Transport::Stdio), ("copilot", Transport::Http)];

#[derive(Debug)]
pub(super) struct AgentProfile {
    policy: BridgePolicy,
    /// How the agent is called in a sentence, and by which names it may be known.
    agent: String,
    command: String,
    capabilities: Option<AgentCapabilities>,
    /// The kind that turned out to work, or is to be tried, in place of the first choice.
    fallback: Option<Transport>,
    /// The kind over which the agent has called: whatever it does later, it can.
    working: Option<Transport>,
}

impl AgentProfile {
    pub fn new(policy: BridgePolicy, agent: String, command: &str) -> AgentProfile {
        let command = command.to_lowercase();
        AgentProfile { policy, agent, command, capabilities: None, fallback: None, working: None }
    }

    /// How the agent is called in a sentence.
    pub fn name(&self) -> &str {
        &self.agent
    }

    /// The agent has said what it can do.
    pub fn set_capabilities(&mut self, capabilities: AgentCapabilities) {
        self.capabilities = Some(capabilities);
    }

    /// How the agent speaks MCP over ACP itself, if it does.
    pub fn native(&self) -> Option<NativeSupport> {
        self.capabilities.as_ref()?.native
    }

    pub fn takes_scp(&self) -> bool {
        self.capabilities.as_ref().is_some_and(|it| it.scp)
    }

    pub fn is_v2(&self) -> bool {
        self.capabilities.as_ref().is_some_and(|it| it.v2)
    }

    /// Whether another kind is tried if one does not work.
    pub fn may_change(&self) -> bool {
        self.policy == BridgePolicy::Auto
    }

    /// A set-up request that was tried with another kind went well.
    pub fn set_fallback(&mut self, transport: Option<Transport>) {
        self.fallback = transport;
    }

    /// The agent has called over this kind.
    pub fn set_working(&mut self, transport: Transport) {
        self.working = Some(transport);
    }

    /// The agent has not called in a session with this kind. Gives the kind that is tried in the next one.
    pub fn on_never_connected(&mut self, transport: Transport) -> Option<Transport> {
        if self.working == Some(transport) || self.fallback.is_some() {
            return None;
        }
        self.fallback = self.alternative(transport);
        self.fallback
    }

    /// The kind of declaration that this agent is given.
    pub fn choose(&self) -> Result<Transport, Outcome> {
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
                    "{} takes MCP servers neither over ACP nor over HTTP nor over stdio; leave them \
                     out, or force one with --mcp-bridge",
                    self.agent
                );
                Err(Outcome::error(code::INVALID_PARAMS, &why))
            }
        }
    }

    fn known_transport(&self) -> Option<Transport> {
        let says = self.capabilities.as_ref().map_or("", |capabilities| &capabilities.name);
        let known = KNOWN_AGENTS
            .iter()
            .find(|(name, _)| says.contains(name) || self.command.contains(name));
        known.map(|(_, transport)| *transport)
    }

    /// Another way to declare servers to an agent that could not do with the first.
    pub fn alternative(&self, transport: Transport) -> Option<Transport> {
        let other = transport.other();
        // Only what the agent has offered; every agent of v1 has stdio.
        let offered = self.capabilities.as_ref().is_some_and(|it| match other {
            Transport::Http => it.http,
            Transport::Stdio => it.stdio,
        });
        (self.policy == BridgePolicy::Auto && self.known_transport().is_none() && offered)
            .then_some(other)
    }
}
