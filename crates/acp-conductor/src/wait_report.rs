//! Reports what a chain waits for while it starts or ends, so that a user does not look at an idle terminal.

use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

/// The time before the first report, and between two reports.
const INTERVAL: Duration = Duration::from_secs(1);

/// Calls a function once a second with the reason for the wait.
pub(crate) struct WaitReport {
    report: Option<fn(&str)>,
    began: Instant,
    next: Pin<Box<Sleep>>,
}

impl WaitReport {
    /// Starts the clock. Nothing is reported if `report` is not set.
    pub(crate) fn new(report: Option<fn(&str)>) -> WaitReport {
        WaitReport { report, began: Instant::now(), next: Box::pin(sleep(INTERVAL)) }
    }

    /// Reports the reason if a second has passed. Registers the task to be polled again.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, reason: impl Fn() -> Option<String>) {
        let Some(report) = self.report else { return };
        while self.next.as_mut().poll(cx).is_ready() {
            self.next.as_mut().reset(Instant::now() + INTERVAL);
            if let Some(reason) = reason() {
                report(&format!("waiting for {reason}… {} s", self.began.elapsed().as_secs()));
            }
        }
    }
}
