//! An ACP editor whose user interface is a web page.
//!
//! # Layout
//! - [`editor`]: the state machine: sessions, prompts, updates and requests
//! - [`driver`]: connects it with the chain, the page and the clock
//! - [`content`]: turns messages of ACP into entries of the page

#![forbid(unsafe_code)]
#![warn(missing_docs, unreachable_pub)]

pub mod content;
pub mod driver;
pub mod editor;

pub use driver::run;
pub use editor::Options;
