//! The stage *sessions*: records how the sessions of each component were set up.
//!
//! When a component is restarted, the stage replay sends these requests again.

mod cancelled;
mod record;
mod retention;

use acp_wire::acp::{MethodKind, SessionId, session_of};
use acp_wire::{Id, Message, Outcome};
use router::pending::Fingerprint;
use router::{Chain, Router, Seat};

use super::by_seat::BySeat;
use super::{Context, Hop, StageResult, Stages};
pub(super) use record::{ForwardedRequest, Prompt, Record, SessionSetup};

/// The records of all components.
#[derive(Debug)]
pub(super) struct Sessions {
    records: BySeat<Record>,
}

impl Sessions {
    pub(super) fn new(count: usize) -> Sessions {
        Sessions { records: BySeat::new(count) }
    }

    /// See [`BySeat::fill`].
    pub(super) fn fill(&mut self, count: usize, filled: &[Seat]) {
        self.records.fill(count, filled);
    }

    /// The record of a component. `None` for the outer pipe.
    pub(super) fn record(&self, seat: Seat) -> Option<&Record> {
        self.records.get(seat)
    }

    pub(super) fn record_mut(&mut self, seat: Seat) -> Option<&mut Record> {
        self.records.get_mut(seat)
    }

    /// How many sessions are live, as far as the core knows.
    pub(super) fn live(&self) -> usize {
        self.records.iter().map(|record| record.sessions().len()).max().unwrap_or(0)
    }

    /// The sessions of the first component that has any. It knows them under the ids that the editor uses.
    pub(super) fn of_first_component(&self, chain: &Chain) -> &[SessionSetup] {
        let records = chain.seats().filter_map(|seat| self.records.get(seat));
        records.map(Record::sessions).find(|it| !it.is_empty()).unwrap_or_default()
    }

    /// Whether a component between the editor and this seat has a session.
    pub(super) fn is_known_before(&self, chain: &Chain, seat: Seat, session: &SessionId) -> bool {
        let has = |record: &Record| record.sessions().iter().any(|it| it.session == *session);
        self.records.of(chain.before(seat)).any(has)
    }

    /// Removes a session from all records.
    pub(super) fn forget(&mut self, session: &SessionId) {
        self.records.iter_mut().for_each(|record| record.forget(session));
    }

    /// The number of unfinished requests in all records, for tests.
    pub(super) fn open(&self) -> usize {
        self.records.iter().map(Record::open).sum()
    }

    pub(super) fn delivered(
        &mut self,
        cx: &Context,
        router: &Router,
        hop: Hop,
        message: &Message,
    ) -> StageResult {
        let Hop { seat, toward } = hop;
        let retention = self.retention(hop, message);
        if let Some(record) = self.records.get_mut(seat) {
            let method = |id: &Id| {
                Some(router.request(id).filter(|it| it.responder == seat)?.method.clone())
            };
            record.delivered(cx.now, toward, message, method, retention);
        }
        StageResult::Pass
    }
}

impl Stages {
    /// Whether a component between the editor and this seat has a session.
    pub(super) fn is_known_before(&self, seat: Seat, session: &SessionId) -> bool {
        self.sessions.is_known_before(self.router.chain(), seat, session)
    }

    pub(super) fn sessions_arrived(&mut self, hop: Hop, message: &Message) -> StageResult {
        let ended = match self.sessions.record_mut(hop.seat) {
            Some(record) => record.arrived(hop.toward, message),
            None => self.session_ended_outside(message),
        };
        if self.replay.has_lost_any()
            && self.is_agent(hop.seat)
            && let Message::Response { outcome: Outcome::Result(result), .. } = message
            && let Some(session) = session_of(result)
        {
            // A restarted agent may reuse the id of a lost session.
            self.replay.remove_lost(&session);
        }
        if let Some(session) = ended {
            // The session is not replayed to any component, even if one fails before it has forwarded this answer.
            self.sessions.forget(&session);
            self.orphans.remove_resumable(&session);
        }
        StageResult::Pass
    }

    /// The session that an agent outside this chain has ended with this answer.
    fn session_ended_outside(&self, message: &Message) -> Option<SessionId> {
        let Message::Response { id, outcome: Outcome::Result(_), .. } = message else {
            return None;
        };
        let request = self.router.request(id)?;
        match &request.fingerprint {
            Fingerprint::Params(params)
                if MethodKind::of(&request.method) == Some(MethodKind::EndSession) =>
            {
                session_of(params)
            }
            _ => None,
        }
    }
}
