//! `conductor reload` on systems without Unix sockets: there is no server, and no chain is found.

use tokio::sync::mpsc::Sender;

use super::Report;
use super::running::ReloadClient;

/// Never exists.
#[derive(Debug)]
pub(super) enum ReloadServer {}

impl ReloadServer {
    pub(super) fn open(_requests: Sender<ReloadClient>) -> Option<ReloadServer> {
        None
    }
}

/// No chain can be found.
pub fn chains() -> Vec<u32> {
    Vec::new()
}

/// Always fails.
///
/// # Errors
/// The system is not supported.
pub async fn reload(_pid: u32, _waiting: impl FnMut(&str)) -> Result<Option<Report>, String> {
    Err("`conductor reload` is not supported on this system: it requires Unix sockets".into())
}
