//! The clock of the reminders.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A clock. Tests use one that they move by hand.
pub trait Clock: Send + Sync {
    /// The time since some fixed moment.
    fn now(&self) -> Duration;

    /// Waits.
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()>>>;
}

/// The clock of the system.
struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// A clock that can be a field of options.
#[derive(Clone)]
pub(super) struct ClockHandle(pub(super) Arc<dyn Clock>);

impl Default for ClockHandle {
    fn default() -> ClockHandle {
        ClockHandle(Arc::new(SystemClock))
    }
}

impl fmt::Debug for ClockHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClockHandle")
    }
}

impl std::ops::Deref for ClockHandle {
    type Target = dyn Clock;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}
