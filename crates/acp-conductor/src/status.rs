//! What a running conductor is doing: `conductor status`.
//!
//! Each running chain has a socket that only its user can open. Who connects is given one line of
//! JSON, a [`Status`], and nothing is read from them. The shell's loop makes the snapshot between two
//! rounds; writing it is the business of a task of its own, so that nobody who asks can hold up a
//! message.
//!
//! # Layout
//! - here: the snapshot, as it is written and read
//! - `snapshot`: how the shell fills it in
//! - `socket`: where the sockets are, and why nobody else can open them
//! - `server`: the chain's end of the socket; `ask`: the end of `conductor status`
//! - [`table`]: the snapshot for people

#[cfg(unix)]
mod client;
#[cfg(unix)]
mod server;
mod snapshot;
#[cfg(unix)]
mod socket;
pub mod table;
#[cfg(not(unix))]
mod unsupported;

use std::fmt;

use serde::{Deserialize, Serialize};

#[cfg(unix)]
pub use client::query;
#[cfg(unix)]
pub(crate) use server::StatusServer;
#[cfg(not(unix))]
pub(crate) use unsupported::StatusServer;
#[cfg(not(unix))]
pub use unsupported::query;

/// The version of [`Status`] as JSON: it changes when a field goes or means something else, not when
/// one is added.
pub const VERSION: u32 = 1;

/// A running chain, at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// [`VERSION`].
    pub version: u32,
    /// The conductor's process.
    pub pid: u32,
    /// The version of the program.
    pub conductor_version: String,
    pub mode: Mode,
    /// The directory the conductor runs in.
    pub cwd: String,
    /// Since the conductor was started.
    pub uptime_seconds: f64,
    pub state: ChainState,
    /// Requests that somebody in the chain has asked and somebody else has yet to answer.
    pub open_requests: usize,
    /// How many sessions are open, as far as is known.
    pub sessions: usize,
    /// From the editor's side.
    pub components: Vec<Component>,
    pub editor: Editor,
    pub mcp: Mcp,
}

/// What the chain is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// It ends with an agent.
    Agent,
    /// It is a proxy of a conductor above it.
    Proxy,
}

/// Where the chain is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ChainState {
    /// It has not been greeted, or not everybody in it has answered.
    Starting,
    Running,
    /// It waits for the last answers, and for its components to end.
    Ending,
}

/// One component, as its seat sees it: who sits there may have been replaced.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Component {
    /// Its place in the chain, from 1.
    pub number: usize,
    pub name: String,
    /// Its command line, without its environment.
    pub command: String,
    pub role: Role,
    /// What it speaks: the generation of the proxy protocol; `plain` for an agent.
    pub dialect: String,
    /// The chain must not go on without it.
    pub guard: bool,
    /// What is done when it ends.
    pub policy: String,
    pub state: ComponentState,
    /// Its process. A component that runs in the conductor itself has none.
    pub pid: Option<u32>,
    /// How often it was started again.
    pub restarts: u32,
    /// When it is started again, if it has failed and waits for that.
    #[serde(default)]
    pub next_start: Option<NextStart>,
    /// Since its present life began.
    pub uptime_seconds: Option<f64>,
    /// How its last life ended, as the end of a sentence that begins with its name.
    pub last_exit: Option<String>,
    /// The last lines that it wrote on standard error before that.
    pub exit_words: Vec<String>,
    /// The last lines that it wrote on standard error, twenty at most.
    pub last_words: Vec<String>,
    pub queue: Queue,
}

/// The next start of a component that has failed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NextStart {
    /// How many starts in a row this will be, without a minute of uptime between them. 0 after a command.
    pub attempt: u32,
    pub in_seconds: f64,
}

/// What a component is in the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    Proxy,
    Agent,
}

/// Where a component is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ComponentState {
    /// It was not greeted yet.
    Waiting,
    /// It was sent `initialize` and has not answered.
    Greeting,
    Live,
    /// It has ended and is being started again.
    Restarting,
    /// It has ended, and messages go past its place.
    Bypassed,
    /// It has ended, and nobody takes its place.
    Lost,
    /// It has ended because the chain ends.
    Ended,
}

/// What waits for a component, and what others wait for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Queue {
    /// Bytes that wait until it reads them.
    pub out_bytes: usize,
    /// Messages that wait until it was started again, and their size.
    pub held_messages: usize,
    pub held_bytes: usize,
    /// Requests that it has yet to answer.
    pub owes: usize,
}

/// The editor, or the conductor above.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Editor {
    /// Bytes that wait until it reads them.
    pub out_bytes: usize,
    /// It is not listened to for now, because what it has sent already waits to be read.
    pub paused: bool,
}

/// MCP servers that are reached over ACP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mcp {
    pub servers: usize,
    /// Programs that have called to use one.
    pub clients: usize,
}

/// What asking around has brought.
#[derive(Debug, Default)]
pub struct QueryResult {
    /// In the order of their process ids.
    pub running: Vec<Status>,
    /// Those that are there and did not answer, a line for each.
    pub unresponsive: Vec<String>,
    /// Where could not be looked, a line for each.
    pub unreadable: Vec<String>,
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
