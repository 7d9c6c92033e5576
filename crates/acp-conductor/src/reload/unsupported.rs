//! `conductor reload` on systems without Unix sockets: there is no server, and no chain is found.

use tokio::sync::mpsc::Sender;

use super::Report;
use super::running::ReloadRequest;

const UNSUPPORTED: &str = "`conductor reload` is not supported on this system: it requires Unix sockets; start the \
                           chain again";

/// Never exists.
#[derive(Debug)]
pub(super) enum ReloadServer {}

impl ReloadServer {
    pub(super) fn open(_requests: Sender<ReloadRequest>) -> Option<ReloadServer> {
        None
    }
}

/// Always fails.
///
/// # Errors
/// The system is not supported.
pub fn chains() -> Result<Vec<u32>, String> {
    Err(UNSUPPORTED.to_owned())
}

/// Always fails.
///
/// # Errors
/// The system is not supported.
pub async fn reload(
    _pid: u32,
    _now: bool,
    _waiting: impl FnMut(&str),
) -> Result<Option<Report>, String> {
    Err(UNSUPPORTED.to_owned())
}
