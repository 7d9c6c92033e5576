//! Lets requests wait until the limiter lets them pass.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::limiter::{Decision, Kind, Limiter, Progress, Reached, Ticket};

type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A clock that only goes forward, and a timer.
#[derive(Clone)]
pub struct Clock {
    now: Arc<dyn Fn() -> Duration + Send + Sync>,
    sleep: Arc<dyn Fn(Duration) -> Sleep + Send + Sync>,
}

impl Clock {
    /// A clock and a timer for tests.
    pub fn new(
        now: impl Fn() -> Duration + Send + Sync + 'static,
        sleep: impl Fn(Duration) -> Sleep + Send + Sync + 'static,
    ) -> Clock {
        Clock { now: Arc::new(now), sleep: Arc::new(sleep) }
    }

    /// The clock of the system.
    pub fn system() -> Clock {
        let start = Instant::now();
        Clock::new(move || start.elapsed(), |time| Box::pin(tokio::time::sleep(time)))
    }

    /// The time since the clock began.
    pub fn now(&self) -> Duration {
        (self.now)()
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}

/// The limiter of a chain, which outlives the restarts of its component.
#[derive(Debug, Clone)]
pub struct Gate {
    limiter: Arc<Mutex<Limiter>>,
    changed: Arc<Notify>,
    clock: Clock,
}

/// A request that has passed. Dropping it ends the request.
#[derive(Debug)]
pub struct Permit {
    gate: Gate,
    ticket: Ticket,
    /// How long the request has waited.
    pub waited: Duration,
    on_drop: OnDrop,
}

/// What happens to a request when its permit is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnDrop {
    /// It ends.
    End,
    /// It is still counted for a while.
    Abandon,
    /// It runs until somebody else ends it.
    Keep,
}

/// Why a request has not passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// It was refused. The second value is when to try again.
    Refused(Reached, Duration),
    /// It was cancelled while it waited.
    Cancelled,
}

impl Gate {
    /// A gate with this limiter.
    pub fn new(limiter: Limiter, clock: Clock) -> Gate {
        Gate { limiter: Arc::new(Mutex::new(limiter)), changed: Arc::default(), clock }
    }

    /// The limiter.
    pub fn limiter(&self) -> MutexGuard<'_, Limiter> {
        self.limiter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the limiter, and wakes the requests that wait.
    pub fn change<R>(&self, act: impl FnOnce(&mut Limiter) -> R) -> R {
        let result = act(&mut self.limiter());
        self.changed.notify_waiters();
        result
    }

    /// The component was restarted without its memory.
    pub fn restart(&self) {
        self.change_now(Limiter::restart);
    }

    /// Changes the limiter at the present time.
    pub fn change_now<R>(&self, act: impl FnOnce(&mut Limiter, Duration) -> R) -> R {
        let now = self.clock.now();
        self.change(|limiter| act(limiter, now))
    }

    /// Waits until a request may pass. `on_wait` is called once if it has to wait. `cancelled` ends when the requester
    /// gives up.
    ///
    /// # Errors
    /// The request may not pass.
    pub async fn enter(
        &self,
        kind: Kind,
        session: &str,
        on_wait: impl FnOnce(&Reached),
        cancelled: impl Future<Output = ()>,
    ) -> Result<Permit, Stopped> {
        let since = self.clock.now();
        let decision = self.limiter().arrive(kind, session, since);
        self.wake_passed();
        match decision {
            Decision::Pass(ticket) => {
                let (gate, waited) = (self.clone(), Duration::ZERO);
                Ok(Permit { gate, ticket, waited, on_drop: OnDrop::End })
            }
            Decision::Refuse(reached, after) => Err(Stopped::Refused(reached, after)),
            Decision::Wait(ticket, reached) => {
                let place = Place { gate: self, ticket, is_done: false };
                on_wait(&reached);
                self.wait(place, since, cancelled).await
            }
        }
    }

    async fn wait(
        &self,
        mut place: Place<'_>,
        since: Duration,
        cancelled: impl Future<Output = ()>,
    ) -> Result<Permit, Stopped> {
        let max_wait = self.limiter().rules().max_wait.unwrap_or_default();
        let mut cancelled = std::pin::pin!(cancelled);
        loop {
            // Before the limiter is asked, so that no change is missed.
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            let now = self.clock.now();
            let progress = self.limiter().progress(place.ticket, now);
            self.wake_passed();
            let wait = match progress {
                Progress::Pass => {
                    place.is_done = true;
                    let (ticket, waited) = (place.ticket, now.saturating_sub(since));
                    let (gate, on_drop) = (self.clone(), OnDrop::End);
                    return Ok(Permit { gate, ticket, waited, on_drop });
                }
                Progress::Cancelled => {
                    place.is_done = true;
                    return Err(Stopped::Cancelled);
                }
                Progress::Wait(wait) => wait,
            };
            let left = (since + max_wait).saturating_sub(now);
            if left.is_zero() {
                place.is_done = true;
                let (reached, after) = self.change(|it| it.give_up(place.ticket, now));
                return Err(Stopped::Refused(reached, after));
            }
            let sleep = (self.clock.sleep)(wait.map_or(left, |wait| wait.min(left)));
            tokio::select! {
                () = changed => {}
                () = sleep => {}
                () = &mut cancelled => return Err(Stopped::Cancelled),
            }
        }
    }

    /// Wakes the handlers of requests that may pass now.
    fn wake_passed(&self) {
        if self.limiter().take_news() {
            self.changed.notify_waiters();
        }
    }
}

impl Permit {
    /// The request has started a terminal, and ends with it.
    pub fn keep_for_terminal(mut self, session: &str, id: &str) {
        let is_kept = self.gate.limiter().begin_terminal(session, id, self.ticket);
        self.on_drop = if is_kept { OnDrop::Keep } else { OnDrop::End };
    }

    /// What the request has started may outlive a crash of the component: without [`Permit::end`], it is still counted for
    /// a while.
    pub fn outlives_a_crash(mut self) -> Permit {
        self.on_drop = OnDrop::Abandon;
        self
    }

    /// The request was answered.
    pub fn end(mut self) {
        self.on_drop = OnDrop::End;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        match self.on_drop {
            OnDrop::End => self.gate.change(|limiter| limiter.end(self.ticket)),
            OnDrop::Abandon => {
                self.gate.change_now(|limiter, now| limiter.abandon(self.ticket, now));
            }
            OnDrop::Keep => {}
        }
    }
}

/// The place of a request that waits. Dropping it leaves the queue.
struct Place<'a> {
    gate: &'a Gate,
    ticket: Ticket,
    is_done: bool,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.gate.change(|limiter| limiter.leave(self.ticket));
        }
    }
}
