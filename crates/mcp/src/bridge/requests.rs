//! What the bridge has asked in the chain for its clients, and who still waits for the answer.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeBounds;

use acp_wire::Id;

use crate::endpoint::ClientId;

#[derive(Debug, Default)]
pub(super) struct Requests {
    open: BTreeMap<u64, Asked>,
    /// The requests of clients among them: by client, id, and our own number.
    calls: BTreeSet<(ClientId, Id, u64)>,
}

#[derive(Debug)]
pub(super) enum Asked {
    Connect(ClientId),
    /// A request of this client, with its own id.
    Call {
        client_id: ClientId,
        id: Id,
        wanted: Wanted,
    },
}

/// Whether a client still waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    Yes,
    /// It has cancelled the request.
    Cancelled,
    /// It has been answered in the server's place.
    No,
}

impl Requests {
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub fn len(&self) -> usize {
        self.open.len()
    }

    pub fn insert(&mut self, number: u64, asked: Asked) {
        if let Asked::Call { client_id, id, .. } = &asked {
            self.calls.insert((*client_id, id.detached(), number));
        }
        self.open.insert(number, asked);
    }

    /// A request is answered.
    pub fn take(&mut self, number: u64) -> Option<Asked> {
        let asked = self.open.remove(&number)?;
        if let Asked::Call { client_id, id, .. } = &asked {
            self.calls.remove(&(*client_id, id.clone(), number));
        }
        Some(asked)
    }

    /// The answers to a client's requests with this id are not wanted any more, for this reason. Gives the
    /// numbers of these requests.
    pub fn unwant(&mut self, client_id: ClientId, id: &Id, reason: Wanted) -> Vec<u64> {
        self.unwant_in((client_id, id.clone(), 0)..=(client_id, id.clone(), u64::MAX), reason)
    }

    /// The same for all requests of a client.
    pub fn unwant_all(&mut self, client_id: ClientId) -> Vec<u64> {
        let next = ClientId(client_id.0.saturating_add(1));
        // No id comes before the empty text.
        let least = Id::string("");
        self.unwant_in((client_id, least.clone(), 0)..(next, least, 0), Wanted::Cancelled)
    }

    fn unwant_in(
        &mut self,
        range: impl RangeBounds<(ClientId, Id, u64)>,
        reason: Wanted,
    ) -> Vec<u64> {
        let mut numbers = Vec::new();
        for (_, _, number) in self.calls.range(range) {
            if let Some(Asked::Call { wanted, .. }) = self.open.get_mut(number)
                && *wanted == Wanted::Yes
            {
                *wanted = reason;
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
