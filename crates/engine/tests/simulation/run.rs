//! Runs a case to its end, and checks what must hold then.

use acp_wire::Message;
use engine::journal::Recorder;
use engine::{Command, Input, Overdue, Reload};
use router::{ExitCause, Seat, Time};

use crate::case::{Case, Failure, FailureKind};
use crate::editor::EditorAction;
use crate::fault_injection::{Fault, Injector};
use crate::link::ProcessState;
use crate::message_log::Check;
use crate::world::World;

/// No case transfers as many lines.
const MAX_MOVES: usize = 20_000;
/// No case has as many deadlines in a row without a line.
const MAX_TICKS: usize = 300;

/// The slot of the session that the epilogue opens.
const LAST_SLOT: usize = 9;

/// Runs a case. Returns how many lines were transferred before its epilogue.
pub fn run(case: &Case, injector: Option<Injector>) -> Result<usize, String> {
    World::new(case, injector).run()
}

/// Runs a case again and returns its trace.
pub fn trace(case: &Case, injector: Option<Injector>) -> String {
    let mut world = World::new(case, injector);
    world.trace = Some(Vec::new());
    let outcome = world.run();
    let lines = world.trace.take().unwrap_or_default().join("\n");
    format!("{lines}\n{outcome:?}")
}

/// Runs a case again and returns its journal.
pub fn record(case: &Case) -> Vec<u8> {
    let mut world = World::new(case, None);
    world.journal = Some(Recorder::new(&world.setup));
    // The journal is of interest even if the case fails.
    let _ = world.run();
    world.journal.take().map(|mut it| it.take()).unwrap_or_default()
}

impl World {
    /// Runs the case.
    pub fn run(&mut self) -> Result<usize, String> {
        self.editor.tolerates_failures =
            self.case.failures.iter().any(|failure| failure.what == FailureKind::Loop);
        self.with_participant(0, |participant, outbox| participant.wake(outbox))?;
        self.settle()?;
        let moved = self.moved;
        if self.finished.is_none() && !self.editor.gave_up {
            self.trace(|| "epilogue".to_owned());
            self.epilogue()?;
        }
        if self.finished.is_none() {
            self.check_rest()?;
            self.input(Input::Command(Command::Stop))?;
            self.settle()?;
            if self.finished.is_none() {
                return Err("the chain does not end".into());
            }
        } else {
            self.check_reason()?;
        }
        self.check_end()?;
        Ok(moved)
    }

    /// Checks that after all failures, every session works and a new session can be set up.
    fn epilogue(&mut self) -> Check {
        let prompt = |slot| EditorAction::Prompt { slot, plan: "uxtxu".into(), must_succeed: true };
        let known = self.editor.slots();
        self.editor
            .append_script(known.iter().flat_map(|slot| [prompt(*slot), EditorAction::Wait]));
        self.editor.append_script([
            EditorAction::New(LAST_SLOT),
            EditorAction::Wait,
            prompt(LAST_SLOT),
            EditorAction::Wait,
        ]);
        let all = known.iter().copied().chain([LAST_SLOT]);
        self.editor
            .append_script(all.flat_map(|slot| [EditorAction::Close(slot), EditorAction::Wait]));
        self.with_participant(0, |participant, outbox| participant.wake(outbox))?;
        self.settle()?;
        match self.editor.is_done() || self.finished.is_some() {
            true => Ok(()),
            false => Err(format!("the editor waits forever: {:?}", self.editor)),
        }
    }

    /// Transfers lines and advances the clock until nothing is left to do.
    fn settle(&mut self) -> Check {
        let mut ticks = 0;
        loop {
            self.apply_due_failures()?;
            if self.moved > MAX_MOVES {
                return Err("lines are transferred forever".into());
            }
            if self.move_one()? {
                ticks = 0;
                continue;
            }
            if self.finished.is_some() {
                return Ok(());
            }
            ticks += 1;
            if ticks > MAX_TICKS {
                return Err("there is always another deadline".into());
            }
            let alarm = self.next_timer();
            let deadline = self.core.deadline();
            match (alarm, deadline) {
                (None, None) => return Ok(()),
                (Some((time, place)), deadline) if deadline.is_none_or(|it| time <= it) => {
                    self.now = self.now.max(time);
                    self.check_work(place)?;
                    self.with_participant(place, |participant, outbox| participant.wake(outbox))?;
                }
                (_, Some(time)) => self.tick(time)?,
                (Some(_), None) => {}
            }
        }
    }

