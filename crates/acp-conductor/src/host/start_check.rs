//! A check before each start of a component.

use std::fmt;
use std::sync::Arc;

use router::StartFailure;

/// Checks whether a component may start. It is called directly before each start, also before a restart.
#[derive(Clone)]
pub struct StartCheck(Arc<dyn Fn() -> Result<(), StartFailure> + Send + Sync>);

impl StartCheck {
    /// A check that calls this function.
    pub fn new(check: impl Fn() -> Result<(), StartFailure> + Send + Sync + 'static) -> StartCheck {
        StartCheck(Arc::new(check))
    }

    pub(crate) fn check(&self) -> Result<(), StartFailure> {
        (self.0)()
    }
}

impl fmt::Debug for StartCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StartCheck")
    }
}

/// Checks are equal if they are clones of the same check.
impl PartialEq for StartCheck {
    fn eq(&self, other: &StartCheck) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for StartCheck {}
