//! What the shell does when the chain is over: the editor gets what is queued for it, then the components are ended.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use engine::Port;
use router::Seat;

use crate::host::RunningComponent;
use crate::host::leftovers;
use crate::link::Link;
use crate::run::Shell;
use crate::seat_io::SeatIo;

/// How long the last of the components may take to be reaped once they are killed.
const REAP_LIMIT: Duration = Duration::from_secs(1);

impl Shell {
    /// After the end: the outer pipe gets what is queued for it, then the components are ended, at
    /// first by closing their input, so that they can end their own children in good order. All of
    /// it takes one grace period at most: editors wait about that long before they kill us.
    ///
    /// # Errors
    /// Not all could be written to the outer pipe: there is no room for it.
    pub(crate) async fn shut_down(mut self) -> Result<(), String> {
        self.end_components().await;
        // For processes that earlier components of a seat have left behind. A guard process does this, too.
        if let (Some(tag), None) = (self.config.cleanup.tag, self.config.cleanup.reaper)
            && self.seats.iter().any(|io| io.life > 0)
        {
            leftovers::kill_all(&tag.to_string());
        }
        self.write_error.map_or(Ok(()), Err)
    }

    async fn end_components(&mut self) {
        let grace = self.config.limits.grace;
        let _ = tokio::time::timeout(grace, poll_fn(|cx| self.poll_flush(Seat::OUTER, cx))).await;
        self.seats[0].link.hang_up();
        for seat in self.all_seats().skip(1) {
            self.close_idle_inputs(seat);
        }
        if tokio::time::timeout(grace / 2, self.all_exited()).await.is_ok() {
            return;
        }
        self.seats
            .iter()
            .filter_map(|io| io.component.as_ref())
            .for_each(RunningComponent::terminate);
        if tokio::time::timeout(grace / 2, self.all_exited()).await.is_ok() {
            return;
        }
        self.seats.iter().filter_map(|io| io.component.as_ref()).for_each(RunningComponent::kill);
        let _ = tokio::time::timeout(REAP_LIMIT, self.all_exited()).await;
    }

    /// Writes what is queued for a seat. Ready when it is written, or cannot be.
    fn poll_flush(&mut self, seat: Seat, cx: &mut Context<'_>) -> Poll<()> {
        self.write(seat, Port::Main, cx);
        let queued = self.out.queued(engine::Link::main(seat));
        match self.seats[seat.index()].link.is_idle(queued) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    /// Closes the input of a component for which nothing is queued.
    fn close_idle_inputs(&mut self, seat: Seat) {
        for port in [Port::Main, Port::Relay] {
            let queued = self.out.queued(engine::Link { seat, port });
            let link = self.seats[seat.index()].port(port);
            link.filter(|it| it.is_idle(queued)).into_iter().for_each(Link::hang_up);
        }
    }

    /// Waits until all processes have ended. Their output is discarded.
    async fn all_exited(&mut self) {
        poll_fn(|cx| {
            self.answer_status_requests(cx);
            while let Poll::Ready(Some(ended)) = self.ended.1.poll_recv(cx) {
                if self.seat_io(ended.seat).life == ended.life {
                    self.seat_io(ended.seat).component = None;
                }
            }
            for seat in self.all_seats().skip(1) {
                self.write(seat, Port::Main, cx);
                self.write(seat, Port::Relay, cx);
                self.close_idle_inputs(seat);
            }
            for link in self.seats[1..].iter_mut().flat_map(SeatIo::links) {
                while let Some(reader) = &mut link.reader {
                    match link.lines.poll_fill(reader, cx) {
                        Poll::Ready(Ok(1..)) => while link.lines.next_line().is_some() {},
                        Poll::Ready(Ok(0) | Err(_)) => link.reader = None,
                        Poll::Pending => break,
                    }
                }
            }
            match self.seats.iter().all(|io| io.component.is_none()) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }
}
