//! Ids of requests that are made in the name of a peer. They share the peer's own ids, so they hold a
//! word that no peer can guess.

use acp_wire::Id;

#[derive(Debug, Clone, Default)]
pub(crate) struct RequestIds {
    secret: String,
    last: u64,
}

/// What the requests are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// An MCP client of the bridge says something, in the agent's name.
    Client,
    /// A stateless server wants to know something of its client, in its provider's name.
    Input,
}

impl RequestIds {
    /// `word`: one that no peer can guess.
    pub fn new(secret: &str) -> RequestIds {
        RequestIds { secret: secret.to_owned(), last: 0 }
    }

    /// A number that was not used before.
    pub fn next_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn prefix(&self, purpose: Purpose) -> String {
        let purpose = match purpose {
            Purpose::Client => "mcp",
            Purpose::Input => "mcp-input",
        };
        format!("conductor/{purpose}:{}:", self.secret)
    }

    pub fn id(&self, purpose: Purpose, number: u64) -> Id {
        Id::string(&format!("{}{number}", self.prefix(purpose)))
    }

    pub fn number(&self, purpose: Purpose, id: &Id) -> Option<u64> {
        id.text()?.strip_prefix("conductor/")?;
        id.text()?.strip_prefix(&*self.prefix(purpose))?.parse().ok()
    }
}
