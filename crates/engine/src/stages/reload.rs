//! Gives a running chain another configuration.
//!
//! The configuration changes while the chain is at rest (see [`router::reload`]). A component that joins the chain is
//! started like one that is restarted. The set-up requests of the live sessions are replayed to it: as its successor has
//! received them, with the answers of its successor. A component whose configuration has changed is restarted in its seat.
//! A component that is no longer part of the chain is bypassed.
//!
//! Until a component that the reload has started is live, it is on trial (see [`super::trial`]).

use router::{Chain, Exit, ExitCause, Recovery, Seat, SeatState};

use super::Stages;
use super::sessions::Record;
use crate::input::{Output, Reload};
use crate::policy::Rules;
use crate::stage_io::StageOutput;

impl Stages {
    /// Why the configuration cannot change now. `None` if the chain is at rest.
    pub(crate) fn unrest(&self) -> Option<String> {
        if let Some(why) = self.router.unrest() {
            return Some(why);
        }
        if !self.turns.sessions(self.router.chain()).is_empty() || self.turns.open() > 0 {
            return Some("a turn is active".to_owned());
        }
        if self.gate.holds_any() {
            return Some("a command holds messages".to_owned());
        }
        let is_settled = self.sessions.open() == 0 && self.orphans.len() == 0;
        (!is_settled).then(|| "the set-up of a session is not finished".to_owned())
    }

    /// Why a new configuration cannot be used at all while the chain runs.
    pub(crate) fn reload_problem(&self, reload: &Reload) -> Option<String> {
        if !self.router.has_started() {
            return None;
        }
        let agent = reload.restarted.iter().find(|seat| self.is_agent(**seat));
        let loses_any = |seat: &&Seat| {
            let record = self.sessions.record(**seat);
            !self.is_resumable(**seat) || record.is_some_and(Record::has_unstored_sessions)
        };
        let agent = agent.filter(loses_any)?;
        let name = self.router.chain().describe(*agent);
        let sessions = match self.live_sessions() {
            1 => "its open session".to_owned(),
            count => format!("its {count} open sessions"),
        };
        Some(format!(
            "the configuration of {name} has changed, but {name} cannot resume {sessions} after a restart; \
             close them, or start the chain again"
        ))
    }

    /// Uses a new configuration. The chain is at rest.
    pub(super) fn on_reload(&mut self, reload: &Reload) {
        let (old, new) = (self.router.chain().clone(), &reload.chain);
        for seat in &reload.restarted {
            self.begin_trial_of_change(*seat);
        }
        let removed = |seat: &Seat| !new.contains(*seat) && !self.is_bypassed(*seat);
        for seat in old.seats().filter(removed).collect::<Vec<_>>() {
            self.remove_from_chain(seat);
        }
        let is_filled = |seat: &Seat| !old.contains(*seat) || self.is_bypassed(*seat);
        let filled: Vec<Seat> = new.seats().filter(is_filled).collect();
        self.fill_seats(new.components.len(), &filled);
        self.rules = Rules { seed: self.rules.seed, ..reload.rules.clone() };
        self.set_about(reload.about.clone());
        self.telemetry.set_kept(reload.kept_telemetry.clone());
        self.notices.add_for_next_prompt(reload.notices.clone());
        self.with_broker(|it, cx| it.chain_changed(new.clone(), cx));
        self.route(router::Event::Reloaded {
            chain: Box::new(new.clone()),
            filled: filled.clone(),
        });
        if !self.router.has_started() {
            return;
        }
        for seat in new.seats() {
            self.update_skipped_updates(seat);
        }
        self.cx.out.push(StageOutput::Prepare(filled.clone()));
        // From the agent's side, because the record of each comes from its successor.
        for seat in filled.iter().rev() {
            self.join(*seat);
        }
        for seat in &reload.restarted {
            let is_up = self.router.state(*seat).is_some_and(SeatState::is_up);
            if is_up && !filled.contains(seat) {
                self.poison.forget_pending(*seat);
                let recovery = Recovery::Restart { at: self.cx.now, attempts: 0 };
                self.replace_quietly(*seat, recovery);
            }
        }
        self.start_due_components();
    }

    fn is_bypassed(&self, seat: Seat) -> bool {
        matches!(self.router.state(seat), Some(SeatState::Bypassed))
    }

    /// Makes room for the state of new components, and forgets that of the components that had these seats before.
    fn fill_seats(&mut self, count: usize, filled: &[Seat]) {
        self.gate.fill(count);
        self.watchdog.fill(count, filled);
        self.poison.fill(count, filled);
        self.turns.fill(count, filled);
        self.mcp.fill(count);
        self.sessions.fill(count, filled);
        self.replay.fill(count, filled);
        self.telemetry.fill(count, filled);
        self.failures.fill(count, filled);
    }

    /// Prepares the start of a component that joins the chain.
    fn join(&mut self, seat: Seat) {
        let chain: &Chain = self.router.chain();
        let next = self.router.successor(seat).and_then(|it| self.sessions.record(it));
        let before = chain.before(seat).iter().rev();
        let before = before.copied().find(|it| !self.is_bypassed(*it));
        let before = before.and_then(|it| self.sessions.record(it));
        let joined = Record::of_joining(next, before);
        if let Some(record) = self.sessions.record_mut(seat) {
            *record = joined;
        }
        self.with_broker(|it, _| it.component_added(seat));
        self.begin_trial(seat);
    }

    /// Removes a component that is no longer part of the configuration. The user knows why, so no notice is shown.
    fn remove_from_chain(&mut self, seat: Seat) {
        self.trials.remove(seat);
        self.quietly(|stages| stages.bypass(seat, Exit::new(ExitCause::ByCommand)));
    }

    fn replace_quietly(&mut self, seat: Seat, recovery: Recovery) {
        let why = Exit::new(ExitCause::ByCommand);
        self.quietly(|stages| stages.replace(seat, why, recovery, None));
    }

    /// Does something that the user has asked for, without notices in the editor and warnings in the log.
    pub(super) fn quietly(&mut self, act: impl FnOnce(&mut Stages)) {
        let notices = std::mem::replace(&mut self.rules.notify_editor, false);
        let first = self.cx.out.len();
        act(self);
        self.rules.notify_editor = notices;
        let said = self.cx.out.split_off(first);
        let is_report = |it: &StageOutput| matches!(it, StageOutput::Output(Output::Report(_)));
        self.cx.out.extend(said.into_iter().filter(|it| !is_report(it)));
    }
}
