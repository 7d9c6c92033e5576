//! The exchange as conversations, with the numbers of the conformance checklist.
//!
//! Pure and fast: `stage` drives the core as the shell does, and the tests play all peers, line by line, or with the
//! `cast`: consumers and providers of every form.

mod capabilities;
mod cast;
mod declarations;
mod documents;
mod fallback;
mod floods;
mod lifecycle;
mod pairs;
mod places;
mod policy;
mod repeats;
mod restarts;
mod rights;
mod road;
mod rounds;
mod simulation;
mod spellings;
mod stage;
mod successors;
mod timing;
mod twins;
mod world;
