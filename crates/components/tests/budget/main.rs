//! `budget`: what it counts, and when it refuses prompts.

mod agents;
mod chain;
mod ledger;
mod limits;
mod restarts;
mod versions;
