//! Which kind of place an agent is given that does not speak MCP over ACP: what it says, what is known of it,
//! and what it has turned out to do.

use acp_wire::{Outcome, code};

use super::BridgePolicy;
use crate::capability::{Abilities, Native};
use crate::endpoint::Transport;

/// Agents that do not do what they say, and what works with them.
const HABITS: [(&str, Transport); 2] =
    [("openhands", Transport::Stdio), ("copilot", Transport::Http)];

#[derive(Debug)]
pub(super) struct AgentProfile {
    policy: BridgePolicy,
    /// How the agent is called in a sentence, and by which names it may be known.
    agent: String,
    known_as: String,
    abilities: Option<Abilities>,
    /// The kind that turned out to work, or is to be tried, in place of the first choice.
    turned: Option<Transport>,
    /// The kind over which the agent has called: whatever it does later, it can.
    proven: Option<Transport>,
}

impl AgentProfile {
    pub fn new(policy: BridgePolicy, agent: String, known_as: &str) -> AgentProfile {
        let known_as = known_as.to_lowercase();
        AgentProfile { policy, agent, known_as, abilities: None, turned: None, proven: None }
    }

    /// How the agent is called in a sentence.
    pub fn name(&self) -> &str {
        &self.agent
    }

    /// The agent has said what it can do.
    pub fn introduced(&mut self, abilities: Abilities) {
        self.abilities = Some(abilities);
    }

    /// How the agent speaks MCP over ACP itself, if it does.
    pub fn native(&self) -> Option<Native> {
        self.abilities.as_ref()?.native
    }

    pub fn takes_scp(&self) -> bool {
        self.abilities.as_ref().is_some_and(|it| it.scp)
    }

    pub fn is_v2(&self) -> bool {
        self.abilities.as_ref().is_some_and(|it| it.v2)
    }

    /// Whether another kind is tried if one does not work.
    pub fn may_change(&self) -> bool {
        self.policy == BridgePolicy::Auto
    }

    /// A set-up request that was tried with another kind went well.
    pub fn works(&mut self, kind: Option<Transport>) {
        self.turned = kind;
    }

    /// The agent has called over this kind.
    pub fn called(&mut self, kind: Transport) {
        self.proven = Some(kind);
    }

    /// The agent has not called in a session with this kind. Gives the kind that is tried in the next one.
    pub fn not_called(&mut self, kind: Transport) -> Option<Transport> {
        if self.proven == Some(kind) || self.turned.is_some() {
            return None;
        }
        self.turned = self.alternative(kind);
        self.turned
    }

    /// The kind of declaration that this agent is given.
    pub fn choose(&self) -> Result<Transport, Outcome> {
        let kind = match self.policy {
            BridgePolicy::Only(kind) => return Ok(kind),
            BridgePolicy::Auto => self.habit().or(self.turned),
        };
        let (http, stdio) = self
            .abilities
            .as_ref()
            .map_or((false, true), |abilities| (abilities.http, abilities.stdio));
        match kind {
            Some(kind) => Ok(kind),
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

    fn habit(&self) -> Option<Transport> {
        let says = self.abilities.as_ref().map_or("", |abilities| &abilities.name);
        let known =
            HABITS.iter().find(|(name, _)| says.contains(name) || self.known_as.contains(name));
        known.map(|(_, kind)| *kind)
    }

    /// Another way to declare servers to an agent that could not do with the first.
    pub fn alternative(&self, kind: Transport) -> Option<Transport> {
        let other = kind.other();
        // Only what the agent has offered; every agent of v1 has stdio.
        let offered = self.abilities.as_ref().is_some_and(|it| match other {
            Transport::Http => it.http,
            Transport::Stdio => it.stdio,
        });
        (self.policy == BridgePolicy::Auto && self.habit().is_none() && offered).then_some(other)
    }
}
