//! The options of built-in components, which the shell keeps.
//!
//! The shell checks new options. When the component is idle, it is restarted with them, and its sessions are replayed.
//! Messages for it wait meanwhile, as after a crash. If it fails with the new options, it is restarted with the old
//! ones. New options for the same component are set one after the other.

use std::collections::BTreeSet;

use acp_wire::config::{CONFIG, Operation};
use acp_wire::{ErrorKind, Id, Json, Message, Outcome, Side, acp, code};
use router::{Diagnostic, Exit, ExitCause, Level, Recovery, Seat, SeatState};

use super::routes::{Managed, Step};
use crate::input::{Configured, Output};
use crate::stages::{Hop, Stage, Stages};

impl Stages {
    /// Does the next steps of the requests that the conductor answers for components. Returns whether there were any.
    pub(in crate::stages) fn advance_config(&mut self) -> bool {
        if self.config.open() == 0 || self.finished || self.router.is_ending() {
            return false;
        }
        let mut busy = BTreeSet::new();
        let mut due = None;
        for (number, route, managed) in self.config.routes.managed() {
            let is_set = route.operation == Operation::Set && managed.step != Step::Done;
            let is_next = !is_set || busy.insert(route.target);
            if is_next && self.is_step_due(route.target, managed) {
                due = Some((number, route.target, managed.step.clone()));
                break;
            }
        }
        let Some((number, seat, step)) = due else { return false };
        if let Err(outcome) = self.config_step(number, seat, step) {
            self.answer_managed(number, outcome);
        }
        true
    }

    fn is_step_due(&self, seat: Seat, managed: &Managed) -> bool {
        if self.is_gone(seat) {
            return managed.step != Step::Done;
        }
        match &managed.step {
            Step::Ask | Step::Flushed(_) => true,
            Step::Restart(_) => self.is_idle_component(seat),
            Step::Restarting(_) => self.is_up(seat),
            Step::Asked | Step::Flushing { .. } | Step::Done => false,
        }
    }

    fn config_step(&mut self, number: u64, seat: Seat, step: Step) -> Result<(), Outcome> {
        if self.is_gone(seat) {
            let name = self.router.chain().describe(seat);
            return Err(super::no_receiver(&format!("{name} is no longer part of the chain")));
        }
        match step {
            Step::Ask => self.ask_shell(number, seat),
            Step::Restart(result) => {
                self.flush(number, seat, result);
                Ok(())
            }
            Step::Flushed(result) if self.is_idle_component(seat) => {
                self.restart_with_options(number, seat, result);
                Ok(())
            }
            Step::Flushed(result) => {
                if let Some(managed) = self.config.routes.managed_mut(number) {
                    managed.step = Step::Restart(result);
                }
                Ok(())
            }
            Step::Restarting(result) => {
                self.config.restarting = None;
                self.finish_set(number, &result, "restarted");
                Ok(())
            }
            Step::Asked | Step::Flushing { .. } | Step::Done => Ok(()),
        }
    }

    fn ask_shell(&mut self, request: u64, seat: Seat) -> Result<(), Outcome> {
        let Some(route) = self.config.routes.get(request) else { return Ok(()) };
        let operation = route.operation;
        if operation == Operation::Set && !self.is_resumable(seat) {
            let name = self.router.chain().describe(seat);
            let why = format!(
                "{name} would lose its sessions, because it cannot resume them after the restart; close them first"
            );
            return Err(super::refusal(&why));
        }
        let Some(managed) = self.config.routes.managed_mut(request) else { return Ok(()) };
        managed.step = Step::Asked;
        let values = managed.values.clone().unwrap_or(Json::EMPTY_OBJECT);
        self.cx.push(Output::Configure { request, seat, operation, values });
        Ok(())
    }

    /// The shell has answered a request.
    pub(in crate::stages) fn on_configured(
        &mut self,
        number: u64,
        answer: Result<Configured, String>,
    ) {
        let Some(route) = self.config.routes.get(number) else {
            return self.cx.push(Output::DropOptions { request: number });
        };
        let operation = route.operation;
        let Some(managed) = self.config.routes.managed_mut(number) else { return };
        if managed.step != Step::Asked {
            return self.cx.push(Output::DropOptions { request: number });
        }
        match (answer, operation) {
            (Err(why), _) => {
                let kind = ErrorKind::of_message(&why).unwrap_or(ErrorKind::InvalidOption);
                let why = why.rsplit_once(" [more: ").map_or(why.as_str(), |(text, _)| text);
                self.answer_managed(number, kind.outcome(code::INVALID_PARAMS, why));
            }
            (Ok(Configured { result, restart: true }), Operation::Set) => {
                managed.step = Step::Restart(result);
            }
            (Ok(Configured { result, .. }), Operation::Set) => {
                self.finish_set(number, &result, "now");
            }
            (Ok(Configured { result, .. }), _) => {
                self.answer_managed(number, Outcome::Result(result));
            }
        }
    }

