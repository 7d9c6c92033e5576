//! A limit per minute: the generic cell rate algorithm (GCRA) of `governor`.
//!
//! The state of the algorithm is one time. It is kept here, so that a request can be checked against several limits
//! before any of them counts it, and so that a limit can begin without its burst.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use governor::clock::{Clock, Reference};
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::{NotKeyed, StateStore};
use governor::{Quota, RateLimiter};

/// Requests per minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// How many requests pass in a minute, on average.
    pub per_minute: NonZeroU32,
    /// How many requests pass at once after a pause.
    pub burst: NonZeroU32,
}

impl Rate {
    /// The time in which one request becomes available.
    pub fn period(self) -> Duration {
        Duration::from_secs(60) / self.per_minute.get()
    }
}

/// How many requests a bucket has at its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// The whole burst.
    Full,
    /// One request. The burst fills up with time.
    One,
    /// Nothing: the first request has to wait.
    Empty,
}

/// Counts the requests of one limit.
#[derive(Debug)]
pub struct Bucket {
    rate: Rate,
    state: State,
    time: Time,
    limiter: RateLimiter<NotKeyed, State, Time, NoOpMiddleware<Nanos>>,
}

/// The time of the check.
#[derive(Debug, Clone, Default)]
struct Time(Arc<AtomicU64>);

impl Clock for Time {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        Nanos::new(self.0.load(Ordering::Relaxed))
    }
}

/// The theoretical arrival time of the algorithm, since the bucket was made.
#[derive(Debug, Clone, Default)]
struct State(Arc<StateCell>);

#[derive(Debug, Default)]
struct StateCell {
    arrival: AtomicU64,
    /// Whether a check changes nothing.
    is_dry: AtomicBool,
}

impl StateStore for State {
    type Key = NotKeyed;

    fn measure_and_replace<T, F, E>(&self, _: &NotKeyed, measure: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        // The bucket is used through a mutable reference, so nothing changes in between.
        let arrival = Nanos::new(self.0.arrival.load(Ordering::Relaxed));
        let (outcome, next) = measure(Some(arrival))?;
        if !self.0.is_dry.load(Ordering::Relaxed) {
            self.0.arrival.store(next.as_u64(), Ordering::Relaxed);
        }
        Ok(outcome)
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    duration.as_nanos().try_into().unwrap_or(u64::MAX)
}

impl Bucket {
    /// A bucket that begins now.
    pub fn new(rate: Rate, start: Start, now: Duration) -> Bucket {
        let time = Time::default();
        time.0.store(nanoseconds(now), Ordering::Relaxed);
        let state = State::default();
        let used = match start {
            Start::Full => 0,
            Start::One => rate.burst.get() - 1,
            Start::Empty => rate.burst.get(),
        };
        state.0.arrival.store(nanoseconds(rate.period() * used), Ordering::Relaxed);
        let quota = Quota::per_minute(rate.per_minute).allow_burst(rate.burst);
        let limiter = RateLimiter::new(quota, state.clone(), time.clone());
        Bucket { rate, state, time, limiter }
    }

    /// Its rate.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// How long a request has to wait. Zero if it may pass now.
    pub fn wait(&mut self, now: Duration) -> Duration {
        self.measure(now, true)
    }

    /// Counts a request that may pass. A request that may not pass is not counted.
    pub fn take(&mut self, now: Duration) {
        self.measure(now, false);
    }

    fn measure(&mut self, now: Duration, is_dry: bool) -> Duration {
        // A clock that goes back must not give anything away.
        let now = nanoseconds(now).max(self.time.0.load(Ordering::Relaxed));
        self.time.0.store(now, Ordering::Relaxed);
        self.state.0.is_dry.store(is_dry, Ordering::Relaxed);
        match self.limiter.check() {
            Ok(()) => Duration::ZERO,
            Err(not_until) => {
                let until = not_until.earliest_possible();
                Duration::from_nanos(until.duration_since(Nanos::new(now)).as_u64())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(per_minute: u32, burst: u32) -> Rate {
        let number = |it| NonZeroU32::new(it).expect("not zero");
        Rate { per_minute: number(per_minute), burst: number(burst) }
    }

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    #[test]
    fn a_full_bucket_has_its_burst_and_then_one_request_per_period() {
        let mut bucket = Bucket::new(rate(6, 3), Start::Full, seconds(100));
        for _ in 0..3 {
            assert_eq!(bucket.wait(seconds(100)), Duration::ZERO);
            bucket.take(seconds(100));
        }
        assert_eq!(bucket.wait(seconds(100)), seconds(10));
        assert_eq!(bucket.wait(seconds(104)), seconds(6));
        // A check alone counts nothing, and neither does a request that may not pass.
        bucket.take(seconds(104));
        assert_eq!(bucket.wait(seconds(110)), Duration::ZERO);
        bucket.take(seconds(110));
        assert_eq!(bucket.wait(seconds(110)), seconds(10));
        // After a long pause there is one burst, not more.
        for _ in 0..3 {
            assert_eq!(bucket.wait(seconds(10_000)), Duration::ZERO);
            bucket.take(seconds(10_000));
        }
        assert_eq!(bucket.wait(seconds(10_000)), seconds(10));
    }

    #[test]
    fn a_bucket_without_its_burst_begins_with_one_request() {
        let mut bucket = Bucket::new(rate(6, 3), Start::One, seconds(7));
        assert_eq!(bucket.wait(seconds(7)), Duration::ZERO);
        bucket.take(seconds(7));
        assert_eq!(bucket.wait(seconds(7)), seconds(10));
        bucket.take(seconds(17));
        assert_eq!(bucket.wait(seconds(17)), seconds(10));
        assert_eq!(bucket.wait(seconds(27)), Duration::ZERO);
        let mut empty = Bucket::new(rate(6, 3), Start::Empty, seconds(7));
        assert_eq!(empty.wait(seconds(7)), seconds(10));
    }

    #[test]
    fn a_clock_that_goes_back_gives_nothing_away() {
        let mut bucket = Bucket::new(rate(1, 1), Start::Full, seconds(100));
        bucket.take(seconds(100));
        assert_eq!(bucket.wait(seconds(1)), seconds(60));
        assert_eq!(bucket.wait(seconds(160)), Duration::ZERO);
    }
}
