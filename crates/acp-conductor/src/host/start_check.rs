//! A check before each start of a component.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use router::StartFailure;

/// Checks whether a component may start. It is called directly before each start, also before a restart.
#[derive(Clone)]
pub struct StartCheck {
    check: Arc<dyn Fn() -> Result<(), StartFailure> + Send + Sync>,
    /// What the check compares, and with what.
    compared: BTreeMap<PathBuf, String>,
}

impl StartCheck {
    /// A check that calls this function. It compares these files with these contents.
    pub fn new(
        compared: BTreeMap<PathBuf, String>,
        check: impl Fn() -> Result<(), StartFailure> + Send + Sync + 'static,
    ) -> StartCheck {
        StartCheck { check: Arc::new(check), compared }
    }

    pub(crate) fn check(&self) -> Result<(), StartFailure> {
        (self.check)()
    }
}

impl fmt::Debug for StartCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StartCheck")
    }
}

/// Checks are equal if they compare the same files with the same contents.
impl PartialEq for StartCheck {
    fn eq(&self, other: &StartCheck) -> bool {
        self.compared == other.compared
    }
}

impl Eq for StartCheck {}
