//! The rules of `permissions`, without any message: which actions they allow, deny, and ask about.

mod arguments;
mod attacks;
mod bypass;
mod everyday;
mod files;
mod format;
mod hidden;
mod paths;
mod random;
mod support;