    /// Sends a request through a component, so that no message is lost that it has received and not processed. A proxy
    /// passes the request on, an agent refuses it.
    fn flush(&mut self, number: u64, seat: Seat, result: Json) {
        let id = self.cx.next_id();
        let Some(managed) = self.config.routes.managed_mut(number) else { return };
        managed.step = Step::Flushing { id: id.clone(), result, is_late: false };
        let mark = Json::string(&self.config.routes.mark(number));
        let params = Json::object([("op", Some(Json::string("get"))), ("route", Some(mark))]);
        let hop = Hop { seat, toward: Side::Agent };
        self.send_from(Stage::Config, hop, Message::request(id, CONFIG, params));
    }

    fn restart_with_options(&mut self, number: u64, seat: Seat, result: Json) {
        let Some(managed) = self.config.routes.managed_mut(number) else { return };
        managed.step = Step::Restarting(result);
        self.cx.push(Output::ApplyOptions { request: number });
        self.config.restarting = Some(seat);
        self.poison.forget_pending(seat);
        let recovery = Recovery::Restart { at: self.cx.now, attempts: 0 };
        self.replace(seat, Exit::new(ExitCause::ByCommand), recovery, None);
    }

    fn finish_set(&mut self, number: u64, result: &Json, applied: &str) {
        let result = result.with_at(&["applied"], Some(&Json::string(applied)));
        self.answer_managed(number, Outcome::Result(result));
    }

    /// Answers a request on behalf of a component.
    fn answer_managed(&mut self, number: u64, outcome: Outcome) {
        let Some(managed) = self.config.routes.managed_mut(number) else { return };
        let step = std::mem::replace(&mut managed.step, Step::Done);
        let (id, is_error) = (managed.id.clone(), matches!(outcome, Outcome::Error(_)));
        let is_staged = !matches!(step, Step::Ask | Step::Asked | Step::Done);
        if is_error && is_staged {
            self.cx.push(Output::DropOptions { request: number });
        }
        if let Step::Restarting(_) = step {
            // Its requester may be gone.
            self.config.routes.remove(number);
        }
        let hop = Hop { seat: Seat::CONDUCTOR, toward: Side::Editor };
        self.inject(Stage::Config, hop, Message::response(id, outcome));
    }

    /// A component has ended. If it was being restarted with new options, it gets the old ones, and this returns
    /// `true`.
    pub(in crate::stages) fn revert_options(&mut self, seat: Seat, why: &Exit) -> bool {
        let is_restarting = |managed: &Managed| matches!(managed.step, Step::Restarting(_));
        let found = self
            .config
            .routes
            .managed()
            .find(|(_, route, managed)| route.target == seat && is_restarting(managed))
            .map(|(number, ..)| number);
        let Some(number) = found else { return false };
        self.config.restarting = None;
        let chain = self.router.chain();
        let text = format!(
            "{} {} with the new options: it {}{}; it gets the previous options again",
            chain.describe(seat),
            why.verb(),
            why.description(),
            why.quoted_reason(),
        );
        self.answer_managed(number, ErrorKind::InvalidOption.outcome(code::INVALID_PARAMS, text));
        !self.router.is_ending()
    }

    /// The requester of a request that the conductor answers has cancelled it.
    pub(in crate::stages) fn on_cancelled_by_requester(&mut self, message: &Message) {
        let Message::Notification(call) = message else { return };
        let Some(id) = call.params.as_ref().and_then(acp::cancelled_id) else { return };
        let is_it = |it: &Id| *it == id;
        let found = self.config.routes.managed().find(|(_, _, managed)| is_it(&managed.id));
        let Some((number, _, managed)) = found else { return };
        if !matches!(managed.step, Step::Restarting(_) | Step::Done) {
            let outcome = Outcome::error(code::CANCELLED, "the request was cancelled");
            self.answer_managed(number, outcome);
        }
    }

    /// Whether a component is restarted only to get other options.
    pub(in crate::stages) fn is_restarting_for_options(&self, seat: Seat) -> bool {
        self.config.restarting == Some(seat)
    }

    /// Reports the end or the restart of a component. If only its options change, that is not important.
    pub(in crate::stages) fn report_recovery(&mut self, seat: Seat, text: String) {
        let is_planned = self.is_restarting_for_options(seat);
        let level = if is_planned { Level::Debug } else { Level::Warn };
        self.cx.push(Output::Report(Diagnostic { level, seat, text }));
    }

    fn is_gone(&self, seat: Seat) -> bool {
        matches!(self.router.state(seat), Some(SeatState::Bypassed | SeatState::Closed) | None)
    }

    /// Whether a component is live and a restart disturbs nobody: it owes no answer, waits for none, and no turn runs.
    pub(in crate::stages) fn is_idle_component(&self, seat: Seat) -> bool {
        self.is_up(seat)
            && self.router.owed_count(seat) == 0
            && !self.router.pending().is_waiting(seat)
            && self.turns.open_in(seat) == 0
            && self.gate.held(seat).0 == 0
    }
}
