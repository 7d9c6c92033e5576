//! The proxy of the interop story on crate `sacp` 11, dialect P4a.

#[path = "../proxy.rs"]
mod proxy;

mod sdk {
    pub use sacp_11::*;
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), sdk::Error> {
    proxy::run().await
}
