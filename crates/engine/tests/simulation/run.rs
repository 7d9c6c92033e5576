//! How a case is played to its end, and what must be true when nothing moves any more.

use acp_wire::Message;
use engine::journal::Recorder;
use engine::{Command, Input, Overdue};
use router::{ExitCause, Seat, Time};

use crate::bug::{Bug, Saboteur};
use crate::case::{Case, Fault, What};
use crate::editor::Act;
use crate::ledger::Check;
use crate::link::State;
use crate::world::World;

/// No case takes as many lines.
const MOST_MOVES: usize = 20_000;
/// Nothing waits for as many deadlines without a word.
const MOST_TICKS: usize = 300;

/// The session that is opened to see whether that still works.
const LAST_SLOT: usize = 9;

/// Plays a case. Says how many lines have moved before its epilogue.
pub fn play(case: &Case, saboteur: Option<Saboteur>) -> Result<usize, String> {
    World::new(case, saboteur).play()
}

/// Plays a case again and tells all of it.
pub fn tell(case: &Case, saboteur: Option<Saboteur>) -> String {
    let mut world = World::new(case, saboteur);
    world.trace = Some(Vec::new());
    let outcome = world.play();
    let told = world.trace.take().unwrap_or_default().join("\n");
    format!("{told}\n{outcome:?}")
}

/// Plays a case again and records it.
pub fn record(case: &Case) -> Vec<u8> {
    let mut world = World::new(case, None);
    world.journal = Some(Recorder::new(&world.setup));
    // It is wanted whether the case fails or not.
    let _ = world.play();
    world.journal.take().map(|mut it| it.take()).unwrap_or_default()
}

impl World {
    pub fn play(&mut self) -> Result<usize, String> {
        self.editor.patient = self.case.faults.iter().any(|fault| fault.what == What::Loop);
        self.with_player(0, |player, pen| player.wake(pen))?;
        self.settle()?;
        let moved = self.moved;
        if self.finished.is_none() && !self.editor.gave_up {
            self.tell(|| "epilogue".to_owned());
            self.epilogue()?;
        }
        if self.finished.is_none() {
            self.check_rest()?;
            self.input(Input::Command(Command::Stop))?;
            self.settle()?;
            if self.finished.is_none() {
                return Err("it does not end".into());
            }
        } else {
            self.check_reason()?;
        }
        self.check_end()?;
        Ok(moved)
    }

    /// Whatever has happened: what was begun can be used, and something new can be begun.
    fn epilogue(&mut self) -> Check {
        let must = |slot| Act::Prompt { slot, plan: "uxtxu".into(), must: true };
        let known = self.editor.slots();
        self.editor.follow(known.iter().flat_map(|slot| [must(*slot), Act::Wait]));
        self.editor.follow([Act::New(LAST_SLOT), Act::Wait, must(LAST_SLOT), Act::Wait]);
        let all = known.iter().copied().chain([LAST_SLOT]);
        self.editor.follow(all.flat_map(|slot| [Act::Close(slot), Act::Wait]));
        self.with_player(0, |player, pen| player.wake(pen))?;
        self.settle()?;
        match self.editor.is_done() || self.finished.is_some() {
            true => Ok(()),
            false => Err(format!("the editor waits for ever: {:?}", self.editor)),
        }
    }

    /// Moves lines and lets time pass until there is neither.
    fn settle(&mut self) -> Check {
        let mut ticks = 0;
        loop {
            self.strike_what_is_due()?;
            if self.moved > MOST_MOVES {
                return Err("it never comes to rest".into());
            }
            if self.move_one()? {
                ticks = 0;
                continue;
            }
            if self.finished.is_some() {
                return Ok(());
            }
            ticks += 1;
            if ticks > MOST_TICKS {
                return Err("the clock goes on for ever".into());
            }
            let alarm = self.next_alarm();
            let deadline = self.core.deadline();
            match (alarm, deadline) {
                (None, None) => return Ok(()),
                (Some((time, place)), deadline) if deadline.is_none_or(|it| time <= it) => {
                    self.now = self.now.max(time);
                    self.check_work(place)?;
                    self.with_player(place, |player, pen| player.wake(pen))?;
                }
                (_, Some(time)) => self.tick(time)?,
                (Some(_), None) => {}
            }
        }
    }

    /// Nobody works for nobody: who goes on has not been told that nobody waits for it.
    fn check_work(&self, place: usize) -> Check {
        let far = self.cast.proxies.len() + 1;
        if place != far || !self.cast.editor || self.finished.is_some() {
            return Ok(());
        }
        let router = self.core.router();
        if router.is_ending() {
            return Ok(());
        }
        let seat = Seat(far as u16);
        let lost = self.agent.turns.iter().find(|it| !it.called_off && !router.owes(seat, &it.id));
        match lost {
            Some(turn) => Err(format!("the agent works for nobody on {}", turn.id)),
            None => Ok(()),
        }
    }

    fn tick(&mut self, time: Time) -> Check {
        self.now = self.now.max(time);
        let overdue = self.core.overdue(self.now, &self.out);
        if let Some(Overdue::Unresponsive(seat, how)) =
            overdue.filter(|_| self.bug != Some(Bug::Blind))
        {
            let stalled = self.links[seat.index()].state == State::Stalled;
            // It is not always clear which component ignores a cancellation.
            let excused = stalled || self.cast.nature.stubborn;
            if !excused {
                return Err(format!("{seat:?} is given up for nothing: {how:?}"));
            }
            self.disturb();
        }
        self.input(Input::Tick)
    }

