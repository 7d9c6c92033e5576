//! `conductor status`: shows the state of the running conductors.
//!
//! Each running chain listens on a socket that only its user can open. It sends one line of JSON, a
//! [`Status`], to every client and reads nothing from it. The main loop takes the snapshot. A separate task
//! writes it, so a slow client cannot delay messages.
//!
//! # Layout
//! - here: the snapshot as JSON
//! - `snapshot`: creates the snapshot of a chain
//! - `socket`: the path of the sockets, and who can open them
//! - `server`: the socket of a chain; `client`: queries the sockets; `unsupported`: both for systems without
//!   Unix sockets
//! - [`table`]: formats snapshots as text

#[cfg(unix)]
mod client;
#[cfg(unix)]
mod server;
mod snapshot;
#[cfg(unix)]
pub(crate) mod socket;
pub mod table;
#[cfg(not(unix))]
mod unsupported;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

#[cfg(unix)]
pub use client::query;
#[cfg(unix)]
pub(crate) use server::StatusServer;
#[cfg(not(unix))]
pub(crate) use unsupported::StatusServer;
#[cfg(not(unix))]
pub use unsupported::query;

/// The version of [`Status`] as JSON. It changes if a field is removed or changes its meaning, not if one
/// is added.
pub const VERSION: u32 = 1;

/// The time that a conductor has to answer.
pub const TIMEOUT: Duration = Duration::from_secs(5);

/// A snapshot of a running chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// [`VERSION`].
    pub version: u32,
    /// The process id of the conductor.
    pub pid: u32,
    /// The version of the program.
    pub conductor_version: String,
    /// Whether the chain ends with an agent or is itself a proxy.
    pub mode: Mode,
    /// The working directory of the conductor.
    pub cwd: String,
    /// The time since the conductor was started.
    pub uptime_seconds: f64,
    /// The lifecycle state of the chain.
    pub state: ChainState,
    /// The number of unanswered requests in the chain.
    pub open_requests: usize,
    /// The number of open sessions, as far as the conductor knows.
    pub sessions: usize,
    /// The components, starting at the editor.
    pub components: Vec<Component>,
    /// The connection to the editor.
    pub editor: Editor,
    /// The MCP servers and clients of the chain.
    pub mcp: Mcp,
}

/// The kind of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// The chain ends with an agent.
    Agent,
    /// The chain is a proxy of an outer conductor.
    Proxy,
}

/// The lifecycle state of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ChainState {
    /// The handshake is not complete.
    Starting,
    /// The handshake of all components is complete.
    Running,
    /// The chain waits for the last answers, and for its components to exit.
    Ending,
}

/// A snapshot of one component. After a restart it describes the new process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Component {
    /// The position in the chain, starting at 1.
    pub number: usize,
    /// The name of the component.
    pub name: String,
    /// The command line, without the environment.
    pub command: String,
    /// Proxy or agent.
    pub role: Role,
    /// The proxy protocol generation; `plain` for an agent.
    pub dialect: String,
    /// Whether messages must not bypass it.
    pub guard: bool,
    /// What happens if it fails, as in `--on-crash`.
    pub policy: String,
    /// The lifecycle state of the component.
    pub state: ComponentState,
    /// The process id. A component that runs inside the conductor has none.
    pub pid: Option<u32>,
    /// The number of restarts.
    pub restarts: u32,
    /// The next start, if the component has failed and waits for its restart.
    #[serde(default)]
    pub next_start: Option<NextStart>,
    /// The time since the last start.
    pub uptime_seconds: Option<f64>,
    /// How the previous process ended, as the end of a sentence that begins with the name of the component.
    pub last_exit: Option<String>,
    /// The last lines that the previous process wrote on standard error.
    pub exit_words: Vec<String>,
    /// The last lines on standard error, at most twenty.
    pub last_words: Vec<String>,
    /// How the component describes its state. Only built-in components that run inside the conductor do.
    #[serde(default)]
    pub report: Vec<String>,
    /// Messages and requests that are pending at the component.
    pub queue: Queue,
}

/// The next start of a component that has failed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NextStart {
    /// The number of the restart attempt. It resets after a minute of uptime. It is 0 if the restart was requested and
    /// the component has not failed.
    pub attempt: u32,
    /// The time until the start.
    pub in_seconds: f64,
}

