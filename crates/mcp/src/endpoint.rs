//! Places where MCP clients can connect. The exchange asks for one with [`Step::OpenEndpoint`]; the shell opens it
//! and reports it to [`Broker::admitted`].
//!
//! [`Step::OpenEndpoint`]: crate::Step::Admit
//! [`Broker::admitted`]: crate::Exchange::admitted

/// Names one declaration that was given to an agent: a server, for one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// Names one MCP client that has called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientId(pub u64);

/// How an agent without MCP over ACP reaches us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// It starts `conductor mcp PORT`.
    Stdio,
    /// Streamable HTTP.
    Http,
}

impl Transport {
    pub fn other(self) -> Transport {
        match self {
            Transport::Stdio => Transport::Http,
            Transport::Http => Transport::Stdio,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Transport::Stdio => "stdio",
            Transport::Http => "http",
        }
    }
}

/// How to declare a place to an agent. No derived `Debug`: it holds a secret.
#[derive(Clone, PartialEq, Eq)]
pub enum Endpoint {
    Stdio { program: String, port: u16, variable: String, secret: String },
    Http { url: String, secret: String },
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Endpoint::Stdio { .. } => "Place::Stdio",
            Endpoint::Http { .. } => "Place::Http",
        })
    }
}
