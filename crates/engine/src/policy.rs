//! What is to be done when a component fails, and how patient to be.

use router::Time;

/// For a whole chain.
#[derive(Debug, Clone)]
pub struct Rules {
    /// By component, in the order of the chain.
    pub policies: Vec<Policy>,
    pub watch: Watch,
    /// Tell the people in front of the editor what became of their chain.
    pub tell_editor: bool,
    /// From which the jitter of restarts is made.
    pub seed: u64,
}

/// What to do when a component fails that has stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    pub restart: Restart,
    /// When it may not be restarted, or not any more.
    pub then: Then,
    pub pace: Pace,
    /// The user has named this component: it may be left out though it is a guard, or has never answered
    /// `initialize`.
    pub named: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    Never,
    /// An agent that has live sessions, only if it offers to take them up again.
    IfItCan,
    Always,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    Bypass,
    Stop,
}

/// How often to restart, and when. All times are in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// So many restarts are allowed …
    pub most: u32,
    /// … within this time.
    pub within: u64,
    /// The first restart waits up to this long, each further one twice as long as the last …
    pub first: u64,
    /// … but never longer than this.
    pub longest: u64,
    /// The count of restarts resets after this much uptime.
    pub stable: u64,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { most: 5, within: 60_000, first: 100, longest: 10_000, stable: 60_000 }
    }
}

impl Policy {
    pub const STOP: Policy =
        Policy { restart: Restart::Never, then: Then::Stop, pace: Pace::NONE, named: false };

    /// The same for a guard: it is left out only if the user has named it.
    pub fn for_guard(self) -> Policy {
        match self.then {
            Then::Bypass if !self.named => {
                Policy { restart: Restart::Always, then: Then::Stop, ..self }
            }
            _ => self,
        }
    }
}

impl Pace {
    const NONE: Pace = Pace { most: 0, within: 0, first: 0, longest: 0, stable: 0 };

    /// How long to wait before the restart after so many in a row. `random` takes away up to half:
    /// components that failed together do not restart together.
    pub fn delay(&self, attempt: u32, random: u64) -> u64 {
        let factor = 1_u64.checked_shl(attempt.saturating_sub(1)).unwrap_or(u64::MAX);
        let delay = self.first.saturating_mul(factor).min(self.longest);
        delay - random % (delay / 2 + 1)
    }
}

/// How long a component may be silent, in milliseconds. `None`: for ever.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Watch {
    /// With a request that is neither a prompt nor for an MCP server.
    pub answer: Option<u64>,
    /// With a prompt, or a request for an MCP server, while it gives no sign of life.
    pub prompt: Option<u64>,
    /// With something that was cancelled.
    pub cancel: Option<u64>,
}

/// The restarts of one component.
#[derive(Debug, Default)]
pub(crate) struct Restarts {
    /// When it has failed lately.
    failures: Vec<Time>,
    /// In a row, without a stable time between them.
    attempt: u32,
}

impl Restarts {
    /// How often it was restarted in a row.
    pub fn attempts(&self) -> u32 {
        self.attempt
    }

    /// It has failed, having run since then. Says after how long it may be started again, if at all.
    pub fn failed(
        &mut self,
        now: Time,
        since: Option<Time>,
        pace: Pace,
        random: u64,
    ) -> Option<u64> {
        if since.is_some_and(|since| since.plus(pace.stable) <= now) {
            *self = Restarts::default();
        }
        self.failures.retain(|time| time.plus(pace.within) > now);
        if self.failures.len() >= pace.most as usize {
            return None;
        }
        self.failures.push(now);
        self.attempt += 1;
        Some(pace.delay(self.attempt, random))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace { most: 3, within: 1000, first: 100, longest: 350, stable: 5000 };

    #[test]
    fn delays_double_up_to_the_longest_less_a_random_part() {
        let longest: Vec<u64> = (1..=4).map(|attempt| PACE.delay(attempt, 0)).collect();
        assert_eq!(longest, [100, 200, 350, 350]);
        assert!((0..500).all(|random| (50..=100).contains(&PACE.delay(1, random))));
        assert_eq!(PACE.delay(200, 0), 350);
    }

    #[test]
    fn a_guard_is_left_out_only_if_it_is_named() {
        let bypass = Policy { then: Then::Bypass, named: false, ..Policy::STOP };
        let guard = bypass.for_guard();
        assert_eq!((guard.restart, guard.then), (Restart::Always, Then::Stop));
        let named = Policy { named: true, ..bypass }.for_guard();
        assert_eq!((named.restart, named.then), (Restart::Never, Then::Bypass));
        let stops = Policy::STOP.for_guard();
        assert_eq!((stops.restart, stops.then), (Restart::Never, Then::Stop));
    }

    #[test]
    fn a_component_may_fail_so_often_in_so_much_time() {
        let mut restarts = Restarts::default();
        let mut failed = |now, since| restarts.failed(Time(now), since, PACE, 0);
        assert_eq!(failed(0, Some(Time(0))), Some(100));
        assert_eq!(failed(500, None), Some(200));
        assert_eq!(failed(600, None), Some(350));
        assert_eq!(failed(900, None), None);
        // The first failure is too long ago to count.
        assert_eq!(failed(1000, None), Some(350));
        // It has run for long: all is forgotten.
        assert_eq!(failed(7000, Some(Time(2000))), Some(100));
    }
}
