//! Endpoints where MCP clients can connect. The broker requests one with [`Action::OpenEndpoint`]. The
//! shell opens it and answers with [`Broker::endpoint_opened`].
//!
//! [`Action::OpenEndpoint`]: crate::Action::OpenEndpoint
//! [`Broker::endpoint_opened`]: crate::Broker::endpoint_opened

/// Identifies one declaration that an agent received: one server, for one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// Identifies one MCP client that has connected to an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientId(pub u64);

/// The MCP transport over which an agent without MCP over ACP connects to an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// The agent starts `conductor mcp PORT` and uses its standard input and output.
    Stdio,
    /// Streamable HTTP.
    Http,
}

impl Transport {
    /// The transport to try if this one does not work.
    pub fn other(self) -> Transport {
        match self {
            Transport::Stdio => Transport::Http,
            Transport::Http => Transport::Stdio,
        }
    }

    /// The name of the transport in messages to users.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Stdio => "stdio",
            Transport::Http => "http",
        }
    }
}

/// An open endpoint, as it is declared to an agent. It has no derived `Debug`, because it holds a
/// secret.
#[derive(Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// A program that the agent starts: `program mcp PORT`, with the secret in an environment variable.
    Stdio {
        /// The path of the program.
        program: String,
        /// The local TCP port to which the program connects.
        port: u16,
        /// The name of the environment variable that holds the secret.
        variable: String,
        /// The secret that authenticates the program.
        secret: String,
    },
    /// A URL, with the secret as a bearer token.
    Http {
        /// The URL of the endpoint.
        url: String,
        /// The secret that authenticates the client.
        secret: String,
    },
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Endpoint::Stdio { .. } => "Endpoint::Stdio",
            Endpoint::Http { .. } => "Endpoint::Http",
        })
    }
}
