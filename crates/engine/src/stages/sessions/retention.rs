//! How much of what set sessions up is kept.
//!
//! A component that is restarted is told again how each of its sessions was set up. These requests may be long,
//! so only so much of them is kept for a whole chain. What several components were told in the same words is
//! kept once. A session of which that is not kept goes on as any other, until a component dies: an agent has
//! then lost it, and a proxy is not told of it again.

use std::collections::BTreeSet;

use acp_wire::{Json, Message, Outcome, Side};

use super::{Hop, Record, Sessions};
use acp_wire::acp::{Topic, topic};

/// What is not longer than this is always kept.
pub(super) const SHORT: usize = 64 * 1024;

/// So many bytes of what is longer are kept for a chain.
const MOST: usize = 64 * 1024 * 1024;

/// What is to be recorded of a message that is delivered.
#[derive(Debug, Default)]
pub(crate) enum Keep {
    /// All that is recorded of such a message.
    #[default]
    All,
    /// The params, or the result, are long. They are kept like this.
    Long(Json),
    /// They are long, and there is no room left.
    Nothing,
}

impl Sessions {
    /// How much of a message that is delivered to a component can be kept.
    pub(super) fn keep(&self, hop: Hop, message: &Message) -> Keep {
        let Some(record) = self.records.get(hop.seat) else { return Keep::All };
        let said = match message {
            Message::Request { call, .. } if hop.toward == Side::Agent => {
                call.params.as_ref().filter(|_| topic(call) == Some(Topic::SetUp))
            }
            Message::Response { id, outcome: Outcome::Result(it) | Outcome::Error(it), .. } => {
                Some(it).filter(|_| record.awaits(id))
            }
            _ => None,
        };
        let Some(said) = said.filter(|it| it.as_bytes().len() > SHORT) else { return Keep::All };
        let mut all = self.records.iter().flat_map(Record::long);
        if let Some(same) = all.find(|it| it.as_bytes() == said.as_bytes()) {
            return Keep::Long(same.clone());
        }
        match self.retained_bytes() + said.as_bytes().len() <= MOST {
            true => Keep::Long(said.detached()),
            false => Keep::Nothing,
        }
    }

    /// How many bytes of long requests and answers are kept.
    pub(in crate::stages) fn retained_bytes(&self) -> usize {
        let all = self.records.iter().flat_map(Record::long);
        // What is shared counts once.
        let places: BTreeSet<(usize, usize)> =
            all.map(|it| (it.as_bytes().as_ptr().addr(), it.as_bytes().len())).collect();
        places.into_iter().map(|(_, length)| length).sum()
    }
}
