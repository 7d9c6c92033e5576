pub mod peers;
#[cfg(unix)]
pub mod stage;
pub mod stub;
