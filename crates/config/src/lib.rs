//! The configuration of Conductor: `conductor.toml` of the user and of a project.
//!
//! # Layout
//!
//! In reading order:
//!
//! - [`source`]: the text of a file, and errors that point at a place in it
//! - [`file`](mod@file): the types of a file, as it is written
//! - [`variables`]: `${NAME}` in its texts, and files with environment variables
//! - [`when`]: the conditions on which a component is part of a chain
//! - [`chain`]: a named chain with all layers merged
//! - [`project`]: finds the file of a project
//! - [`schema`]: the JSON Schema of a file
//! - [`trust`]: which projects' files the user trusts

pub mod chain;
pub mod file;
pub mod project;
pub mod schema;
pub mod source;
pub mod trust;
pub mod variables;
pub mod when;