/// The role of a component in the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// A proxy.
    Proxy,
    /// The agent at the end of the chain.
    Agent,
}

/// The lifecycle state of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ComponentState {
    /// It has not been sent `initialize` yet.
    Waiting,
    /// It has been sent `initialize` and has not answered.
    Greeting,
    /// It has completed the handshake.
    Live,
    /// It has exited and is being restarted.
    Restarting,
    /// It has exited, and the chain continues without it.
    Bypassed,
    /// It has exited and is not replaced.
    Lost,
    /// It has exited because the chain is shutting down.
    Ended,
}

/// The messages and requests that are pending at a component.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Queue {
    /// Bytes that the component has not read yet.
    pub out_bytes: usize,
    /// Messages that are held until the component is restarted.
    pub held_messages: usize,
    /// The size of the held messages.
    pub held_bytes: usize,
    /// Requests that the component has not answered yet.
    pub owes: usize,
}

/// The connection to the editor, or to the outer conductor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Editor {
    /// Bytes that the editor has not read yet.
    pub out_bytes: usize,
    /// Whether reading from the editor is paused because a component is slow to read.
    pub paused: bool,
}

/// The MCP-over-ACP servers of a chain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mcp {
    /// The number of servers.
    pub servers: usize,
    /// The number of connected MCP clients.
    pub clients: usize,
}

/// The result of querying the running conductors.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct QueryResult {
    /// The conductors that answered, by process id.
    pub running: Vec<Status>,
    /// The conductors that did not answer, by process id.
    pub unresponsive: Vec<Unresponsive>,
    /// An error message for each directory that could not be searched.
    pub unreadable: Vec<String>,
}

/// A conductor that did not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unresponsive {
    /// Its process id.
    pub pid: u32,
    /// The reason, as the end of a sentence that begins with the conductor.
    pub why: String,
}

impl fmt::Display for Unresponsive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "conductor {} {}", self.pid, self.why)
    }
}

impl QueryResult {
    /// A line for each directory that could not be searched and for each conductor that did not answer.
    pub fn problems(&self) -> Vec<String> {
        let unresponsive = self.unresponsive.iter().map(Unresponsive::to_string);
        let lines = self.unreadable.iter().cloned().chain(unresponsive);
        lines.map(|line| acp_wire::printable::one_line(&line)).collect()
    }

    /// The error message if the conductor with this process id was queried and did not answer.
    pub fn no_answer(&self, pid: u32) -> Option<String> {
        if !self.running.is_empty() {
            return None;
        }
        if !self.unresponsive.is_empty() {
            let lines: Vec<String> = self.unresponsive.iter().map(ToString::to_string).collect();
            return Some(lines.join("; "));
        }
        let text = format!(
            "no conductor with process id {pid} is running, or it was started with --status off; \
             `conductor status` lists the running conductors"
        );
        Some([&[text], &*self.unreadable].concat().join("; "))
    }

    /// Whether the table has changed since an earlier query. Times pass without a change.
    pub fn differs_from(&self, earlier: &QueryResult) -> bool {
        self.without_times() != earlier.without_times()
    }

    fn without_times(&self) -> QueryResult {
        let mut copy = self.clone();
        for status in &mut copy.running {
            status.uptime_seconds = 0.0;
            for component in &mut status.components {
                component.uptime_seconds = component.uptime_seconds.map(|_| 0.0);
                if let Some(next) = &mut component.next_start {
                    next.in_seconds = 0.0;
                }
            }
        }
        copy
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Agent => "agent",
            Mode::Proxy => "proxy",
        })
    }
}

impl fmt::Display for ChainState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ChainState::Starting => "starting",
            ChainState::Running => "running",
            ChainState::Ending => "ending",
        })
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Proxy => "proxy",
            Role::Agent => "agent",
        })
    }
}

impl fmt::Display for ComponentState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ComponentState::Waiting => "waiting",
            ComponentState::Greeting => "greeting",
            ComponentState::Live => "live",
            ComponentState::Restarting => "restarting",
            ComponentState::Bypassed => "bypassed",
            ComponentState::Lost => "lost",
            ComponentState::Ended => "ended",
        })
    }
}
