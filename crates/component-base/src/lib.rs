//! What the built-in components of conductor share.
#![warn(missing_docs, unreachable_pub)]

#[cfg(feature = "components")]
pub mod action;
#[cfg(feature = "components")]
pub mod agents;
pub mod append;
#[cfg(feature = "components")]
pub mod audit;
#[cfg(feature = "components")]
pub mod built_in;
pub mod child_environment;
#[cfg(feature = "components")]
pub mod file;
#[cfg(feature = "components")]
pub mod mentions;
#[cfg(feature = "components")]
pub mod options;
#[cfg(feature = "components")]
pub mod refusal;
#[cfg(feature = "components")]
pub mod sessions;
pub mod state_folder;
#[cfg(feature = "components")]
pub mod usage;

#[cfg(feature = "components")]
pub use built_in::{BuiltIn, OptionError};
