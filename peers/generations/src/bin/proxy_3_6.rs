//! The proxy of the interop story on crate `agent-client-protocol` 3.6, dialect P4b.

#[path = "../proxy.rs"]
mod proxy;

mod sdk {
    pub use acp_3_6::schema::v1 as schema;
    pub use acp_3_6::*;
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), sdk::Error> {
    proxy::run().await
}
