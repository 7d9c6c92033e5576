//! The timer of the main loop: the deadlines of the core, and the check whether a paused editor has disconnected.

use std::future::Future;
use std::task::Context;
use std::time::Duration;

use engine::Input;
use router::{Seat, Time};
use tokio::time::Instant;

use super::Shell;
use crate::seat_io::SeatIo;

/// How often the shell checks whether a paused editor has closed its connection.
const HANG_UP_INTERVAL: Duration = Duration::from_millis(250);

/// How often a process that has exited is looked at while its exit status and its last output are collected.
const EXIT_CHECK_INTERVAL: Duration = Duration::from_millis(20);

impl Shell {
    /// Sets the time of the core. If a deadline is over and a process has exited, the time stands still until the exit is
    /// reported: what the component did says more than that it did not do it in time.
    pub(super) fn update_time(&mut self) {
        let now = Time(u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX));
        let is_over = now != self.now && self.core.deadline().is_some_and(|due| due <= now);
        if !(is_over && self.seats.iter().any(SeatIo::is_exiting)) {
            self.now = now;
        }
    }

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
            // The time stands still, see `update_time`.
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
