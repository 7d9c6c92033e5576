//! Limits the memory for recorded set-up requests.
//!
//! Set-up requests may be long, so a chain records only a limited number of bytes of them. If several components were
//! sent the same text, it is stored once. A session whose set-up request is not stored works normally until
//! a component fails. Then an agent has lost the session, and a proxy is not sent its set-up request again.

use std::collections::BTreeSet;

use acp_wire::acp::{MethodKind, method_kind};
use acp_wire::{Json, Message, Outcome, Side};

use super::{Hop, Record, Sessions};

/// Params and results up to this length are always stored, in bytes.
pub(super) const SHORT: usize = 64 * 1024;

/// How many bytes of longer params and results a chain stores.
const MAX_LONG_BYTES: usize = 64 * 1024 * 1024;

/// How the params or the result of a message are stored.
#[derive(Debug, Default)]
pub(crate) enum Retention {
    /// As they are.
    #[default]
    Full,
    /// They are long, and stored as this value, which may be shared.
    Long(Json),
    /// They are long, and not stored because the limit is reached.
    Dropped,
}

impl Sessions {
    /// How a message to a component is stored.
    pub(super) fn retention(&self, hop: Hop, message: &Message) -> Retention {
        let Some(record) = self.records.get(hop.seat) else { return Retention::Full };
        let content = match message {
            Message::Request { call, .. } if hop.toward == Side::Agent => {
                call.params.as_ref().filter(|_| method_kind(call) == Some(MethodKind::SetUpSession))
            }
            Message::Response { id, outcome: Outcome::Result(it) | Outcome::Error(it), .. } => {
                Some(it).filter(|_| record.awaits_setup_answer(id))
            }
            _ => None,
        };
        let Some(content) = content.filter(|it| it.as_bytes().len() > SHORT) else {
            return Retention::Full;
        };
        let mut all = self.records.iter().flat_map(Record::long);
        if let Some(same) = all.find(|it| it.as_bytes() == content.as_bytes()) {
            return Retention::Long(same.clone());
        }
        match self.retained_bytes() + content.as_bytes().len() <= MAX_LONG_BYTES {
            true => Retention::Long(content.detached()),
            false => Retention::Dropped,
        }
    }

    /// How many bytes of long params and results are stored.
    pub(in crate::stages) fn retained_bytes(&self) -> usize {
        let all = self.records.iter().flat_map(Record::long);
        // A shared text counts once.
        let places: BTreeSet<(usize, usize)> =
            all.map(|it| (it.as_bytes().as_ptr().addr(), it.as_bytes().len())).collect();
        places.into_iter().map(|(_, length)| length).sum()
    }
}
