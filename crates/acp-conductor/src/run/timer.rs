//! The timer of the main loop: the deadlines of the core, and the check whether a paused editor has disconnected.

use std::future::Future;
use std::task::Context;
use std::time::Duration;

use engine::Input;
use router::Seat;
use tokio::time::Instant;

use super::Shell;
use crate::seat_io::SeatIo;

/// How often the shell checks whether a paused editor has closed its connection.
const HANG_UP_INTERVAL: Duration = Duration::from_millis(250);

/// How often a process that has exited is looked at while its exit status and its last output are collected.
const EXIT_CHECK_INTERVAL: Duration = Duration::from_millis(20);

impl Shell {
    /// Checks whether a paused editor has closed its connection, which reading would notice only after the
    /// unread data. Returns the time of the next check.
    fn check_hang_up(&mut self) -> Option<Instant> {
        let outer = &mut self.seats[0].link;
        if outer.reading || outer.reader.is_none() {
            self.next_hang_up_check = None;
            return None;
        }
        let due = *self.next_hang_up_check.get_or_insert_with(|| Instant::now() + HANG_UP_INTERVAL);
        if due <= Instant::now() {
            self.next_hang_up_check = None;
            if self.config.hung_up.is_some_and(|hung_up| hung_up()) {
                outer.reader = None;
                let link = engine::LinkId::main(Seat::OUTER);
                self.handle(Input::OutputClosed { link, rest: None });
            }
        }
        Some(due)
    }

    /// Sets the timer to the next deadline. Returns whether a deadline has passed.
    pub(super) fn poll_timer(&mut self, cx: &mut Context<'_>) -> bool {
        let core = self.core.deadline().map(|time| self.started + Duration::from_millis(time.0));
        let Some(next) = core.into_iter().chain(self.check_hang_up()).min() else { return false };
        if self.timer.deadline() != next {
            self.timer.as_mut().reset(next);
        }
        if self.timer.as_mut().poll(cx).is_pending() {
            return false;
        }
        self.update_time();
        if core.is_some_and(|time| time <= Instant::now()) {
            // What the component did says more than that the time is over.
            if self.seats.iter().any(SeatIo::is_exiting) {
                self.timer.as_mut().reset(Instant::now() + EXIT_CHECK_INTERVAL);
                return self.timer.as_mut().poll(cx).is_ready();
            }
            self.report_stderr();
            self.handle(Input::Tick);
        }
        true
    }
}
