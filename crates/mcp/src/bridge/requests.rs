//! The requests that the bridge has sent into the chain for its clients.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeBounds;

use acp_wire::Id;

use crate::endpoint::ClientId;

/// The table of requests that are not answered yet.
#[derive(Debug, Default)]
pub(super) struct Requests {
    open: BTreeMap<u64, BridgeRequest>,
    /// The requests that forward a client's request: the client, its id, and the number in `open`.
    calls: BTreeSet<(ClientId, Id, u64)>,
}

/// A request of the bridge.
#[derive(Debug)]
pub(super) enum BridgeRequest {
    /// Connects this client to its server.
    Connect(ClientId),
    /// Forwards a request of this client, which has this id.
    Call { client_id: ClientId, id: Id, status: AnswerStatus },
}

/// Whether a client still waits for the answer to its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerStatus {
    /// The client waits.
    Awaited,
    /// The client has cancelled the request.
    Cancelled,
    /// The bridge has answered in place of the server.
    Discarded,
}

impl Requests {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    pub(super) fn insert(&mut self, number: u64, request: BridgeRequest) {
        if let BridgeRequest::Call { client_id, id, .. } = &request {
            self.calls.insert((*client_id, id.detached(), number));
        }
        self.open.insert(number, request);
    }

    /// Removes and returns a request that is answered.
    pub(super) fn take(&mut self, number: u64) -> Option<BridgeRequest> {
        let request = self.open.remove(&number)?;
        if let BridgeRequest::Call { client_id, id, .. } = &request {
            self.calls.remove(&(*client_id, id.clone(), number));
        }
        Some(request)
    }

    /// Changes the status of a client's requests with this id, which the client does not wait for
    /// any more. Returns the numbers of these requests.
    pub(super) fn stop_awaiting(
        &mut self,
        client_id: ClientId,
        id: &Id,
        reason: AnswerStatus,
    ) -> Vec<u64> {
        self.stop_awaiting_in(
            (client_id, id.clone(), 0)..=(client_id, id.clone(), u64::MAX),
            reason,
        )
    }

    /// Changes the status of all requests of a client to cancelled. Returns their numbers.
    pub(super) fn stop_awaiting_all(&mut self, client_id: ClientId) -> Vec<u64> {
        let next = ClientId(client_id.0.saturating_add(1));
        // No id sorts before the empty string.
        let least = Id::string("");
        self.stop_awaiting_in(
            (client_id, least.clone(), 0)..(next, least, 0),
            AnswerStatus::Cancelled,
        )
    }

    fn stop_awaiting_in(
        &mut self,
        range: impl RangeBounds<(ClientId, Id, u64)>,
        reason: AnswerStatus,
    ) -> Vec<u64> {
        let mut numbers = Vec::new();
        for (_, _, number) in self.calls.range(range) {
            if let Some(BridgeRequest::Call { status, .. }) = self.open.get_mut(number)
                && *status == AnswerStatus::Awaited
            {
                *status = reason;
                numbers.push(*number);
            }
        }
        numbers
    }

    pub(super) fn clear(&mut self) {
        self.open.clear();
        self.calls.clear();
    }
}
