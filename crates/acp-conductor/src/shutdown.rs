//! The end of a chain: writes what is queued for the editor, then stops the components.

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
use crate::wait_report::WaitReport;

/// How long to wait for the exit of components after they were killed.
const REAP_TIMEOUT: Duration = Duration::from_secs(1);

impl Shell {
    /// Flushes the outer pipe and stops the components. First their input is closed, so that they can stop
    /// their own children. Then they get SIGTERM, and finally SIGKILL. Editors kill the conductor if it takes
    /// much longer than the grace period.
    ///
    /// # Errors
    /// The outer pipe is a file, and the disk is full.
    pub(crate) async fn shut_down(mut self) -> Result<(), String> {
        self.stop_components().await;
        // Earlier components of a seat may have left processes behind. If there is a reaper, it kills them.
        if let (Some(tag), None) = (self.config.cleanup.tag, self.config.cleanup.reaper)
            && self.seats.iter().any(|io| io.incarnation > 0)
        {
            leftovers::kill_all(&tag.to_string());
        }
        self.write_error.map_or(Ok(()), Err)
    }

    async fn stop_components(&mut self) {
        let grace = self.config.limits.grace;
        let mut wait = WaitReport::new(self.config.report_wait);
        let _ = tokio::time::timeout(grace, poll_fn(|cx| self.poll_flush(Seat::OUTER, cx))).await;
        self.seats[0].link.close_writer();
        for seat in self.all_seats().skip(1) {
            self.close_idle_inputs(seat);
        }
        if tokio::time::timeout(grace / 2, self.all_exited(&mut wait)).await.is_ok() {
            return;
        }
        self.seats
            .iter()
            .filter_map(|io| io.component.as_ref())
            .for_each(RunningComponent::terminate);
        if tokio::time::timeout(grace / 2, self.all_exited(&mut wait)).await.is_ok() {
            return;
        }
        self.seats.iter().filter_map(|io| io.component.as_ref()).for_each(RunningComponent::kill);
        let _ = tokio::time::timeout(REAP_TIMEOUT, self.all_exited(&mut wait)).await;
    }

    /// Writes the queue of a seat. Ready when the queue is empty or the peer has closed the pipe.
    fn poll_flush(&mut self, seat: Seat, cx: &mut Context<'_>) -> Poll<()> {
        self.write(seat, Port::Main, cx);
        let queued = self.out.queued(engine::LinkId::main(seat));
        match self.seats[seat.index()].link.is_idle(queued) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    /// Closes the input of a component if its queue is empty.
    fn close_idle_inputs(&mut self, seat: Seat) {
        for port in [Port::Main, Port::Relay] {
            let queued = self.out.queued(engine::LinkId { seat, port });
            let link = self.seats[seat.index()].port(port);
            link.filter(|it| it.is_idle(queued)).into_iter().for_each(Link::close_writer);
        }
    }

    /// The components that have not answered all requests yet, as a reason to wait.
    pub(crate) fn open_requests_of(&self) -> Option<String> {
        let chain = self.router().chain();
        let owes = |seat: &Seat| self.router().requests().any(|it| it.responder == *seat);
        let names: Vec<&str> = chain.seats().filter(owes).map(|seat| chain.name(seat)).collect();
        (!names.is_empty()).then(|| format!("{} to answer open requests", names.join(", ")))
    }

    /// The components that are still running, as a reason to wait.
    fn running_components(&self) -> Option<String> {
        let chain = self.router().chain();
        let runs = |seat: &Seat| self.seats[seat.index()].component.is_some();
        let names: Vec<&str> = chain.seats().filter(runs).map(|seat| chain.name(seat)).collect();
        (!names.is_empty()).then(|| format!("{} to exit", names.join(", ")))
    }

    /// Waits until all components have exited. Discards their output.
    async fn all_exited(&mut self, wait: &mut WaitReport) {
        poll_fn(|cx| {
            wait.poll(cx, || self.running_components());
            self.answer_status_requests(cx);
            while let Poll::Ready(Some(exit)) = self.exits.1.poll_recv(cx) {
                if self.seat_io(exit.seat).incarnation == exit.incarnation {
                    self.seat_io(exit.seat).component = None;
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
