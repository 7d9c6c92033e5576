//! How a schedule ends, and the invariants that must hold then.

use bytes::Bytes;
use engine::{Command, Input};
use router::Seat;

use super::Check;
use super::message_log::{MessageKind, violation};
use super::op::Random;
use super::simulation::Simulation;

impl Simulation {
    /// Delivers all lines, in random order.
    ///
    /// # Errors
    /// The first rule that was broken.
    pub fn deliver_all(&mut self, random: &mut Random) -> Check {
        while self.move_one(random.below(256))? {}
        Ok(())
    }

    /// Makes every participant answer all its requests, in random order.
    ///
    /// # Errors
    /// The first rule that was broken.
    pub fn answer_all(&mut self, random: &mut Random) -> Check {
        loop {
            let mut busy = false;
            for index in 0..self.participants.len() {
                while let Some(request) = self.pick_unanswered(index, random.byte()) {
                    self.send_answer(index, request, random.chance(4));
                    busy = true;
                }
            }
            self.deliver_all(random)?;
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
            self.deliver_all(random)?;
            if self.nodes.iter().all(|node| node.finished) {
                return Ok(());
            }
            if !self.pass_time()? {
                return violation("a conductor never finishes");
            }
        }
    }

    /// Checks, when no line is on its way, that every message to a live participant has arrived.
    ///
    /// # Errors
    /// The first rule that was broken.
    pub fn check_delivered(&self) -> Check {
        let nested = self.nodes.len() > 1;
        for (serial, message) in self.messages.sent.iter().enumerate() {
            let call =
                matches!(message.kind, MessageKind::Request(_) | MessageKind::Notification { .. });
            let there = message.must_arrive
                && call
                && message.accepted
                && !self.participants[message.to].silent;
            // A conductor that stops answers the requests from its outer pipe itself.
            let refused = self.disturbed
                && (nested
                    || (message.from == 0 && matches!(message.kind, MessageKind::Request(_))));
            if there && !message.received && !refused {
                return violation(format!("message {serial} is lost"));
            }
        }
        for (serial, message, request) in self.messages.requests() {
            let waits = message.received && request.answer.is_none();
            if !self.disturbed && waits && request.cancelled && !request.cancel_received {
                return violation(format!("the cancellation of request {serial} is lost"));
            }
        }
        Ok(())
    }

    /// Checks, when the participants have answered all requests, that every requester has its answer.
    ///
    /// # Errors
    /// The first rule that was broken.
    pub fn check_answered(&self) -> Check {
        if self.disturbed {
            return Ok(());
        }
        self.check_every_request_is_answered()?;
        match self.nodes.iter().position(|node| node.shell.core().router().open_request_count() > 0)
        {
            Some(conductor) => violation(format!("conductor {conductor} has an open request")),
            None => Ok(()),
        }
    }

    /// Checks, when all conductors have finished, that no request is unanswered and that further inputs have no effect.
    ///
    /// # Errors
    /// The first rule that was broken.
    pub fn check_finished(&mut self) -> Check {
        self.check_every_request_is_answered()?;
        for conductor in 0..self.nodes.len() {
            let core = self.nodes[conductor].shell.core();
            if core.router().open_request_count() > 0 || core.deadline().is_some() {
                return violation(format!(
                    "conductor {conductor} has finished and still waits for something"
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

    fn check_every_request_is_answered(&self) -> Check {
        for (serial, message, request) in self.messages.requests() {
            if !message.accepted || request.answered {
                continue;
            }
            let requester = &self.participants[message.from];
            if !requester.gone && !requester.timed_out {
                return violation(format!("request {serial} is never answered"));
            }
        }
        Ok(())
    }
}