    pub fn disturb(&mut self) {
        self.struck += 1;
        self.ledger.disturbed = true;
    }

    fn strike_what_is_due(&mut self) -> Check {
        while let Some(fault) = self.faults.front().copied()
            && fault.at <= self.moved
        {
            self.faults.pop_front();
            self.strike(fault)?;
        }
        Ok(())
    }

    pub fn strike(&mut self, fault: Fault) -> Check {
        let seat = usize::from(fault.seat);
        let alive = self.links[seat].state == State::Alive;
        self.tell(|| format!("*** {fault}"));
        match fault.what {
            What::Die | What::Loop if alive || self.links[seat].state == State::Stalled => {
                self.disturb();
                self.die(seat, ExitCause::Signal(9));
            }
            What::Shut if alive => {
                self.disturb();
                self.links[seat].state = State::Mute;
                self.close_output(seat, None);
            }
            What::Stall if alive => {
                self.disturb();
                self.links[seat].state = State::Stalled;
            }
            What::Cancel => return self.editor_does(Act::Cancel),
            What::Halt => {
                let slot = self.editor.slots().first().copied().unwrap_or_default();
                return self.editor_does(Act::Halt(slot));
            }
            What::Leave if alive => {
                self.disturb();
                self.links[seat].state = State::Mute;
                self.close_output(seat, None);
            }
            What::Full => self.desk.full = true,
            What::Absent => self.absent[seat] = true,
            What::Stop => {
                self.disturb();
                return self.input(Input::Command(Command::Stop));
            }
            _ => {}
        }
        Ok(())
    }

    fn editor_does(&mut self, act: Act) -> Check {
        if self.links[0].state != State::Alive {
            return Ok(());
        }
        self.with_player(0, |player, pen| player.act(act, pen))
    }

    /// When all is answered and all sessions are closed.
    fn check_rest(&mut self) -> Check {
        if let Some(text) = self.ledger.unanswered(|life| self.is_there(life)) {
            return Err(text);
        }
        // Who says nothing and owes nothing is found out when it is next asked something.
        if self.links.iter().any(|link| link.state == State::Stalled) {
            return Ok(());
        }
        let links = (0..self.links.len()).map(|seat| engine::Link::main(Seat(seat as u16)));
        if let Some(link) = links.into_iter().find(|link| self.out.queued(*link) > 0) {
            return Err(format!("something is never written to {link:?}"));
        }
        if let Some(seat) = self.links.iter().position(|link| !link.reading) {
            return Err(format!("seat {seat} is not read again"));
        }
        let sizes = self.core.stages().sizes();
        if sizes.iter().any(|size| *size > 0) {
            return Err(format!("something is left: {sizes:?}"));
        }
        if self.desk.len() > 0 {
            return Err(format!("{} places are open that nobody needs", self.desk.len()));
        }
        if self.core.stages().live_sessions() > 0 {
            return Err(format!(
                "{} closed sessions are remembered",
                self.core.stages().live_sessions()
            ));
        }
        if let Some(time) = self.core.deadline() {
            return Err(format!("something is waited for until {time:?}"));
        }
        match self.agent.turns.iter().find(|turn| !turn.called_off) {
            Some(turn) => Err(format!("the agent still works on {}", turn.id)),
            None => Ok(()),
        }
    }

    /// The chain has ended by itself: was there a reason?
    fn check_reason(&self) -> Check {
        let nature = self.cast.nature;
        let mortal = |seat: u16| {
            let agent = self.cast.editor && usize::from(seat) == self.cast.components();
            agent && !nature.load && !nature.resume && !self.case.has("always")
        };
        let excused = self.case.has("stop")
            || !self.editor.greeted
            || self.struck > 10
            || nature.stubborn && mortal(self.cast.components() as u16)
            || self.case.faults.iter().any(|fault| match fault.what {
                What::Loop | What::Leave | What::Stop => true,
                What::Die | What::Shut | What::Stall | What::Absent => mortal(fault.seat),
                What::Cancel | What::Halt | What::Full => false,
            });
        match excused {
            true => Ok(()),
            false => Err(format!("the chain ends for nothing: {:?}", self.finished)),
        }
    }

    fn check_end(&mut self) -> Check {
        if self.core.stages().deadline().is_some()
            || self.core.stages().router().open_request_count() > 0
        {
            return Err("it has ended and waits for something".into());
        }
        let left = self.links[0].state != State::Alive;
        let unread: Vec<String> = self.unread_of_editor();
        match self.ledger.unanswered_but(|life| life.place == 0 && !left, &unread) {
            Some(text) => Err(text),
            None => Ok(()),
        }
    }

    /// The ids of requests that the conductor has not read before its end.
    fn unread_of_editor(&self) -> Vec<String> {
        let lines = self.lines_of_editor();
        let ids = lines.iter().filter_map(|line| match Message::parse(line).ok()? {
            Message::Request { id, .. } => Some(id.json().as_str().to_owned()),
            _ => None,
        });
        ids.collect()
    }
}
