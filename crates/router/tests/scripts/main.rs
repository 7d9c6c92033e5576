//! The router's rules as scripted conversations. `testkit::script` documents the notation. Numbers refer to
//! the conformance checklist. The chains are short; the rules hold for longer ones, too.

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
