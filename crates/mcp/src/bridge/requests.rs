//! What the bridge has asked in the chain for its clients, and who still waits for the answer.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeBounds;

use acp_wire::Id;

use crate::endpoint::ClientId;

#[derive(Debug, Default)]
pub(super) struct Requests {
    open: BTreeMap<u64, BridgeRequest>,
    /// The requests of clients among them: by client, id, and our own number.
    calls: BTreeSet<(ClientId, Id, u64)>,
}

#[derive(Debug)]
pub(super) enum BridgeRequest {
    Connect(ClientId),
    /// A request of this client, with its own id.
    Call {
        client_id: ClientId,
        id: Id,
        status: AnswerStatus,
    },
}

/// Whether a client still waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerStatus {
    Awaited,
    /// It has cancelled the request.
    Cancelled,
    /// It has been answered in the server's place.
    Discarded,
}

impl Requests {
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub fn len(&self) -> usize {
        self.open.len()
    }

    pub fn insert(&mut self, number: u64, request: BridgeRequest) {
        if let BridgeRequest::Call { client_id, id, .. } = &request {
            self.calls.insert((*client_id, id.detached(), number));
        }
        self.open.insert(number, request);
    }

    /// A request is answered.
    pub fn take(&mut self, number: u64) -> Option<BridgeRequest> {
        let request = self.open.remove(&number)?;
        if let BridgeRequest::Call { client_id, id, .. } = &request {
            self.calls.remove(&(*client_id, id.clone(), number));
        }
        Some(request)
    }

    /// The answers to a client's requests with this id are not wanted any more, for this reason. Gives the
    /// numbers of these requests.
    pub fn stop_awaiting(
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

    /// The same for all requests of a client.
    pub fn stop_awaiting_all(&mut self, client_id: ClientId) -> Vec<u64> {
        let next = ClientId(client_id.0.saturating_add(1));
        // No id comes before the empty text.
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

    pub fn clear(&mut self) {
        self.open.clear();
        self.calls.clear();
    }
}
