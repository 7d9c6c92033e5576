//! Places where MCP clients can connect. The exchange asks for one with [`Step::Admit`]; the shell opens it
//! and reports it to [`Exchange::admitted`].
//!
//! [`Step::Admit`]: crate::Step::Admit
//! [`Exchange::admitted`]: crate::Exchange::admitted

/// Names one declaration that was given to an agent: a server, for one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// Names one MCP client that has called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Caller(pub u64);

/// How an agent without MCP over ACP reaches us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It starts `conductor mcp PORT`.
    Stdio,
    /// Streamable HTTP.
    Http,
}

impl Kind {
    pub fn other(self) -> Kind {
        match self {
            Kind::Stdio => Kind::Http,
            Kind::Http => Kind::Stdio,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Kind::Stdio => "stdio",
            Kind::Http => "http",
        }
    }
}

/// How to declare a place to an agent. No derived `Debug`: it holds a secret.
#[derive(Clone, PartialEq, Eq)]
pub enum Place {
    Stdio { program: String, port: u16, variable: String, secret: String },
    Http { url: String, secret: String },
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Place::Stdio { .. } => "Place::Stdio",
            Place::Http { .. } => "Place::Http",
        })
    }
}