    /// Checks that the agent does not work on a prompt whose requester is gone.
    fn check_work(&self, place: usize) -> Check {
        let far = self.topology.proxies.len() + 1;
        if place != far || !self.topology.editor || self.finished.is_some() {
            return Ok(());
        }
        let router = self.core.router();
        if router.is_ending() {
            return Ok(());
        }
        let seat = Seat(far as u16);
        let lost = self.agent.turns.iter().find(|it| !it.cancelled && !router.owes(seat, &it.id));
        match lost {
            Some(turn) => Err(format!(
                "the agent works on {}, but no component waits for the answer",
                turn.id
            )),
            None => Ok(()),
        }
    }

    fn tick(&mut self, time: Time) -> Check {
        self.now = self.now.max(time);
        let overdue = self.core.overdue(self.now, &self.out);
        if let Some(Overdue::Unresponsive(seat, how)) =
            overdue.filter(|_| self.fault != Some(Fault::NoTimeouts))
        {
            let stalled = self.links[seat.index()].state == ProcessState::Stalled;
            // It is not always clear which component ignores a cancellation.
            let excused = stalled || self.topology.traits.never_stops;
            if !excused {
                return Err(format!("{seat:?} is considered stuck without a reason: {how:?}"));
            }
            self.record_failure();
        }
        self.input(Input::Tick)
    }

    /// Counts a failure.
    pub fn record_failure(&mut self) {
        self.failure_count += 1;
        self.log.had_failures = true;
    }

    fn apply_due_failures(&mut self) -> Check {
        while let Some(failure) = self.failures.front().copied()
            && failure.at <= self.moved
        {
            self.failures.pop_front();
            self.apply_failure(failure)?;
        }
        Ok(())
    }

    /// Lets a failure happen.
    pub fn apply_failure(&mut self, failure: Failure) -> Check {
        let seat = usize::from(failure.seat);
        let alive = self.links[seat].state == ProcessState::Running;
        self.trace(|| format!("*** {failure}"));
        match failure.what {
            FailureKind::Die | FailureKind::Loop
                if alive || self.links[seat].state == ProcessState::Stalled =>
            {
                self.record_failure();
                self.die(seat, ExitCause::Signal(9));
            }
            FailureKind::Shut if alive => {
                self.record_failure();
                self.links[seat].state = ProcessState::OutputClosed;
                self.close_output(seat, None);
            }
            FailureKind::Stall if alive => {
                self.record_failure();
                self.links[seat].state = ProcessState::Stalled;
            }
            FailureKind::Cancel => return self.perform_editor_action(EditorAction::CancelRequest),
            FailureKind::CancelSession => {
                let slot = self.editor.slots().first().copied().unwrap_or_default();
                return self.perform_editor_action(EditorAction::CancelSession(slot));
            }
            FailureKind::Leave if alive => {
                self.record_failure();
                self.links[seat].state = ProcessState::OutputClosed;
                self.close_output(seat, None);
            }
            FailureKind::Full => self.endpoints.fails_next = true,
            FailureKind::Absent => self.absent[seat] = true,
            FailureKind::Reload => {
                let (setup, changed) = (self.setup.clone(), Seat(failure.seat));
                let reload = Reload {
                    chain: setup.chain,
                    rules: setup.rules,
                    facts: setup.facts,
                    kept_telemetry: setup.kept_telemetry,
                    restarted: vec![changed],
                    tapped: true,
                    notices: Vec::new(),
                    about: setup.about,
                    now: false,
                };
                return self.input(Input::Reload(Box::new(reload)));
            }
            FailureKind::Stop => {
                self.record_failure();
                return self.input(Input::Command(Command::Stop));
            }
            _ => {}
        }
        Ok(())
    }

