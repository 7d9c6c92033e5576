//! How a schedule comes to rest and to its end, and what must be true then.

use bytes::Bytes;
use engine::{Command, Input};
use router::Seat;

use super::Check;
use super::ledger::{What, violation};
use super::op::Random;
use super::world::World;

impl World {
    /// Moves lines, in any order, until none is left.
    ///
    /// # Errors
    /// The first rule that was broken.
    pub fn run_dry(&mut self, random: &mut Random) -> Check {
        while self.move_one(random.below(256))? {}
        Ok(())
    }

    /// Everybody answers everything, in any order, until nobody owes anything.
    ///
    /// # Errors
    /// The first rule that was broken.
    pub fn answer_all(&mut self, random: &mut Random) -> Check {
        loop {
            let mut busy = false;
            for who in 0..self.players.len() {
                while let Some(ask) = self.pick_owed(who, random.byte()) {
                    self.answer(who, ask, random.chance(4));
                    busy = true;
                }
            }
            self.run_dry(random)?;
            if !busy {
                return Ok(());
            }
        }
    }

    /// Stops the outermost conductor and lets time pass until all have finished.
    ///
    /// # Errors
    /// The first rule that was broken.
    pub fn stop(&mut self, random: &mut Random) -> Check {
        self.stop_conductor(0)?;
        loop {
            self.run_dry(random)?;
            if self.nodes.iter().all(|node| node.finished) {
                return Ok(());
            }
            if !self.pass_time()? {
                return violation("somebody never finishes");
            }
        }
    }

    /// When no line is on its way: whatever was said to somebody who is there has arrived.
    ///
    /// # Errors
    /// The first rule that was broken.
    pub fn check_quiet(&self) -> Check {
        let nested = self.nodes.len() > 1;
        for (serial, said) in self.ledger.said.iter().enumerate() {
            let call = matches!(said.what, What::Ask(_) | What::Note { .. });
            let there = said.fair && call && said.taken && !self.players[said.to].mute;
            // While it ends, a conductor answers its outer pipe itself.
            let refused =
                self.disturbed && (nested || (said.from == 0 && matches!(said.what, What::Ask(_))));
            if there && !said.heard && !refused {
                return violation(format!("message {serial} is lost"));
            }
        }
        for (serial, said, question) in self.ledger.questions() {
            let waits = said.heard && question.answer.is_none();
            if !self.disturbed && waits && question.cancelled && !question.cancel_heard {
                return violation(format!("the cancellation of question {serial} is lost"));
            }
        }
        Ok(())
    }

    /// When everybody has answered everything.
    ///
    /// # Errors
    /// The first rule that was broken.
    pub fn check_rest(&self) -> Check {
        if self.disturbed {
            return Ok(());
        }
        self.check_answers()?;
        match self.nodes.iter().position(|node| node.shell.core().router().open_request_count() > 0)
        {
            Some(conductor) => violation(format!("conductor {conductor} has an open question")),
            None => Ok(()),
        }
    }

    /// When all conductors have finished: nobody was left waiting, and nothing happens any more.
    ///
    /// # Errors
    /// The first rule that was broken.
    pub fn check_end(&mut self) -> Check {
        self.check_answers()?;
        for conductor in 0..self.nodes.len() {
            let core = self.nodes[conductor].shell.core();
            if core.router().open_request_count() > 0 || core.deadline().is_some() {
                return violation(format!(
                    "conductor {conductor} has ended and waits for something"
                ));
            }
            let line = Bytes::from_static(br#"{"id":0,"method":"too/late"}"#);
            let shell = &mut self.nodes[conductor].shell;
            let mut effects = shell.line(self.now, Seat::OUTER, line);
            effects.extend(shell.handle(self.now, Input::Command(Command::Stop)));
            effects.extend(shell.handle(self.now, Input::Tick));
            self.perform(conductor, effects)?;
        }
        Ok(())
    }

    fn check_answers(&self) -> Check {
        for (serial, said, question) in self.ledger.questions() {
            if !said.taken || question.answered {
                continue;
            }
            let asker = &self.players[said.from];
            if !asker.gone && !asker.given_up {
                return violation(format!("question {serial} is never answered"));
            }
        }
        Ok(())
    }
}
