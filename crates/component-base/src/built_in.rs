//! What a component must implement to be a built-in component.

use std::path::Path;

use acp_wire::ErrorKind;
use clap::Parser;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::mentions::Mentions;

/// A built-in component. The fields of the type are its options, on the command line and in files.
///
/// A field has the same name in both: clap's id is the member of serde. The default value must be that of a command
/// line without options, and no option may be required there.
pub trait BuiltIn:
    Parser + Serialize + DeserializeOwned + JsonSchema + Default + Send + Sync + 'static
{
    /// Its name on the command line.
    const NAME: &'static str;

    /// Whether it is an agent, the last component of a chain. All others are proxies.
    const AGENT: bool = false;

    /// Whether it is a guard: the chain does not bypass it unless the user allows it.
    const GUARD: bool = false;

    /// Whether it observes the messages of the whole chain ([`Proxy::observe_chain`](acp_proxy::Proxy::observe_chain)).
    const OBSERVES_MESSAGES: bool = false;

    /// Whether it collects the log messages and metrics of other components.
    const COLLECTS_TELEMETRY: bool = false;

    /// The option that gets the files of the project to which the user has agreed ([`AgreedFiles`](crate::mentions::AgreedFiles)), if
    /// the component reads files of projects while it runs.
    const AGREED_FILES: Option<&'static str> = None;

    /// The files that the component reads, and what it runs because of them. Relative paths begin at each of the folders, and the
    /// project of a session may be each of them. All texts of the options are known already.
    fn mentions(&self, folders: &[&Path]) -> Mentions {
        let _ = folders;
        Mentions::default()
    }

    /// Checks the files that the options name, so that errors are reported before the chain starts.
    ///
    /// # Errors
    /// What is wrong.
    fn check(&self) -> Result<(), OptionError> {
        Ok(())
    }

    /// The text that `conductor component` prints instead of running the component, if the options ask for one.
    fn report(&self) -> Option<Result<String, OptionError>> {
        None
    }

    /// Builds the component. Called at each start.
    fn build(&self) -> acp_proxy::Component;
}

/// What is wrong with the options of a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionError {
    /// The kind of error.
    pub kind: ErrorKind,
    /// What is wrong.
    pub why: String,
}
