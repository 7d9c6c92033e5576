//! Ids of requests that the broker sends on behalf of a peer. They share the id space of the peer,
//! so each id contains a random secret that no peer can guess.

use acp_wire::Id;

/// Hands out ids and numbers, and recognizes its own ids.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestIds {
    secret: String,
    last: u64,
}

/// Why the broker sends a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A message of an MCP client, sent on behalf of the agent.
    Client,
    /// An input request of a stateless server, sent to the consumer on behalf of the provider.
    Input,
}

impl RequestIds {
    /// Creates a generator of ids. `secret` is a random word that no peer can guess.
    pub(crate) fn new(secret: &str) -> RequestIds {
        RequestIds { secret: secret.to_owned(), last: 0 }
    }

    /// Returns a number that was not used before.
    pub(crate) fn next_number(&mut self) -> u64 {
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

    /// The id with this number.
    pub(crate) fn id(&self, purpose: Purpose, number: u64) -> Id {
        Id::string(&format!("{}{number}", self.prefix(purpose)))
    }

    /// The number of an id that [`id`](RequestIds::id) has returned. `None` for the id of a peer.
    pub(crate) fn number(&self, purpose: Purpose, id: &Id) -> Option<u64> {
        id.text()?.strip_prefix("conductor/")?;
        id.text()?.strip_prefix(&*self.prefix(purpose))?.parse().ok()
    }
}
