pub mod cast;
pub mod diff;
pub mod flow;
pub mod hub;
pub mod notation;
pub mod peers;
pub mod rpc;
pub mod script;
pub mod sim;
#[cfg(unix)]
pub mod stage;
pub mod stub;
