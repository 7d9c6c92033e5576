pub mod cast;
pub mod diff;
#[cfg(unix)]
pub mod drive;
pub mod flow;
pub mod notation;
pub mod peer;
pub mod peers;
pub mod rpc;
pub mod script;
pub mod shell;
pub mod sim;
#[cfg(unix)]
pub mod stage;
pub mod stub;
