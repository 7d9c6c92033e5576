//! The router's rules as conversations. How to read them: `testkit::script`. The numbers are those of
//! the conformance checklist; what a chain of a few players shows holds for longer ones.

mod barriers;
mod cancellation;
mod ending;
mod guards;
mod handshake;
mod nesting;
mod recovery;
mod routing;
mod skip;
mod versions;
