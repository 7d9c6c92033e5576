//! The stage *telemetry*: log messages and metrics of components. They pass hop by hop like every extension message, and
//! the log of the conductor shows each of them once.

use std::collections::BTreeMap;

use acp_wire::telemetry::{self, Telemetry, Wanted, content_hash};
use acp_wire::{Call, Message, Side, acp};
use router::{Seat, Time};

use super::by_seat::BySeat;
use super::{Context, Hop, StageResult, Stages};
use crate::input::{KeptTelemetry, Observation, Output};

/// How many different messages are remembered for each component. More can be on their way only if a component keeps
/// them for itself, or is very slow.
const MAX_REMEMBERED: usize = 1 << 15;

/// How long nothing is reported from a component after messages to it were forgotten, in milliseconds.
const SILENCE: u64 = 60_000;

/// Which telemetry leaves the chain, and which messages a component only passes on.
#[derive(Debug)]
pub(super) struct TelemetryFilter {
    /// What the editor has asked for.
    wanted: Wanted,
    /// Whether the outer peer is another conductor, which gets all telemetry.
    forwards_all: bool,
    /// What stays in the chain if the editor has not asked for it.
    kept: KeptTelemetry,
    /// The messages that were delivered to each component and that it has not passed on yet.
    in_flight: BySeat<InFlight>,
}

/// The messages that a component has received and not passed on yet.
#[derive(Debug, Default)]
struct InFlight {
    /// How many there are of each, by the hash of the content.
    counts: BTreeMap<u64, u32>,
    /// Until when all messages of the component count as passed on, because too many were in flight and were forgotten.
    /// Metrics are then too low for a while. Otherwise they would count messages twice.
    silent_until: Time,
}

impl InFlight {
    fn add(&mut self, now: Time, hash: u64) {
        if self.counts.len() >= MAX_REMEMBERED && !self.counts.contains_key(&hash) {
            self.counts.clear();
            self.silent_until = now.plus(SILENCE);
        }
        let count = self.counts.entry(hash).or_default();
        *count = count.saturating_add(1);
    }

    /// Whether a message of the component is one that it has received.
    fn take(&mut self, now: Time, hash: u64) -> bool {
        match self.counts.get_mut(&hash) {
            Some(1) => self.counts.remove(&hash).is_some(),
            Some(count) => {
                *count -= 1;
                true
            }
            None => now < self.silent_until,
        }
    }
}

impl TelemetryFilter {
    /// See [`BySeat::fill`].
    pub(super) fn fill(&mut self, count: usize, filled: &[Seat]) {
        self.in_flight.fill(count, filled);
    }

    /// Sets what stays in the chain if the editor has not asked for it.
    pub(super) fn set_kept(&mut self, kept: KeptTelemetry) {
        self.kept = kept;
    }

    pub(super) fn new(
        components: usize,
        forwards_all: bool,
        kept: KeptTelemetry,
    ) -> TelemetryFilter {
        let in_flight = BySeat::new(components);
        TelemetryFilter { wanted: Wanted::default(), forwards_all, kept, in_flight }
    }

    /// Handles a message to a peer.
    pub(super) fn delivered(
        &mut self,
        cx: &Context,
        hop: Hop,
        message: &mut Message,
    ) -> StageResult {
        let Message::Notification(call) = message else { return StageResult::Pass };
        if hop.toward != Side::Editor {
            return StageResult::Pass;
        }
        let Some(kind) = Telemetry::of(call) else { return StageResult::Pass };
        if let Some(in_flight) = self.in_flight.get_mut(hop.seat) {
            in_flight.add(cx.now, content_hash(kind, call));
            return StageResult::Pass;
        }
        if self.forwards_all {
            return StageResult::Pass;
        }
        match self.wanted.translate(kind, call) {
            Some(translated) => {
                *call = translated;
                StageResult::Pass
            }
            None if self.keeps(call) => StageResult::Taken,
            None => StageResult::Pass,
        }
    }

    fn keeps(&self, call: &Call) -> bool {
        match &self.kept {
            KeptTelemetry::All => true,
            KeptTelemetry::Of(names) => {
                let name = call.params.as_ref().and_then(telemetry::component);
                name.is_some_and(|name| names.contains(&name))
            }
        }
    }

    /// Whether the component in this seat passes on a message that was delivered to it.
    fn passes_on(&mut self, now: Time, seat: Seat, kind: Telemetry, call: &Call) -> bool {
        let in_flight = self.in_flight.get_mut(seat);
        in_flight.is_some_and(|it| it.take(now, content_hash(kind, call)))
    }
}

impl Stages {
    /// Handles a message from a peer. Reports telemetry that comes from this peer.
    pub(super) fn telemetry_arrived(&mut self, hop: Hop, message: &mut Message) -> StageResult {
        match message {
            Message::Request { call, .. }
                if hop.seat == Seat::OUTER
                    && hop.toward == Side::Agent
                    && call.is(acp::INITIALIZE) =>
            {
                let params = call.params.as_ref();
                self.telemetry.wanted = params.map(Wanted::of_initialize).unwrap_or_default();
            }
            Message::Notification(call) if hop.toward == Side::Editor => {
                let Some(kind) = Telemetry::of(call) else { return StageResult::Pass };
                if !self.telemetry.passes_on(self.cx.now, hop.seat, kind, call) {
                    let (seat, message) = (hop.seat, message.detached());
                    self.cx.push(Output::Tap(Observation::Telemetry { seat, message }));
                }
            }
            _ => {}
        }
        StageResult::Pass
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In flight, all of these are different.
    fn fill(in_flight: &mut InFlight, now: Time, numbers: std::ops::Range<u64>) {
        numbers.for_each(|number| in_flight.add(now, number));
    }

    #[test]
    fn each_message_of_a_large_burst_is_recognised_when_it_is_passed_on() {
        let (mut in_flight, now) = (InFlight::default(), Time(0));
        fill(&mut in_flight, now, 0..1000);
        (0..100_000).for_each(|_| in_flight.add(now, 7));
        assert!((0..1000).rev().all(|number| in_flight.take(now, number)));
        assert!((0..100_000).all(|_| in_flight.take(now, 7)));
        assert!(!in_flight.take(now, 7) && in_flight.counts.is_empty());
    }

    #[test]
    fn after_an_overflow_no_message_counts_twice_and_the_silence_ends() {
        let (mut in_flight, now) = (InFlight::default(), Time(5));
        let number = 3 * MAX_REMEMBERED as u64;
        fill(&mut in_flight, now, 0..number);
        assert!(in_flight.counts.len() <= MAX_REMEMBERED);
        assert!((0..number).all(|number| in_flight.take(now, number)));
        let later = now.plus(SILENCE);
        assert!(!in_flight.take(later, 0), "it is a new message of the component");
    }
}
