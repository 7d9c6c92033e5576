//! What each component was told of sessions: the next component in its seat must be told, too.

mod cancelled;
mod record;
mod retention;

use acp_wire::{Id, Message, Outcome};
use router::pending::Fingerprint;
use router::{Router, Seat};

use super::by_seat::BySeat;
use super::{Context, Hop, StageResult, Stages};
use acp_wire::acp::{SessionId, Topic, session_of};
pub(super) use record::{Copy, Prompt, Record, SessionSetup};

#[derive(Debug)]
pub(super) struct Sessions {
    records: BySeat<Record>,
}

impl Sessions {
    pub(super) fn new(count: usize) -> Sessions {
        Sessions { records: BySeat::new(count) }
    }

    /// What a component was told. The outer pipe has no record.
    pub(super) fn record(&self, seat: Seat) -> Option<&Record> {
        self.records.get(seat)
    }

    pub(super) fn record_mut(&mut self, seat: Seat) -> Option<&mut Record> {
        self.records.get_mut(seat)
    }

    /// How many sessions are live, as far as is known.
    pub(super) fn live(&self) -> usize {
        self.records.iter().map(|record| record.sessions().len()).max().unwrap_or(0)
    }

    /// The sessions of the first component that has any: it knows them as the editor does.
    pub(super) fn of_first(&self) -> &[SessionSetup] {
        let sessions = self.records.iter().map(Record::sessions);
        sessions.into_iter().find(|it| !it.is_empty()).unwrap_or_default()
    }

    /// Whether a component between the editor and this seat has a session.
    pub(super) fn is_known_before(&self, seat: Seat, session: &SessionId) -> bool {
        let has = |record: &Record| record.sessions().iter().any(|it| it.session == *session);
        self.records.before(seat).iter().any(has)
    }

    /// No component has this session any more.
    pub(super) fn forget(&mut self, session: &SessionId) {
        self.records.iter_mut().for_each(|record| record.forget(session));
    }

    /// How much is open, for tests.
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
        let keep = self.keep(hop, message);
        if let Some(record) = self.records.get_mut(seat) {
            let method = |id: &Id| {
                Some(router.request(id).filter(|it| it.responder == seat)?.method.clone())
            };
            record.delivered(cx.now, toward, message, method, keep);
        }
        StageResult::Pass
    }
}

impl Stages {
    pub(super) fn sessions_arrived(&mut self, hop: Hop, message: &Message) -> StageResult {
        let ended = match self.sessions.record_mut(hop.seat) {
            Some(record) => record.arrived(hop.toward, message),
            None => self.ended_beyond(message),
        };
        if self.replay.has_lost_any()
            && self.is_agent(hop.seat)
            && let Message::Response { outcome: Outcome::Result(result), .. } = message
            && let Some(session) = session_of(result)
        {
            // A restarted agent may give a new session the id of a lost one.
            self.replay.is_not_lost(&session);
        }
        if let Some(session) = ended {
            // If a component dies that this is passed through, the next one need not be told of the session.
            self.sessions.forget(&session);
            self.orphans.close_kept(&session);
        }
        StageResult::Pass
    }

    /// The session that an agent beyond this chain has ended with this.
    fn ended_beyond(&self, message: &Message) -> Option<SessionId> {
        let Message::Response { id, outcome: Outcome::Result(_), .. } = message else {
            return None;
        };
        let ask = self.router.request(id)?;
        match &ask.fingerprint {
            Fingerprint::Params(params) if Topic::of(&ask.method) == Some(Topic::End) => {
                session_of(params)
            }
            _ => None,
        }
    }
}