    fn perform_editor_action(&mut self, action: EditorAction) -> Check {
        if self.links[0].state != ProcessState::Running {
            return Ok(());
        }
        self.with_participant(0, |participant, outbox| participant.act(action, outbox))
    }

    /// Checks that nothing is left when all requests are answered and all sessions are closed.
    fn check_rest(&mut self) -> Check {
        if let Some(text) = self.log.unanswered(|process| self.is_running(process)) {
            return Err(text);
        }
        if let Some(text) = self.log.unused_panel() {
            return Err(text);
        }
        // A stalled component without a pending request is noticed only at its next request.
        if self.links.iter().any(|link| link.state == ProcessState::Stalled) {
            return Ok(());
        }
        let links = (0..self.links.len()).map(|seat| engine::LinkId::main(Seat(seat as u16)));
        if let Some(link) = links.into_iter().find(|link| self.out.queued(*link) > 0) {
            return Err(format!("queued bytes are never written to {link:?}"));
        }
        if let Some(seat) = self.links.iter().position(|link| !link.reading) {
            return Err(format!("seat {seat} is still paused"));
        }
        let sizes = self.core.stages().sizes();
        if sizes.iter().any(|size| *size > 0) {
            return Err(format!("tables are not empty: {sizes:?}"));
        }
        if self.endpoints.len() > 0 {
            return Err(format!("{} endpoints are still open", self.endpoints.len()));
        }
        if self.core.stages().live_sessions() > 0 {
            return Err(format!(
                "{} closed sessions are still recorded",
                self.core.stages().live_sessions()
            ));
        }
        if let Some(time) = self.core.deadline() {
            return Err(format!("there is a deadline at {time:?}"));
        }
        match self.agent.turns.iter().find(|turn| !turn.cancelled) {
            Some(turn) => Err(format!("the agent still works on {}", turn.id)),
            None => Ok(()),
        }
    }

    /// Checks that the chain has ended for a reason.
    fn check_reason(&self) -> Check {
        let traits = self.topology.traits;
        let ends_chain = |seat: u16| {
            let agent = self.topology.editor && usize::from(seat) == self.topology.components();
            agent && !traits.load && !traits.resume && !self.case.has("always")
        };
        let excused = self.case.has("stop")
            || !self.editor.initialized
            || self.failure_count > 10
            || traits.never_stops && ends_chain(self.topology.components() as u16)
            || self.case.failures.iter().any(|failure| match failure.what {
                FailureKind::Loop | FailureKind::Leave | FailureKind::Stop => true,
                FailureKind::Die | FailureKind::Shut | FailureKind::Stall | FailureKind::Absent => {
                    ends_chain(failure.seat)
                }
                FailureKind::Cancel
                | FailureKind::CancelSession
                | FailureKind::Full
                | FailureKind::Reload => false,
            });
        match excused {
            true => Ok(()),
            false => Err(format!("the chain ends without a reason: {:?}", self.finished)),
        }
    }

    /// Checks what must hold after the end of the chain.
    fn check_end(&mut self) -> Check {
        if self.core.stages().deadline().is_some()
            || self.core.stages().router().open_request_count() > 0
        {
            return Err("the chain has ended, but has a deadline or an open request".into());
        }
        let left = self.links[0].state != ProcessState::Running;
        let unread: Vec<String> = self.unread_of_editor();
        match self.log.unanswered_except(|process| process.place == 0 && !left, &unread) {
            Some(text) => Err(text),
            None => Ok(()),
        }
    }

    /// The ids of requests of the editor that the conductor had not read when the chain ended.
    fn unread_of_editor(&self) -> Vec<String> {
        let lines = self.lines_of_editor();
        let ids = lines.iter().filter_map(|line| match Message::parse(line).ok()? {
            Message::Request { id, .. } => Some(id.json().as_str().to_owned()),
            _ => None,
        });
        ids.collect()
    }
}
