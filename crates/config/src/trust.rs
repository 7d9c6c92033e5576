//! Which projects' files the user trusts.
//!
//! The file of a project can start programs, so nothing of it is used before the user has said so. The user consents to bytes:
//! to the file itself, to its env-files, and to each file inside of the project that a component of the file names.
//! [`Evidence`] has the hashes of all of them, as they are now. [`Store`] keeps what the user has consented to, in a folder that
//! only the user can change, for each root of a project.
//!
//! [`Layers::load`] does all steps. Their order matters. A file that the user has never seen must not decide which other files conductor looks at:
//!
//! 1. [`project::find`](crate::project::find) reads the file of the project, once.
//! 2. [`Store::knows`] compares only this text. If it says no, nothing else is read.
//! 3. [`Evidence::gather`] reads the env-files, once, puts them into the [`Configuration`](crate::chain::Configuration), and hashes
//!    the text, the env-files and the named files.
//! 4. [`Store::consent`] compares all of them. Only if it says [`Consent::Given`], the configuration is used: the text and the
//!    env-files *that were hashed*. Otherwise [`Consent::notice`] is what the user is told.
//! 5. [`AgreedFiles`] compares the files of a component again before each of its starts.

mod agreed;
mod digest;
mod evidence;
mod in_named_folders;
mod layers;
mod names;
mod notice;
mod private_folder;
mod record;
mod store;
mod words;

pub use agreed::AgreedFiles;
pub use digest::Digest;
pub use evidence::{CoveredFile, Evidence, EvidenceError, FileState, ReadFile, Role};
pub use layers::{Layered, Layers};
pub use names::Names;
pub use notice::trust_command;
pub use record::Record;
pub use store::{Change, Consent, Difference, Store, StoreError};
