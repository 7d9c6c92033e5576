//! `conductor status` on systems without Unix sockets: there is no server, and queries fail.

use std::collections::BTreeSet;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::oneshot;

use super::{QueryResult, Status};

/// Never exists.
#[derive(Debug)]
pub(crate) enum StatusServer {}

impl StatusServer {
    pub(crate) fn open() -> Option<StatusServer> {
        None
    }

    pub(crate) fn poll_request(
        &mut self,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<oneshot::Sender<Status>>> {
        match *self {}
    }
}

/// Always fails.
pub async fn query(
    _wanted: Option<u32>,
    _timeout: Duration,
    _waiting: impl FnMut(&BTreeSet<u32>),
) -> Result<QueryResult, String> {
    Err("`conductor status` is not supported on this system: it requires Unix sockets".into())
}
