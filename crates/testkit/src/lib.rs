pub mod peers;
pub mod stub;
