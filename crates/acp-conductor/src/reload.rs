//! `conductor reload`: a running chain reads its configuration again.
//!
//! The shell reads the files in another thread ([`ReloadSource`]), compares the result with the running chain (`plan`), and
//! passes the difference to the core. The core uses it while the chain is at rest. A client learns what happens from a
//! stream of [`Progress`], one line of JSON each.
//!
//! # Layout
//! - here: what the chain and its clients exchange
//! - `plan`: the difference between two configurations
//! - `running`: performs reloads in the main loop
//! - `server`: the socket of a chain; `client`: the other end; `unsupported`: both for systems without Unix sockets

#[cfg(unix)]
mod client;
mod plan;
mod running;
#[cfg(unix)]
mod server;
#[cfg(not(unix))]
mod unsupported;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

#[cfg(unix)]
pub use client::{chains, reload};
pub(crate) use running::Reloads;
#[cfg(not(unix))]
pub use unsupported::{chains, reload};

use crate::config::Config;

/// Reads the configuration of a chain again.
#[derive(Clone)]
pub struct ReloadSource(Arc<dyn Fn() -> Result<Config, String> + Send + Sync>);

impl ReloadSource {
    /// A source that calls this function, in a thread of its own. The function returns the configuration that the chain
    /// would have if it started now, or an error for the user.
    pub fn new(read: impl Fn() -> Result<Config, String> + Send + Sync + 'static) -> ReloadSource {
        ReloadSource(Arc::new(read))
    }

    fn read(&self) -> Result<Config, String> {
        (self.0)()
    }
}

impl fmt::Debug for ReloadSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReloadSource")
    }
}

/// The byte that a client sends first: the chain changes when it is at rest.
#[cfg(unix)]
const AT_REST: u8 = b'r';

/// The byte that a client sends first: components that leave or are restarted are ended at once.
#[cfg(unix)]
const NOW: u8 = b'n';

/// What a client of a reload is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "progress")]
pub enum Progress {
    /// The chain is not at rest.
    Waiting {
        /// What it waits for.
        why: String,
    },
    /// The reload is over.
    Done(Box<Report>),
}

/// The result of a reload.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Report {
    /// Why the configuration is not used. The chain runs on unchanged.
    pub error: Option<String>,
    /// The components that have joined the chain.
    pub added: Vec<String>,
    /// The components that have left the chain.
    pub removed: Vec<String>,
    /// The components that were restarted, because their configuration has changed.
    pub restarted: Vec<String>,
    /// The new order of the components, if it has changed for components that stay.
    pub order: Option<Vec<String>>,
    /// The settings that have changed and are used from now on.
    pub settings: Vec<String>,
    /// The settings that have changed and are used when the chain starts the next time.
    pub at_next_start: Vec<String>,
    /// The components that did not start. The chain runs without them.
    pub failed: Vec<String>,
    /// The components that did not start with their new configuration. They run with the previous one.
    pub reverted: Vec<String>,
    /// What happened to the components that did not start.
    pub reasons: Vec<String>,
    /// What else the user should know.
    pub notes: Vec<String>,
}

impl Report {
    /// Whether nothing has changed.
    pub fn is_empty(&self) -> bool {
        *self == Report::default()
    }

    /// Whether everything was done.
    pub fn is_complete(&self) -> bool {
        self.error.is_none() && self.failed.is_empty() && self.reverted.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(error) = &self.error {
            return write!(f, "not reloaded: {error}");
        }
        if self.is_empty() {
            return f.write_str("nothing has changed");
        }
        let lists = [
            ("added", &self.added),
            ("removed", &self.removed),
            ("restarted", &self.restarted),
            ("changed settings", &self.settings),
            ("used at the next start", &self.at_next_start),
            ("did not start, so the chain runs without", &self.failed),
            ("did not start, so the previous configuration is used for", &self.reverted),
        ];
        let mut parts: Vec<String> = lists
            .iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(title, names)| format!("{title}: {}", names.join(", ")))
            .collect();
        if let Some(order) = &self.order {
            parts.push(format!("order: {}", order.join(", ")));
        }
        parts.extend(self.reasons.iter().chain(&self.notes).cloned());
        f.write_str(&parts.join("; "))
    }
}
