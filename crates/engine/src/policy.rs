//! What happens when a component fails, and how long the core waits for a component.

use router::Time;

/// The failure handling of a whole chain.
#[derive(Debug, Clone)]
pub struct Rules {
    /// The policy of each component, in the order of the chain.
    pub policies: Vec<ComponentPolicy>,
    /// How long a component may be silent.
    pub timeouts: Timeouts,
    /// Whether the core sends notices about failures to the editor.
    pub notify_editor: bool,
    /// The seed of the random jitter of restart delays.
    pub seed: u64,
}

/// What to do when a component fails after it has answered `initialize`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ComponentPolicy {
    /// Whether the component is restarted.
    pub restart: Restart,
    /// What to do if the component may not be restarted, or has used up its restarts.
    pub fallback: Fallback,
    /// How often and how soon the component is restarted.
    pub backoff: Backoff,
    /// Whether the user has set this policy for this component by name. Such a component may be bypassed even if
    /// it is a guard, or has never answered `initialize`.
    pub named: bool,
}

/// Whether a component is restarted after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// Never.
    Never,
    /// If no session is lost: an agent with live sessions is restarted only if it can resume them.
    IfResumable,
    /// Always.
    Always,
}

/// What to do with a component that is not restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    /// Connect its neighbours directly.
    Bypass,
    /// End the chain.
    Stop,
}

/// How often and how soon a component is restarted. All times are in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// How many restarts are allowed within the `window`.
    pub max_restarts: u32,
    /// The length of the window.
    pub window: u64,
    /// The delay before the first restart. It doubles with each further restart.
    pub first_delay: u64,
    /// The upper limit of the delay.
    pub max_delay: u64,
    /// The count of restarts resets after this much uptime.
    pub reset_after: u64,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff {
            max_restarts: 5,
            window: 60_000,
            first_delay: 100,
            max_delay: 10_000,
            reset_after: 60_000,
        }
    }
}

impl ComponentPolicy {
    /// Ends the chain at the first failure.
    pub const STOP: ComponentPolicy = ComponentPolicy {
        restart: Restart::Never,
        fallback: Fallback::Stop,
        backoff: Backoff::NONE,
        named: false,
    };

    /// The same policy for a guard. A guard is bypassed only if the user has named it.
    pub fn for_guard(self) -> ComponentPolicy {
        match self.fallback {
            Fallback::Bypass if !self.named => {
                ComponentPolicy { restart: Restart::Always, fallback: Fallback::Stop, ..self }
            }
            _ => self,
        }
    }
}

impl Backoff {
    const NONE: Backoff =
        Backoff { max_restarts: 0, window: 0, first_delay: 0, max_delay: 0, reset_after: 0 };

    /// The delay before a restart. `attempt` counts the restarts in a row, from 1. A random part of up to half of the
    /// delay is subtracted, so that components that failed together do not restart together.
    pub fn delay(&self, attempt: u32, random: u64) -> u64 {
        let factor = 1_u64.checked_shl(attempt.saturating_sub(1)).unwrap_or(u64::MAX);
        let delay = self.first_delay.saturating_mul(factor).min(self.max_delay);
        delay - random % (delay / 2 + 1)
    }
}

/// How long a component may be silent, in milliseconds. `None` means no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// Until it answers a request that is neither a prompt nor other long-running work.
    pub answer: Option<u64>,
    /// While it works on a prompt, sets up a session, authenticates, or handles a request for an MCP server. Each
    /// message that the component sends restarts this timeout.
    pub prompt: Option<u64>,
    /// Until it stops work that was cancelled.
    pub cancel: Option<u64>,
}

/// The restarts of one component.
#[derive(Debug, Default)]
pub(crate) struct Restarts {
    /// The failures within the window.
    failures: Vec<Time>,
    /// How many restarts there were in a row, without enough uptime between them.
    attempts: u32,
}

impl Restarts {
    /// How many restarts there were in a row.
    pub(crate) fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Counts a failure of a component that has been up since `since`. Returns the delay before the restart, or
    /// `None` if there were too many failures within the window.
    pub(crate) fn failed(
        &mut self,
        now: Time,
        since: Option<Time>,
        backoff: Backoff,
        random: u64,
    ) -> Option<u64> {
        if since.is_some_and(|since| since.plus(backoff.reset_after) <= now) {
            *self = Restarts::default();
        }
        self.failures.retain(|time| time.plus(backoff.window) > now);
        if self.failures.len() >= backoff.max_restarts as usize {
            return None;
        }
        self.failures.push(now);
        self.attempts += 1;
        Some(backoff.delay(self.attempts, random))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff {
        max_restarts: 3,
        window: 1000,
        first_delay: 100,
        max_delay: 350,
        reset_after: 5000,
    };

    #[test]
    fn the_delay_doubles_up_to_the_maximum_minus_a_random_part() {
        let longest: Vec<u64> = (1..=4).map(|attempt| BACKOFF.delay(attempt, 0)).collect();
        assert_eq!(longest, [100, 200, 350, 350]);
        assert!((0..500).all(|random| (50..=100).contains(&BACKOFF.delay(1, random))));
        assert_eq!(BACKOFF.delay(200, 0), 350);
    }

    #[test]
    fn a_guard_is_bypassed_only_if_the_user_named_it() {
        let bypass =
            ComponentPolicy { fallback: Fallback::Bypass, named: false, ..ComponentPolicy::STOP };
        let guard = bypass.for_guard();
        assert_eq!((guard.restart, guard.fallback), (Restart::Always, Fallback::Stop));
        let named = ComponentPolicy { named: true, ..bypass }.for_guard();
        assert_eq!((named.restart, named.fallback), (Restart::Never, Fallback::Bypass));
        let stops = ComponentPolicy::STOP.for_guard();
        assert_eq!((stops.restart, stops.fallback), (Restart::Never, Fallback::Stop));
    }

    #[test]
    fn restarts_are_limited_within_the_window() {
        let mut restarts = Restarts::default();
        let mut failed = |now, since| restarts.failed(Time(now), since, BACKOFF, 0);
        assert_eq!(failed(0, Some(Time(0))), Some(100));
        assert_eq!(failed(500, None), Some(200));
        assert_eq!(failed(600, None), Some(350));
        assert_eq!(failed(900, None), None);
        // The first failure is outside the window.
        assert_eq!(failed(1000, None), Some(350));
        // The uptime resets the count.
        assert_eq!(failed(7000, Some(Time(2000))), Some(100));
    }
}
